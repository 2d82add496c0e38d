//! A block that was found in the files.

use bitcoin::BlockHash;

/// A block in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// Its hash.
    pub hash: BlockHash,
    /// The hash of the block before it.
    pub previous: BlockHash,
    /// The number of its transactions, as it states it.
    pub transactions: u64,
    /// The number of its file.
    pub file: u32,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u32,
}
