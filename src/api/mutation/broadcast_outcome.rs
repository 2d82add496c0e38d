use async_graphql::Enum;

/// What became of a transaction that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum BroadcastOutcome {
    /// The node took it into its mempool, and tells it to the network.
    Accepted,
    /// It was in the mempool already, maybe with another witness; the node tells it to the network again.
    AlreadyInMempool,
    /// A block of the main chain holds it already.
    AlreadyConfirmed,
    /// It was not taken; `reject` says why.
    Rejected,
    /// The node may have been handed it and did not answer, so that it is not known whether it has the transaction. Send it
    /// again. Where it surely was not sent there is no outcome, but the error NODE_UNAVAILABLE.
    NodeUnreachable,
}

impl BroadcastOutcome {
    /// Whether the transaction is where it was to go.
    pub(super) fn is_success(self) -> bool {
        matches!(self, Self::Accepted | Self::AlreadyInMempool | Self::AlreadyConfirmed)
    }
}
