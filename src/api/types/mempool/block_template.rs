use std::sync::Arc;
use std::time::SystemTime;

use async_graphql::SimpleObject;

use crate::api::allowance::ITEM_BYTES;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BlockHash, DateTime, Sats, Txid, int, int_of};
use crate::view::View;

/// The block that the Bitcoin node would assemble next, without its coinbase. Compare it with `projectedBlocks` to see
/// how far this server's projection differs from a node's.
#[derive(SimpleObject)]
#[graphql(name = "BlockTemplate")]
pub(crate) struct BlockTemplateObject {
    /// The height that the block would have.
    height: i32,
    /// The hash of the block that it would follow: the node's tip, which can be newer than the state of this answer.
    previous_block_hash: BlockHash,
    /// The total fees of the transactions, in satoshis.
    total_fees: Sats,
    /// The number of transactions.
    tx_count: i32,
    /// The total weight of the transactions, in weight units.
    weight: i32,
    /// The txids of the transactions, in block order. At most as many as fit into a block.
    #[graphql(complexity = "costs::list(costs::TRANSACTIONS, 0)")]
    txids: Vec<Txid>,
    /// When the node returned the template, by this server's clock.
    taken_at: DateTime,
}

impl FieldCacheability for BlockTemplateObject {
    const NEVER: &'static str = "height previousBlockHash totalFees txCount weight txids takenAt";
}

impl BlockTemplateObject {
    /// Asks the node for one. Errors: FEATURE_DISABLED if the settings do not let clients do that; NODE_UNAVAILABLE if the
    /// node is away, and if it makes none.
    pub(crate) async fn ask(view: &Arc<View>) -> Result<Self, ApiError> {
        let found = view.node_client().block_template().await.map_err(|error| ApiError::node_unavailable(&error))?;
        view.count(found.transactions.len().saturating_mul(ITEM_BYTES))?;
        let (mut fees, mut weight) = (0_u64, 0_u64);
        for transaction in &found.transactions {
            fees = fees.saturating_add(transaction.fee.to_sat());
            weight = weight.saturating_add(transaction.weight.to_wu());
        }
        Ok(Self {
            height: int(found.height.to_u32())?,
            previous_block_hash: BlockHash(found.previous),
            total_fees: Sats::new(fees)?,
            tx_count: int_of(found.transactions.len())?,
            weight: int_of(weight)?,
            txids: found.transactions.iter().map(|transaction| Txid(transaction.txid)).collect(),
            taken_at: DateTime::from_system(SystemTime::now()),
        })
    }
}
