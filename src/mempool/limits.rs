//! The limits of the mempool's history and of projected blocks, and the node's report of its mempool.

/// The default of the maximum weight of the transactions of a block, in weight units: Core's `-blockmaxweight` of 4,000,000
/// less the 8,000 that it reserves for header and coinbase (`DEFAULT_BLOCK_RESERVED_WEIGHT`, `policy/policy.h`).
pub const PROJECTED_BLOCK_WEIGHT: u64 = 3_992_000;

/// The limits of history and of projected blocks. The node limits the current content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MempoolLimits {
    /// The number of transactions in the journal of departures.
    pub departed: usize,
    /// The total size of their serialisations with witness; older ones lose their bytes and keep their metadata.
    pub departed_bytes: usize,
    /// The number of events that can be replayed.
    pub events: usize,
    /// The maximum weight of the transactions of a projected block, in weight units.
    pub block_weight: u64,
}

impl Default for MempoolLimits {
    fn default() -> Self {
        Self { departed: 20_000, departed_bytes: 32 << 20, events: 100_000, block_weight: PROJECTED_BLOCK_WEIGHT }
    }
}

/// The node's report of its mempool (`getmempoolinfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeMempool {
    /// The lowest feerate that it accepts now, in sat/vB: at least `min_relay_fee_rate`, and more while it is full
    /// (`mempoolminfee`).
    pub min_fee_rate: f64,
    /// The lowest feerate that it relays, in sat/vB (`minrelaytxfee`).
    pub min_relay_fee_rate: f64,
    /// The feerate that a replacement adds for its own size, in sat/vB (`incrementalrelayfee`).
    pub incremental_fee_rate: f64,
    /// The memory limit in bytes (`maxmempool`).
    pub max_memory: u64,
    /// The memory in use, in bytes (`usage`).
    pub memory_usage: u64,
    /// Whether the node has loaded the mempool of its last run (`loaded`).
    pub loaded: bool,
}
