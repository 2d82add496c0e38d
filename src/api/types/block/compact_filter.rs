use async_graphql::SimpleObject;
use bitcoin::hex::FromHex;

use crate::api::error::ApiError;
use crate::api::scalars::{Hash256, Hex};
use crate::view;

/// The basic compact filter of a block (BIP158), with which a light client finds out whether the block may concern it. The
/// filter has the scriptPubKeys that the block pays, OP_RETURN excepted, and those of the outputs that it spends.
#[derive(SimpleObject)]
#[graphql(name = "CompactFilter")]
pub(crate) struct CompactFilterObject {
    /// The filter as it is sent between nodes (BIP157): the number of its elements, and a Golomb-coded set.
    hex: Hex,
    /// The filter header (BIP157), which commits to the filters of this block and of all before it, in display (reversed) byte
    /// order.
    filter_header: Hash256,
}

impl CompactFilterObject {
    /// Errors: the node's answer is not hexadecimal.
    pub(crate) fn new(filter: &view::CompactFilter) -> Result<Self, ApiError> {
        let no_hex = || ApiError::internal("the node returned a compact filter that is not hexadecimal");
        let bytes = Vec::<u8>::from_hex(&filter.filter).map_err(|_| no_hex())?;
        let mut header = <[u8; 32]>::from_hex(&filter.header).map_err(|_| no_hex())?;
        header.reverse();
        Ok(Self { hex: Hex::new(bytes), filter_header: Hash256::new(header) })
    }
}
