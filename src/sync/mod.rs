//! The loop that keeps index and mempool equal to the node.
//!
//! ```text
//!   node tip ≠ index tip?
//!        │ yes
//!   fork point ──► disconnect down to it ──► connect up to the node's tip ──► commit ──► publish the Head ──► events
//!                                                 ▲
//!                    fetch (several at once) ──► parse ──► batches
//! ```
//!
//! One thread runs this loop (`follow.rs`, `advance.rs`; `sync_loop.rs` has its state). It owns the index and the mempool
//! (`mempool/`) and publishes their Heads together; it freezes, merges and builds tables in steps between (`background/`).
//! It polls the node at an interval (`node.poll_seconds`), or when it is woken. A crash may lose everything up to a
//! commit; the loop then repeats it.

mod advance;
mod background;
mod branch_search;
mod branches;
mod compare;
mod disk_space;
mod error;
mod follow;
mod fork;
mod import;
mod import_progress;
mod lost_block;
mod mempool;
mod pause;
mod pipeline;
mod prefetch;
mod prepare;
mod progress;
mod raw_blocks;
mod reorg;
mod reorg_record;
mod sync_loop;
mod wake;
mod withheld;

pub use background::{FreezeBounds, Freezing};
pub use compare::{Comparison, NodeState, compare_with_node};
pub use error::SyncError;
pub use follow::run;
pub use mempool::PersistentMempool;
pub use raw_blocks::read_frozen_blocks;
pub use sync_loop::{Follow, Until};
pub use wake::Wake;
pub use withheld::{Withheld, publish};
