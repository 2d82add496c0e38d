//! The Bitcoin node behind this server, and the progress of the index towards it.

mod bitcoin_node;
mod sync_progress;

pub(crate) use bitcoin_node::BitcoinNode;
pub(crate) use sync_progress::{DiskShortageObject, LostBlock, SyncProgress};
