use std::sync::Arc;

use async_graphql::{ComplexObject, SimpleObject};

use super::descriptor_match::DescriptorMatch;
use super::ledger_event_kind::LedgerEventKind;
use super::watched::Watched;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Txid, UInt53, int};
use crate::api::streams::ledger::event::LedgerUpdate;
use crate::api::types::ledger::balance::Balance;
use crate::api::types::ledger::entry::{LedgerEntry, TOUCHED};
use crate::api::types::ledger::holdings::Holdings;
use crate::api::types::mempool::RemovalReason;
use crate::view::{ScriptKey, View};

/// An event of a transaction that pays or spends a watched address or script, or a notice that events may be missing.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(crate) struct LedgerEvent {
    /// The number of this event in its stream. It goes on from `after`: 1 more than that of the event before it.
    seq: UInt53,
    /// The cursor of this event. Pass it as `after`, with the same addresses, scripts, descriptors, gap limits and depths, to resume
    /// after this event.
    cursor: String,
    /// What happened.
    kind: LedgerEventKind,
    /// The transaction and its effect on the watched scripts, in the state of this event. Null for GAP and GAP_END, and
    /// only for these.
    entry: Option<LedgerEntry>,
    /// Why the transaction left the mempool. Null unless it left.
    reason: Option<RemovalReason>,
    /// The txid of the transaction that replaced it, in the mempool or in a block. Null if there is none.
    replaced_by_txid: Option<Txid>,
    /// True if the transaction had left the mempool before for the reason UNKNOWN and did not return: `kind`, `reason`
    /// and `replacedByTxid` replace those of the earlier EVICTED. False otherwise.
    is_correction: bool,
    /// True if the transaction, or what happened to it, came before the events that were sent already: it pays or spends a
    /// script of a descriptor that is watched only now, because the wallet used it behind its gap. False otherwise.
    is_backfill: bool,
    #[graphql(skip)]
    watched: Watched,
    #[graphql(skip)]
    scripts: Vec<ScriptKey>,
    #[graphql(skip)]
    confirmations: Option<u32>,
    #[graphql(skip)]
    holdings: Holdings,
}

impl FieldCacheability for LedgerEvent {
    const NEVER: &'static str =
        "seq cursor kind entry reason replacedByTxid isCorrection isBackfill depth matches balance";
}

impl LedgerEvent {
    /// An event in the state of a view, with its cursor. For the balance in its entry at most `most`
    /// transactions of the mempool are read.
    pub(crate) fn new(
        view: View,
        happening: &LedgerUpdate,
        watched: Watched,
        (seq, cursor): (UInt53, String),
        most: u32,
    ) -> Result<Self, ApiError> {
        let view = Arc::new(view);
        Ok(Self {
            seq,
            cursor,
            kind: happening.kind,
            entry: happening.entry(&view, &watched, most)?,
            reason: happening.reason,
            replaced_by_txid: happening.replaced_by.map(Txid),
            is_correction: happening.is_correction,
            is_backfill: happening.is_backfill(),
            scripts: happening.effect.as_ref().map(|effect| effect.scripts().to_vec()).unwrap_or_default(),
            confirmations: happening.depth,
            holdings: watched.in_view(&view),
            watched,
        })
    }
}

#[ComplexObject]
impl LedgerEvent {
    /// The number of confirmations reached with this event: 1 for CONFIRMED, 100 for MATURED, a requested number for
    /// DEPTH_REACHED. Null for events of other kinds.
    async fn depth(&self) -> Option<Result<i32, ApiError>> {
        self.confirmations.map(int)
    }

    /// The scripts of watched descriptors that the transaction pays or spends, by descriptor, branch and index. Empty without
    /// descriptors; at most as many as are watched.
    #[graphql(complexity = "costs::list(TOUCHED, child_complexity)")]
    async fn matches(&self) -> Option<Result<Vec<DescriptorMatch>, ApiError>> {
        Some(self.watched.matches(&self.holdings.view, &self.scripts))
    }

    /// The balance of all watched scripts together, in the state of this event, which can be newer than the event
    /// itself.
    async fn balance(&self) -> Option<Result<Balance, ApiError>> {
        Some(self.holdings.balance(None))
    }
}
