//! How much the mempool keeps of what is past, and what only the node knows.

/// How much is kept of what is past. What is in the mempool now is limited by the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MempoolLimits {
    /// How many transactions that left without being mined are remembered.
    pub departed: usize,
    /// How many bytes of them, in their serialisation with witness, are kept; of older ones only the figures are.
    pub departed_bytes: usize,
    /// How many events can be read again.
    pub events: usize,
}

impl Default for MempoolLimits {
    fn default() -> Self {
        Self { departed: 20_000, departed_bytes: 32 << 20, events: 100_000 }
    }
}

/// What the node says of its own mempool (`getmempoolinfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeMempool {
    /// The lowest feerate that it takes now, in sat/vB: at least `min_relay_fee_rate`, and more while it is full
    /// (`mempoolminfee`).
    pub min_fee_rate: f64,
    /// The lowest feerate that it relays, in sat/vB (`minrelaytxfee`).
    pub min_relay_fee_rate: f64,
    /// By how much a replacement must pay more for its own size, in sat/vB (`incrementalrelayfee`).
    pub incremental_fee_rate: f64,
    /// The most memory it may take, in bytes (`maxmempool`).
    pub max_memory: u64,
    /// The memory it takes, in bytes (`usage`).
    pub memory_usage: u64,
    /// Whether the node has read the mempool of its last run (`loaded`).
    pub loaded: bool,
}
