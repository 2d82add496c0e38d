use async_graphql::Enum;

/// What happened to a transaction of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum LedgerEventKind {
    /// The transaction entered the mempool: it is new, or it returned after a reorg disconnected its block.
    Seen,
    /// The transaction left the mempool because another transaction replaced it or one of its ancestors. If the
    /// replacement pays or spends the ledger, its SEEN event follows. With `isCorrection` it had left before, as EVICTED.
    Replaced,
    /// The transaction left the mempool for another reason, given in `reason`, and is in no block. If it returns, a
    /// SEEN event follows. When a reason that was UNKNOWN becomes known, REPLACED or EVICTED follows with `isCorrection`.
    Evicted,
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
    /// between GAP and GAP_END may have no SEEN event, but may have a REPLACED or EVICTED event after GAP_END. `entry`
    /// is null.
    GapEnd,
}
