//! Mining pools.

mod miner;

pub(crate) use miner::Miner;
