//! Builds the first generation straight from blocks, at about the speed of reading them. Nothing is looked up: what
//! belongs together meets by sorting it into partitions that fit into memory.
//!
//! ```text
//!   blocks ─► read ──────► txids, p2pk, block_starts, block_hashes
//!               │  runs by hash of txid: transactions, prevouts          the blocks again, compact, by range
//!               ▼                                                                          │
//!             join ──────► txid_prefixes                                                   │
//!               │  runs by range of funding transactions: spends                           │
//!               ▼                                                                          │
//!             outputs ───► spends, overwritten  ◄──────────────────────────────────────────┤
//!               │  runs by range of spending transactions: input values ──► statistics ◄───┘
//!               │  runs by script key: outputs with their spenders              └──► positions, blocks
//!               ▼
//!             scripts ───► history, unspent, payouts
//! ```
//!
//! The rows are those that [`Snapshot::pack`](super::Snapshot::pack) makes of an index of the same blocks.
//!
//! A kill loses what was done since the newest checkpoint. A checkpoint is a row of the file under construction: the numbers
//! of rows and of chunks of runs at one moment between two pushes, partitions or ranges, and the rows that packers have not
//! completed. A thread flushes the runs while the import continues, then the row is committed durably, and then the files
//! are removed that only earlier checkpoints need. Resuming removes the rows and chunks behind the recorded numbers.
//!
//! If blocks are stored beside the index, reading appends them to the raw files, which each checkpoint flushes. Resuming keeps
//! those of the blocks before the checkpoint.

mod amount;
mod build;
mod chain;
mod checkpoint;
mod estimate;
mod fresh_start;
mod join;
mod options;
mod ordered;
mod outputs;
mod partitions;
mod place;
mod progress;
mod read;
mod run_buffers;
mod run_kinds;
mod runs;
mod scripts;
mod space;
mod stages;
mod statistics;
mod stream;
mod workspace;

pub use build::{Import, Imported};
pub use estimate::ImportEstimate;
pub use fresh_start::FreshStart;
pub use options::ImportOptions;
pub use progress::{ImportPhase, ImportProgress};
