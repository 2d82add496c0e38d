use std::time::SystemTime;

use async_graphql::SimpleObject;

use super::super::error::ApiError;
use super::super::scalars::{Sats, UInt53, int_of};
use crate::view::View;

/// What the unconfirmed transactions add up to, and what the Bitcoin node says of its mempool. What only the node knows is
/// 0 until it was asked.
#[derive(Clone, PartialEq, SimpleObject)]
pub(in crate::api) struct MempoolStats {
    /// How many transactions there are.
    count: i32,
    /// Their virtual sizes together, each rounded up, in vbytes.
    vsize: UInt53,
    /// Their weights together, in weight units.
    weight: UInt53,
    /// Their serialisations together, witnesses included, in bytes.
    bytes: UInt53,
    /// Their fees together, in satoshis.
    total_fee: Sats,
    /// The memory that the node's mempool takes, in bytes, as the node last said.
    memory_usage: UInt53,
    /// The most memory that the node's mempool may take, in bytes.
    max_memory: UInt53,
    /// The lowest feerate that the node takes now, in sat/vB: above `minRelayFeeRate` while its mempool is full.
    min_fee_rate: f64,
    /// The lowest feerate that the node relays at all, in sat/vB.
    min_relay_fee_rate: f64,
    /// By how much a replacement must pay more for its own size than what it replaces, in sat/vB.
    incremental_fee_rate: f64,
    /// Whether the node has read the mempool of its last run.
    loaded: bool,
    /// The number of the newest arrival or departure since this server was started; 0 before the first.
    sequence: UInt53,
    /// New transactions a second, on average over the last minute. What was there when the server was started counts not.
    tx_per_second: f64,
    /// New virtual bytes a second, likewise.
    vbytes_per_second: f64,
    /// How many outputs the transactions have together.
    output_count: UInt53,
}

impl MempoolStats {
    pub(in crate::api) fn of(view: &View) -> Result<Self, ApiError> {
        let mempool = view.mempool();
        let (totals, node) = (mempool.totals(), mempool.node());
        // of this moment: when nothing arrives, nothing is published either
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let rate = mempool.arrival_rate(now);
        Ok(Self {
            count: int_of(totals.count)?,
            vsize: UInt53::new(totals.vsize)?,
            weight: UInt53::new(totals.weight)?,
            bytes: UInt53::new(totals.size)?,
            total_fee: Sats::new(totals.fee)?,
            memory_usage: UInt53::new(node.memory_usage)?,
            max_memory: UInt53::new(node.max_memory)?,
            min_fee_rate: node.min_fee_rate,
            min_relay_fee_rate: node.min_relay_fee_rate,
            incremental_fee_rate: node.incremental_fee_rate,
            loaded: node.loaded,
            sequence: UInt53::new(mempool.sequence())?,
            tx_per_second: rate.transactions,
            vbytes_per_second: rate.vsize,
            output_count: UInt53::new(totals.outputs)?,
        })
    }
}
