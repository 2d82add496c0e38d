use async_graphql::Enum;

/// The result of submitting a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum BroadcastOutcome {
    /// The node accepted the transaction into its mempool and relays it to the network.
    Accepted,
    /// The transaction was already in the mempool, possibly with a different witness. The node relays it again.
    AlreadyInMempool,
    /// The transaction is already in a block of the main chain.
    AlreadyConfirmed,
    /// The node rejected the transaction; `reject` says why.
    Rejected,
    /// The node may have received the transaction but did not respond, so the outcome is unknown. Submit it again. If
    /// the transaction was certainly not sent, the mutation fails with NODE_UNAVAILABLE instead.
    NodeUnreachable,
}

impl BroadcastOutcome {
    /// Whether the transaction is where it was to go.
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Accepted | Self::AlreadyInMempool | Self::AlreadyConfirmed)
    }
}
