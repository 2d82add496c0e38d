//! The bytes of frozen blocks, which no table has.
//!
//! ```text
//!                            ┌─ own files, if they have the block (index.raw_transactions = index)
//!   frozen reads ── sources ─┤        what they return fails its check │ or they do not have it
//!                            └─ the node: its block files, its interfaces ◄── RawBlocks
//!
//!   bulk import ─► ┐                                              index → node: read back, then removed
//!   freezing ────► ├─ RawFiles: append, fsync ─► named by a row of `raw_blocks` in the commit of the generation
//!   node → index ► ┘
//! ```
//!
//! Every reader checks what it gets: a transaction against its txid, a block against its hash, its merkle root and its
//! witness commitment.

mod changes;
mod files;
mod frames;
mod moves;
mod sources;
mod storage;
#[cfg(test)]
mod tests;

use std::error::Error;

pub(super) use changes::RawChanges;
pub use files::RawFiles;
pub use moves::RawProgress;
pub(super) use sources::RawSources;
pub use storage::RawStorage;
pub(super) use storage::read_raw_storage;

use super::hot::tip::Tip;

/// Reads parts of blocks of the active chain from a node. What it returns is checked by the caller.
pub trait RawBlocks: Send + Sync {
    /// `length` bytes of a block, from `offset` on.
    ///
    /// Errors: the block cannot be read now; the message says why and what to do.
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>;

    /// Reads as [`RawBlocks::read`] does, but in another place, after the bytes of that were found to be wrong.
    ///
    /// Errors: as [`RawBlocks::read`]; there is no other place.
    #[expect(unused_variables, reason = "the names are for those who implement it")]
    fn read_elsewhere(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Err("there is no other place to read them".into())
    }
}
