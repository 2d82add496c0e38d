use std::sync::Arc;

use async_graphql::{Context, Object};

use super::block_audit::is_ahead;
use super::effective_rates::mined_feerates;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::view::{self, BlockAudit, View};

/// A transaction of a block, and how the block compares with the projected one.
pub(crate) struct TransactionAudit {
    view: Arc<View>,
    block: view::Block,
    audit: BlockAudit,
    /// Its index in the block.
    index: u32,
}

impl TransactionAudit {
    /// `None` for a coinbase, for what is not on the main chain, and if its block was not compared.
    ///
    /// Errors: those of the index.
    pub(crate) fn of(view: &Arc<View>, transaction: &view::Transaction) -> Result<Option<Self>, ApiError> {
        let Some(place) = transaction.place.filter(|place| !place.is_coinbase()) else { return Ok(None) };
        let block = view.main_block(place.height)?;
        let audit = view.block_arrival(&block)?.and_then(|arrival| arrival.audit);
        let audited = |audit: BlockAudit| {
            // its lists are read for each transaction
            let txids = audit.missing.len().saturating_add(audit.fresh.len());
            let indexes = audit.unexpected.len().saturating_add(audit.unseen.len());
            view.count(txids.saturating_mul(32).saturating_add(indexes.saturating_mul(8)))?;
            Ok(Self { view: view.clone(), block, audit, index: place.index })
        };
        audit.map(audited).transpose()
    }

    fn was_projected(&self) -> bool {
        let BlockAudit { unexpected, unseen, .. } = &self.audit;
        !unexpected.contains(&self.index) && !unseen.contains(&self.index)
    }
}

impl FieldCacheability for TransactionAudit {
    const UNTIL_NEXT_HEAD: &'static str = "isProjected isSeen isPrioritised";
}

/// How the miner of its block treated a transaction, by the block that was projected of the mempool of this server right before
/// (`Block.audit`).
#[Object]
impl TransactionAudit {
    /// Whether the projected block had the transaction.
    async fn is_projected(&self) -> bool {
        self.was_projected()
    }

    /// Whether the transaction was in the mempool before its block arrived.
    async fn is_seen(&self) -> bool {
        !self.audit.unseen.contains(&self.index)
    }

    /// Whether the transaction is one of `BlockAudit.prioritised`. Null only together with an error.
    #[graphql(complexity = "costs::contents(0)")]
    async fn is_prioritised(&self, ctx: &Context<'_>) -> Option<Result<bool, ApiError>> {
        let feerates = mined_feerates(ctx, &self.view, &self.block).transpose()?;
        Some(feerates.map(|feerates| !self.was_projected() && is_ahead(&feerates, self.index)))
    }
}
