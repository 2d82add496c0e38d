//! Reads the block files of a node, `blk*.dat` in its `blocks` directory, while the node runs.
//!
//! ```text
//!   blk00000.dat …  ── scan: 97 bytes a block ──► BlockRecord ── find: by the node's chain ──► BlockPositions
//!        │                                                                                          │
//!        └──────── read: a block · read_part: bytes of a block · read_span: several blocks ◄────────┘
//! ```
//!
//! The files have the blocks in the order in which they came, forks among them, so which of them form the chain is the
//! node's to say. A file may be obfuscated (`xor.dat`, since Core 28), end with preallocated zeros, or with a block that
//! is incomplete. Format: Core's `node/blockstorage.cpp`.

mod error;
mod find;
mod frame;
mod open_files;
mod positions;
mod reader;
mod record;
mod scan;

pub use error::BlockFileError;
pub use find::ScanProgress;
pub(super) use find::{FoundBlocks, find};
pub use positions::{BlockPosition, BlockPositions};
pub use reader::BlockFileReader;
pub use record::BlockRecord;
