//! Reads the block files of a node, `blk*.dat` in its `blocks` directory, while the node runs.
//!
//! ```text
//!   blk00000.dat …  ── scan: 97 bytes a block ──► BlockRecord ── by the node's chain ──► read: whole blocks
//! ```
//!
//! The files have the blocks in the order in which they came, forks among them, so which of them form the chain is the
//! node's to say. A file may be obfuscated (`xor.dat`, since Core 28), end with preallocated zeros, or with a block that
//! is being written. Format: Core's `node/blockstorage.cpp`.

mod scan;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bitcoin::block::Header;
use bitcoin::consensus::deserialize;
use bitcoin::{BlockHash, Network};

use scan::FileScan;

/// Magic and length before a block.
const FRAME: usize = 8;
const HEADER: usize = 80;
/// The most bytes of a block (Core: `MAX_BLOCK_SERIALIZED_SIZE`).
const MAX_BLOCK: u32 = 4_000_000;

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
        /// What the operating system said.
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

/// The block files of a node.
#[derive(Clone, Debug)]
pub struct BlockFileReader {
    directory: PathBuf,
    network: Network,
    key: Option<[u8; 8]>,
}

impl BlockFileReader {
    /// The files in the `blocks` directory of a node of this network.
    ///
    /// Errors: there are none; the directory or its key cannot be read.
    pub fn open(directory: &Path, network: Network) -> Result<Self, BlockFileError> {
        let path = directory.join("xor.dat");
        let key = match fs::read(&path) {
            Ok(bytes) => {
                let bad_key = |bytes: Vec<u8>| BlockFileError::BadKey { path: path.clone(), bytes: bytes.len() };
                Some(<[u8; 8]>::try_from(bytes).map_err(bad_key)?).filter(|key| *key != [0; 8])
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(cause) => return Err(BlockFileError::Io { path, cause }),
        };
        let reader = Self { directory: directory.to_path_buf(), network, key };
        if reader.files()?.is_empty() {
            return Err(BlockFileError::NoFiles { path: reader.directory });
        }
        Ok(reader)
    }

    /// The numbers of the files that are there now, in order. A node that prunes has no low ones.
    ///
    /// Errors: the directory cannot be read.
    pub fn files(&self) -> Result<Vec<u32>, BlockFileError> {
        let failed = |cause| BlockFileError::Io { path: self.directory.clone(), cause };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix("blk")?.strip_suffix(".dat"));
            numbers.extend(digits.filter(|digits| digits.len() >= 5).and_then(|digits| digits.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The blocks of one file, in their order there, from a position on (0, or where an earlier scan ended), of which
    /// 97 bytes each are read. It ends before a block that is not written to its end.
    ///
    /// Errors: the file cannot be read.
    pub fn scan(
        &self,
        file: u32,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<BlockRecord, BlockFileError>> + use<>, BlockFileError> {
        let path = self.path(file);
        let open = File::open(&path).map_err(|cause| BlockFileError::Io { path: path.clone(), cause })?;
        let magic = self.magic()?;
        Ok(FileScan::new(open, path, file, from, self.key, magic))
    }

    /// The bytes of a block.
    ///
    /// Errors: the file cannot be read; it has other bytes there than when it was scanned.
    pub fn read(&self, block: &BlockRecord) -> Result<Vec<u8>, BlockFileError> {
        let path = self.path(block.file);
        let mut bytes = vec![0; usize::try_from(block.length.min(MAX_BLOCK)).unwrap_or(0)];
        let mut read = || -> io::Result<()> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(block.offset))?;
            file.read_exact(&mut bytes)
        };
        read().map_err(|cause| BlockFileError::Io { path: path.clone(), cause })?;
        unmask(&mut bytes, block.offset, self.key);
        let header = bytes.get(..HEADER).and_then(|header| deserialize::<Header>(header).ok());
        if header.is_none_or(|header| header.block_hash() != block.hash) {
            return Err(BlockFileError::Changed { path, hash: block.hash, offset: block.offset });
        }
        Ok(bytes)
    }

    fn path(&self, file: u32) -> PathBuf {
        self.directory.join(format!("blk{file:05}.dat"))
    }

    /// What stands before each block. That of a custom signet follows from its challenge, so it is read where the genesis
    /// block is, and is the network's own elsewhere.
    fn magic(&self) -> Result<[u8; 4], BlockFileError> {
        let usual = self.network.magic().to_bytes();
        let path = self.path(0);
        let mut first = [0; FRAME + HEADER];
        let read = File::open(&path).and_then(|mut file| file.read_exact(&mut first));
        match read {
            Ok(()) => {}
            // pruned, or nothing was written yet
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
                return Ok(usual);
            }
            Err(cause) => return Err(BlockFileError::Io { path, cause }),
        }
        unmask(&mut first, 0, self.key);
        let header = deserialize::<Header>(&first[FRAME..]).ok();
        let is_genesis = |header: Header| header.block_hash() == crate::chain::network::genesis_hash(self.network);
        Ok(header.filter(|header| is_genesis(*header)).and_then(|_| first.first_chunk().copied()).unwrap_or(usual))
    }
}

/// Removes the obfuscation of bytes that begin at an offset of a file.
fn unmask(bytes: &mut [u8], offset: u64, key: Option<[u8; 8]>) {
    let Some(key) = key else { return };
    let first = usize::try_from(offset % 8).unwrap_or(0);
    for (byte, mask) in bytes.iter_mut().zip(key.iter().cycle().skip(first)) {
        *byte ^= mask;
    }
}
