//! The published Head, and the answer to a question over it.
//!
//! `sync` opens one snapshot after each commit and publishes it by one atomic swap. A request, and each event of a
//! subscription, pins the Head it begins with, so that everything in one answer is from one state of the chain.
//! Nothing else begins reads.

mod head;

pub use head::{Head, Published, SyncState};
