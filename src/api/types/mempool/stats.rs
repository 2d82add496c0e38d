use std::time::SystemTime;

use async_graphql::SimpleObject;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Sats, UInt53, int_of};
use crate::view::View;

/// Totals of the unconfirmed transactions, and the Bitcoin node's mempool figures. Figures that only the node knows are
/// 0 until the node reports them.
#[derive(Clone, PartialEq, SimpleObject)]
pub(crate) struct MempoolStats {
    /// The number of unconfirmed transactions.
    tx_count: i32,
    /// The total virtual size by which nodes judge the transactions (`adjustedVsize`), in vbytes.
    total_vsize: UInt53,
    /// The total weight of the transactions, in weight units.
    total_weight: UInt53,
    /// The total serialised size of the transactions in bytes, witnesses included.
    total_size: UInt53,
    /// The total fees of the transactions, in satoshis.
    total_fees: Sats,
    /// The memory usage of the node's mempool in bytes, as last reported.
    memory_usage: UInt53,
    /// The maximum memory usage of the node's mempool, in bytes.
    max_memory: UInt53,
    /// The lowest feerate that the node currently accepts, in sat/vB. Above `minRelayFeeRate` while its mempool is
    /// full.
    min_fee_rate: f64,
    /// The lowest feerate that the node ever relays, in sat/vB.
    min_relay_fee_rate: f64,
    /// The additional feerate that a replacement must pay for its own size, in sat/vB.
    incremental_fee_rate: f64,
    /// Whether the node has finished loading its saved mempool.
    loaded: bool,
    /// The sequence number of the newest arrival or departure since this server started. 0 before the first.
    sequence: UInt53,
    /// The mean rate of arrivals over the last minute, in transactions per second. Transactions that were in the
    /// mempool when the server started do not count.
    tx_per_second: f64,
    /// The mean rate of arrivals, in vbytes per second.
    vbytes_per_second: f64,
    /// The total number of outputs of the transactions.
    output_count: i32,
}

impl FieldCacheability for MempoolStats {
    const UNTIL_NEXT_HEAD: &'static str = "txCount totalVsize totalWeight totalSize totalFees memoryUsage maxMemory \
        minFeeRate minRelayFeeRate incrementalFeeRate loaded sequence outputCount";
    const NEVER: &'static str = "txPerSecond vbytesPerSecond";
}

impl MempoolStats {
    pub(crate) fn of(view: &View) -> Result<Self, ApiError> {
        let mempool = view.mempool();
        let (totals, node) = (mempool.totals(), mempool.node());
        // of this moment: when nothing arrives, nothing is published either
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let rate = mempool.arrival_rate(now);
        Ok(Self {
            tx_count: int_of(totals.count)?,
            total_vsize: UInt53::new(totals.vsize)?,
            total_weight: UInt53::new(totals.weight)?,
            total_size: UInt53::new(totals.size)?,
            total_fees: Sats::new(totals.fee)?,
            memory_usage: UInt53::new(node.memory_usage)?,
            max_memory: UInt53::new(node.max_memory)?,
            min_fee_rate: node.min_fee_rate,
            min_relay_fee_rate: node.min_relay_fee_rate,
            incremental_fee_rate: node.incremental_fee_rate,
            loaded: node.loaded,
            sequence: UInt53::new(mempool.sequence())?,
            tx_per_second: rate.transactions,
            vbytes_per_second: rate.vsize,
            output_count: int_of(totals.outputs)?,
        })
    }
}
