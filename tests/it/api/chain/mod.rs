//! The chain as a whole.

pub(crate) mod deployments;
mod difficulty;
mod network_hashrate;
mod series;
mod totals;
