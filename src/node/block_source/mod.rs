//! [`BlockSource`]: where blocks are read in bulk, the fastest way that works: the node's block files, REST over several
//! connections, or RPC.
//!
//! ```text
//!   hashes ──► choose: scan the block files ──► all blocks found ──► spans: one read for blocks that lie together ─┐
//!                        │                          a file fails │                                                 ├─► batches
//!                        └─ some missing ──► REST or RPC ◄───────┘ BlockFetcher ───────────────────────────────────┘
//! ```

mod batches;
#[expect(clippy::module_inception, reason = "the type this module is about")]
mod block_source;
mod located;
mod spans;
mod status;

pub use batches::BlockBatches;
pub use block_source::BlockSource;
pub use status::{BlockSourceKind, BlockSourceStatus};
