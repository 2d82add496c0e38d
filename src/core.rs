//! What btcgraph's API stands on: the chain, a node to ask, the index and the mempool that follow it, and one view of all
//! of them. The page of the crate `btcgraph` has the order of the modules.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod chain;
pub mod durable;
pub mod index;
pub mod live;
pub mod mempool;
pub mod node;
pub mod sim;
pub mod sync;
pub mod view;
