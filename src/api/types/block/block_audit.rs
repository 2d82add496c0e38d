use std::sync::Arc;

use async_graphql::{Context, Object};

use super::block::{TXID_DIGITS, TXIDS};
use super::effective_rates::mined_feerates;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Sats, Txid, int, int_of};
use crate::view::{self, BlockAudit, MinedFeerates, View};

/// A block, and how it compares with the projected one.
pub(crate) struct BlockAuditObject {
    view: Arc<View>,
    block: Arc<view::Block>,
    audit: BlockAudit,
}

impl BlockAuditObject {
    pub(crate) fn new(view: &Arc<View>, block: &Arc<view::Block>, audit: BlockAudit) -> Self {
        Self { view: view.clone(), block: block.clone(), audit }
    }

    /// Counts a list of txids before it is read or returned.
    fn count(&self, ctx: &Context<'_>, txids: usize) -> Result<(), ApiError> {
        costs::spend(ctx, txids)?;
        Ok(self.view.count(txids.saturating_mul(TXID_DIGITS))?)
    }

    fn txids(&self, ctx: &Context<'_>, txids: &[bitcoin::Txid]) -> Result<Vec<Txid>, ApiError> {
        self.count(ctx, txids.len())?;
        Ok(txids.iter().copied().map(Txid).collect())
    }

    /// The txids of transactions of the block.
    fn mined(&self, ctx: &Context<'_>, indexes: &[u32]) -> Result<Vec<Txid>, ApiError> {
        if indexes.is_empty() {
            return Ok(Vec::new());
        }
        self.count(ctx, usize::try_from(self.block.row.transactions).unwrap_or(usize::MAX))?;
        self.view.count(self.block.bytes_to_open())?;
        let txids = self.view.txids(&self.block)?;
        let txid = |index: &u32| usize::try_from(*index).ok().and_then(|index| txids.get(index)).copied().map(Txid);
        let found: Option<Vec<_>> = indexes.iter().map(txid).collect();
        found.ok_or_else(|| ApiError::internal("the audit of a block names a transaction that the block does not have"))
    }
}

/// Whether the transaction at this index of a block stands ahead of one with a higher feerate.
pub(super) fn is_ahead(feerates: &MinedFeerates, index: u32) -> bool {
    // the coinbase is not among those that pay
    usize::try_from(index)
        .ok()
        .and_then(|index| index.checked_sub(1))
        .is_some_and(|place| feerates.ahead().contains(&place))
}

impl FieldCacheability for BlockAuditObject {
    const UNTIL_NEXT_HEAD: &'static str = "projectedTxCount totalProjectedWeight totalProjectedFees matchRate missing \
        fresh unexpected unseen prioritised";
}

/// How a block compares with the next block that was projected of the mempool of this server right before the block arrived
/// (`mempool.projectedBlocks`). Miners have mempools of their own, so no block is expected to match exactly.
#[Object(name = "BlockAudit")]
impl BlockAuditObject {
    /// The number of transactions of the projected block, which has no coinbase.
    async fn projected_tx_count(&self) -> Result<i32, ApiError> {
        int(self.audit.projected_count)
    }

    /// The sum of the weights of the transactions of the projected block, in weight units.
    async fn total_projected_weight(&self) -> Result<i32, ApiError> {
        int_of(self.audit.projected_weight)
    }

    /// The sum of the fees of the projected block, in satoshis. `totalFees` of the block is the actual sum.
    async fn total_projected_fees(&self) -> Result<Sats, ApiError> {
        Sats::new(self.audit.projected_fees)
    }

    /// The share of the projected weight that is in the block, from 0 to 1, without the transactions of `fresh`. 1 if nothing
    /// else was projected.
    async fn match_rate(&self) -> f64 {
        self.audit.match_rate()
    }

    /// Projected transactions that are not in the block, without those of `fresh`. Not sorted by any rule that lasts. At most
    /// as many as the projected block had.
    #[graphql(complexity = "costs::list(TXIDS, 0)")]
    async fn missing(&self, ctx: &Context<'_>) -> Result<Vec<Txid>, ApiError> {
        self.txids(ctx, &self.audit.missing)
    }

    /// Projected transactions that are not in the block and arrived within the last three minutes before it, so that its miner
    /// may not have had them. At most as many as the projected block had.
    #[graphql(complexity = "costs::list(TXIDS, 0)")]
    async fn fresh(&self, ctx: &Context<'_>) -> Result<Vec<Txid>, ApiError> {
        self.txids(ctx, &self.audit.fresh)
    }

    /// Transactions of the block that were in the mempool and not projected, in block order. At most as many as
    /// `Block.txCount`.
    #[graphql(complexity = "costs::list(TXIDS, 0)")]
    async fn unexpected(&self, ctx: &Context<'_>) -> Result<Vec<Txid>, ApiError> {
        self.mined(ctx, &self.audit.unexpected)
    }

    /// Transactions of the block that were not in the mempool, in block order, without the coinbase. At most as many as
    /// `Block.txCount`.
    #[graphql(complexity = "costs::list(TXIDS, 0)")]
    async fn unseen(&self, ctx: &Context<'_>) -> Result<Vec<Txid>, ApiError> {
        self.mined(ctx, &self.audit.unseen)
    }

    /// Transactions of `unexpected` and `unseen` that stand in the block ahead of transactions with a higher effective feerate
    /// (`BlockSummary.effectiveFeeRates`), in block order: their miner prefers them for another reason than their fees. The longest part of the block whose
    /// effective feerates never rise is taken for its order. Null for a stale block. At most as many as `Block.txCount`.
    #[graphql(complexity = "costs::contents(costs::list(TXIDS, 0))")]
    async fn prioritised(&self, ctx: &Context<'_>) -> Option<Result<Vec<Txid>, ApiError>> {
        let listed = |feerates: Arc<MinedFeerates>| {
            let BlockAudit { unexpected, unseen, .. } = &self.audit;
            let mut found: Vec<u32> = unexpected.iter().chain(unseen).copied().collect();
            found.retain(|index| is_ahead(&feerates, *index));
            found.sort_unstable();
            self.mined(ctx, &found)
        };
        let feerates = mined_feerates(ctx, &self.view, &self.block).transpose()?;
        Some(feerates.and_then(listed))
    }
}
