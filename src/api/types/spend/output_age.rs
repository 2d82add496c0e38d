use async_graphql::SimpleObject;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{UInt53, int};
use crate::view;

/// A time between two blocks of the main chain: the one that creates an output, and the tip or the one that spends it.
#[derive(Clone, Copy, Debug, SimpleObject)]
#[graphql(name = "OutputAge")]
pub(crate) struct OutputAgeObject {
    /// The difference of their heights.
    block_count: i32,
    /// The difference of their median times past, in seconds.
    seconds: UInt53,
}

impl FieldCacheability for OutputAgeObject {
    const IMMUTABLE: &'static str = "blockCount seconds";
}

impl OutputAgeObject {
    pub(crate) fn new(age: view::OutputAge) -> Result<Self, ApiError> {
        Ok(Self { block_count: int(age.blocks)?, seconds: age.seconds.into() })
    }
}
