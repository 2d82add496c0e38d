//! Why block files cannot be read.

use std::io;
use std::path::PathBuf;

use bitcoin::BlockHash;

/// Why block files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BlockFileError {
    /// A file or the directory cannot be read.
    #[error(
        "cannot read {path}: {cause}. Check that node.blocks_dir names the node's `blocks` directory, and that this user \
         may read it; a node that prunes deletes files while it runs", path = path.display()
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// There is no block file.
    #[error("there are no block files (blk*.dat) in {path}. Check that it is the node's `blocks` directory", path = path.display())]
    NoFiles {
        /// The directory.
        path: PathBuf,
    },
    /// `xor.dat` does not have eight bytes.
    #[error("{path} has {bytes} bytes, and an obfuscation key has 8. Check that it is the node's own file", path = path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// The bytes where a block was are another block's, or none.
    #[error("{path} does not have block {hash} at offset {offset} any more. Scan the block files again", path = path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The block.
        hash: BlockHash,
        /// Where it was, in bytes.
        offset: u64,
    },
}
