//! The newest block of the index.

use bitcoin::BlockHash;

use crate::chain::Height;

/// The newest block of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
}
