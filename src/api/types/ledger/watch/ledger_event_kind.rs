use async_graphql::Enum;

use crate::view::{Departure, TransactionState, state_after};

/// What happened to a transaction of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum LedgerEventKind {
    /// The transaction entered the mempool: it is new, or it returned after a reorg disconnected its block.
    Seen,
    /// The transaction left the mempool because another transaction replaced it or one of its ancestors. If the
    /// replacement pays or spends the ledger, its SEEN event follows. With `isCorrection` it had left before, as EVICTED.
    Replaced,
    /// The transaction left the mempool because a block contains one that spends the same output, or an output that an
    /// unconfirmed ancestor spends. With `isCorrection` it had left before, as EVICTED.
    Conflicted,
    /// The transaction left the mempool because it expired, because the mempool was full, or for an UNKNOWN reason, and is in no
    /// block. If it returns, a SEEN event follows. When a reason that was UNKNOWN becomes known, REPLACED or CONFLICTED follows
    /// with `isCorrection`.
    Evicted,
    /// The transaction left the mempool because a reorg removed an ancestor from the chain, or moved the chain back to where
    /// it is not final.
    ReorgedOut,
    /// A block of the main chain contains the transaction: its first confirmation.
    Confirmed,
    /// The transaction has one of the requested numbers of confirmations. The event repeats after a reorg in which the
    /// transaction keeps its block but loses confirmations.
    DepthReached,
    /// The block that contained the transaction left the main chain. SEEN follows if the transaction returns to the
    /// mempool, CONFIRMED if another block contains it.
    UnconfirmedByReorg,
    /// The coinbase outputs that the transaction created are mature: it has 100 confirmations, and the next block may
    /// spend them.
    Matured,
    /// Earlier mempool events are missing because the server no longer has them: the client was away for longer than
    /// the server stores events, or resumes from before a restart or from another server. Discard all unconfirmed
    /// transactions: any of them may be gone. SEEN events for the whole current mempool follow, then GAP_END. No block
    /// events are missing. `entry` is null.
    Gap,
    /// All unconfirmed transactions are reported, and no events are missing from here on. A transaction that left
    /// between GAP and GAP_END may have no SEEN event, but may have an event of its departure after GAP_END. `entry`
    /// is null.
    GapEnd,
}

impl LedgerEventKind {
    /// Of a transaction that left the mempool without a confirmation.
    pub(crate) fn of(departure: Departure) -> Self {
        match state_after(departure) {
            TransactionState::Replaced => Self::Replaced,
            TransactionState::Conflicted => Self::Conflicted,
            TransactionState::ReorgedOut => Self::ReorgedOut,
            _ => Self::Evicted,
        }
    }
}
