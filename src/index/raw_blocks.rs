//! The bytes of blocks that the index does not hold itself: those of frozen blocks.

use std::error::Error;

use super::update::Tip;

/// Reads parts of blocks of the active chain, from a node or from files. What it returns is checked by the caller.
pub trait RawBlocks: Send + Sync {
    /// `length` bytes of a block, from `offset` on.
    ///
    /// Errors: the block cannot be read now; the message says why and what to do.
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>;

    /// The same from another place, after the bytes of [`RawBlocks::read`] were found to be wrong.
    ///
    /// Errors: as [`RawBlocks::read`]; there is no other place.
    #[expect(unused_variables, reason = "the names are for those who implement it")]
    fn read_elsewhere(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Err("there is no other place to read them".into())
    }
}
