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
//! One thread does all of this (`follow.rs`, `advance.rs`) and owns the index and the mempool (`mempool/`), whose Heads it
//! publishes together. It asks the node again every second, or when it is woken. Everything up to a commit can be lost at
//! any moment and is then simply done again.

mod advance;

mod compare;
mod error;
mod follow;
mod fork;
mod mempool;
mod pipeline;
mod prefetch;
mod progress;
mod reorg;
mod wake;
mod withheld;

pub use compare::{Comparison, NodeState, compare_with_node};
pub use error::SyncError;
pub use follow::{Follow, Until, run};
pub use mempool::PersistentMempool;
pub use progress::Progress;
pub use wake::Wake;
pub use withheld::{Withheld, publish};
