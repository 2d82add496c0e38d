//! Mining pools, and their part in the chain.

mod miner;
mod miner_series_point;
mod miner_share;
mod miner_totals;

pub(crate) use miner::Miner;
pub(crate) use miner_series_point::MinerSeriesPoint;
pub(crate) use miner_share::{MinerShare, POOLS};
pub(crate) use miner_totals::MinerTotalsObject;
