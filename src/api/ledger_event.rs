use std::sync::Arc;

use async_graphql::{ComplexObject, Enum, SimpleObject};

use super::error::ApiError;
use super::follow_ledger::Happening;
use super::ledger::{Balance, Holdings, LedgerEntry, Watched};
use super::mempool_event::RemovalReason;
use super::scalars::{Txid, UInt53, int};
use crate::view::View;

/// What happened to a transaction of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum LedgerEventKind {
    /// It entered the mempool: it arrived, or it is back after a block that held it left the main chain.
    Seen,
    /// It left the mempool because another transaction took its place, or the place of one that it stood on. SEEN of that
    /// other one follows, if it concerns the ledger.
    Replaced,
    /// It left the mempool for another reason, see `reason`, and is in no block. It may come back: SEEN tells it.
    Evicted,
    /// A block of the main chain holds it. That is its first confirmation.
    Confirmed,
    /// It has one of the numbers of confirmations that were asked for. After a reorganisation in which it kept its block
    /// and lost confirmations, this is told again.
    DepthReached,
    /// The block that held it left the main chain. If it waits in the mempool again, SEEN follows; if another block holds
    /// it, CONFIRMED.
    UnconfirmedByReorg,
    /// Coins that it created as a coinbase may be spent by the next block: it has 100 confirmations.
    Matured,
    /// Something that happened in the mempool before this was not told and is not remembered: the reader was away for
    /// longer than this server remembers, or before it was started, or with another server. All that was told to wait may
    /// be gone: begin with nothing that waits. SEEN of all that waits now follows, then GAP_END. What blocks did is not
    /// missing. It is not about a transaction: `entry` is null.
    Gap,
    /// All that waits was told, and nothing is missing from here on. In between, what left before it could be told as
    /// SEEN is left out, but may be told as REPLACED or EVICTED behind it. It is not about a transaction: `entry` is null.
    GapEnd,
}

/// Something that happened to a transaction that pays or spends what is watched; or that what happened is not known.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(super) struct LedgerEvent {
    /// The number of this event in this stream, from 1.
    seq: UInt53,
    /// To go on behind this event with the same addresses, scripts and depths.
    cursor: String,
    /// What happened.
    kind: LedgerEventKind,
    /// The transaction, as far as it concerns what is watched, in the state that this event is told from. Null for GAP and
    /// GAP_END, and for no other.
    entry: Option<LedgerEntry>,
    /// Why it left the mempool; null unless it did.
    reason: Option<RemovalReason>,
    /// The transaction that took its place, in the mempool or in a block; null where there is none.
    replaced_by: Option<Txid>,
    #[graphql(skip)]
    confirmations: Option<u32>,
    #[graphql(skip)]
    holdings: Holdings,
}

impl LedgerEvent {
    /// An event as it is told from a view, with its cursor. For what its entry tells of the ledger at most `most`
    /// transactions of the mempool are read.
    pub(super) fn new(
        view: View,
        happening: &Happening,
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
            replaced_by: happening.replaced_by.map(Txid),
            confirmations: happening.depth,
            holdings: watched.in_view(&view),
        })
    }
}

#[ComplexObject]
impl LedgerEvent {
    /// How many confirmations it reached with this event: 1 when it is confirmed, 100 when it matures; null for events
    /// that are not about that.
    async fn depth(&self) -> Option<Result<i32, ApiError>> {
        self.confirmations.map(int)
    }

    /// What all that is watched holds together in the state that this event is told from, which can be newer than the
    /// event.
    async fn balance(&self) -> Option<Result<Balance, ApiError>> {
        Some(self.holdings.balance(None))
    }
}
