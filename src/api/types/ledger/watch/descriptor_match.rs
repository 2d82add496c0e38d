use async_graphql::SimpleObject;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::int_of;
use crate::api::types::ledger::derived_address::DerivedAddress;

/// A script of a watched descriptor that a transaction pays or spends.
#[derive(SimpleObject)]
pub(crate) struct DescriptorMatch {
    /// The position of the descriptor in `watch.descriptors`, from 0.
    descriptor_index: i32,
    /// The script, with its path, branch and index.
    derived: DerivedAddress,
}

impl FieldCacheability for DescriptorMatch {
    const IMMUTABLE: &'static str = "descriptorIndex derived";
}

impl DescriptorMatch {
    /// A script of the descriptor at a position of the list.
    pub(crate) fn new(position: usize, derived: DerivedAddress) -> Result<Self, ApiError> {
        Ok(Self { descriptor_index: int_of(position)?, derived })
    }
}
