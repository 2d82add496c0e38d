use std::sync::Arc;

use async_graphql::{Context, Object};
use bitcoin::hashes::Hash;
use bitcoin::hex::FromHex;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BlockHash, Hash256, Hex};
use crate::view::{self, IndexError, MissingFilter, View};

/// A basic compact filter.
#[derive(Clone)]
pub(crate) struct CompactFilterObject {
    view: Arc<View>,
    block: Arc<view::Block>,
    /// In internal byte order.
    header: [u8; 32],
    /// The filter, if the node sent it; the server's own is computed when it is requested.
    from_node: Option<Vec<u8>>,
}

impl CompactFilterObject {
    /// The server's own filter of a block, or else that of the node. `cost` is that of asking the node.
    pub(crate) async fn find(
        ctx: &Context<'_>,
        view: &Arc<View>,
        block: &Arc<view::Block>,
        cost: usize,
    ) -> Result<Self, ApiError> {
        let own = if block.is_main() { Some(view.filter_header(block)) } else { None };
        let why = match own {
            Some(Ok(header)) => {
                let header = header.to_byte_array();
                return Ok(Self { view: view.clone(), block: block.clone(), header, from_node: None });
            }
            Some(Err(why @ (IndexError::FiltersOff | IndexError::FiltersNotReady { .. }))) => Some(why),
            Some(Err(error)) => return Err(error.into()),
            // the server computes none of stale blocks
            None => None,
        };
        costs::spend(ctx, cost)?;
        match view.node_client().compact_filter(block.row.hash).await {
            Ok(found) => {
                view.count(found.filter.len())?;
                Self::of_node(view, block, &found)
            }
            Err(error) => Err(match (why, error.missing_filter()) {
                (Some(why @ IndexError::FiltersNotReady { .. }), Some(_))
                | (Some(why), Some(MissingFilter::NoIndex)) => why.into(),
                _ => ApiError::node_unavailable(&error),
            }),
        }
    }

    /// Errors: the node's answer is not hexadecimal.
    fn of_node(view: &Arc<View>, block: &Arc<view::Block>, found: &view::CompactFilter) -> Result<Self, ApiError> {
        let no_hex = || ApiError::internal("the node returned a compact filter that is not hexadecimal");
        let bytes = Vec::<u8>::from_hex(&found.filter).map_err(|_| no_hex())?;
        let mut header = <[u8; 32]>::from_hex(&found.header).map_err(|_| no_hex())?;
        header.reverse();
        Ok(Self { view: view.clone(), block: block.clone(), header, from_node: Some(bytes) })
    }

    fn filter(&self, ctx: &Context<'_>) -> Result<Hex, ApiError> {
        if let Some(bytes) = &self.from_node {
            return Ok(Hex::new(bytes.clone()));
        }
        costs::spend(ctx, costs::compact_filter(self.block.row.transactions, self.block.row.inputs))?;
        let filter = self.view.basic_filter::<ApiError>(&self.block)?;
        Ok(Hex::new(filter.as_bytes()))
    }
}

impl FieldCacheability for CompactFilterObject {
    const NEVER: &'static str = "blockHash hex filterHeader";
}

/// The basic compact filter of a block (BIP158), with which a light client finds out whether the block may concern it. The
/// filter has the scriptPubKeys that the block pays, OP_RETURN excepted, and those of the outputs that it spends.
#[Object(name = "CompactFilter")]
impl CompactFilterObject {
    /// The hash of the block, which is also the key of the filter.
    async fn block_hash(&self) -> BlockHash {
        BlockHash(self.block.row.hash)
    }

    /// The filter as it is sent between nodes (BIP157): the number of its elements, and a Golomb-coded set. One that the server
    /// computes is computed for each request: the block and the transactions with the outputs that it spends are read, and count
    /// against the limit on transaction bytes in one answer (`server.limits.pages.transactionBytes`).
    #[graphql(complexity = "costs::more(costs::WHOLE_BLOCK, 0)")]
    async fn hex(&self, ctx: &Context<'_>) -> Result<Hex, ApiError> {
        self.filter(ctx)
    }

    /// The filter header (BIP157), which commits to the filters of this block and of all before it, in display (reversed) byte
    /// order.
    async fn filter_header(&self) -> Hash256 {
        Hash256::new(self.header)
    }
}
