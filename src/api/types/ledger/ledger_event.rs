use std::sync::Arc;

use async_graphql::{ComplexObject, SimpleObject};

use super::balance::Balance;
use super::entry::LedgerEntry;
use super::holdings::Holdings;
use super::ledger_event_kind::LedgerEventKind;
use super::watched::Watched;
use crate::api::error::ApiError;
use crate::api::scalars::{Txid, UInt53, int};
use crate::api::streams::ledger::event::LedgerUpdate;
use crate::api::types::mempool::RemovalReason;
use crate::view::View;

/// An event of a transaction that pays or spends a watched address or script, or a notice that events may be missing.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(crate) struct LedgerEvent {
    /// The number of this event in its stream. It goes on from `after`: 1 more than that of the event before it.
    seq: UInt53,
    /// The cursor of this event. Pass it as `after`, with the same addresses, scripts and depths, to resume after this
    /// event.
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
    #[graphql(skip)]
    confirmations: Option<u32>,
    #[graphql(skip)]
    holdings: Holdings,
}

impl LedgerEvent {
    /// An event in the state of a view, with its cursor. For the balance in its entry at most `most`
    /// transactions of the mempool are read.
    pub(crate) fn new(
        view: View,
        happening: &LedgerUpdate,
        watched: &Watched,
        (seq, cursor): (UInt53, String),
        most: u32,
    ) -> Result<Self, ApiError> {
        let view = Arc::new(view);
        Ok(Self {
            seq,
            cursor,
            kind: happening.kind,
            entry: happening.entry(&view, watched, most)?,
            reason: happening.reason,
            replaced_by_txid: happening.replaced_by.map(Txid),
            is_correction: happening.is_correction,
            confirmations: happening.depth,
            holdings: watched.in_view(&view),
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

    /// The balance of all watched scripts together, in the state of this event, which can be newer than the event
    /// itself.
    async fn balance(&self) -> Option<Result<Balance, ApiError>> {
        Some(self.holdings.balance(None))
    }
}
