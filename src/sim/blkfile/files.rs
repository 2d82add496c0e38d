//! [`BlockFiles`]: a directory of `blkNNNNN.dat` as a node keeps it, and `revNNNNN.dat` beside each, filled block
//! after block and read by position. A bitcoind with `-reindex` reads it.
//!
//! ```text
//!   write(block, spent) ──► pending, in no order ──► blkNNNNN.dat  magic, length, block
//!                             up to `disorder`    └► revNNNNN.dat  magic, length, undo data, checksum
//!   block(hash) ──► position ──► read ──► XOR with the key, by absolute offset
//! ```
//!
//! Writes reach the operating system at once and are never synced to disk: this is scratch space for tests and loads.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bitcoin::block::Header;
use bitcoin::consensus::Encodable;
use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::{Block, BlockHash};

use super::super::{Rng, SimCoin};
use super::undo::{read_undo, undo_bytes};
use super::{FRAME_BYTES, frame};

/// The length of the checksum after the undo data of a block.
const CHECKSUM_BYTES: usize = 32;

/// The layout of the files. The default is that of a current node, but without a key.
#[derive(Clone, Copy, Debug)]
pub struct BlockFilesLayout {
    /// The key that the files are XORed with, stored as `xor.dat`. `None`: the files are plain and there is no such
    /// file.
    pub key: Option<[u8; 8]>,
    /// The size of a blk file in bytes that it stays below (`MAX_BLOCKFILE_SIZE` of Core's `node/blockstorage.h`).
    pub file_bytes: u64,
    /// Up to this many blocks wait while later ones are appended, as when a node downloads from several peers.
    pub disorder: usize,
    /// The last files end with zeros up to a multiple of this many bytes, which a node preallocates; 0 for none.
    pub allocation: u64,
}

impl Default for BlockFilesLayout {
    fn default() -> Self {
        BlockFilesLayout { key: None, file_bytes: 128 << 20, disorder: 0, allocation: 16 << 20 }
    }
}

/// The header and the sizes of a block in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// Its header.
    pub header: Header,
    /// The number of its transactions, the coinbase included.
    pub transactions: u32,
    /// Its length in bytes.
    pub bytes: u32,
}

/// The position of a record, without its frame.
#[derive(Clone, Copy, Debug)]
struct RecordPosition {
    file: u32,
    offset: u64,
    length: u32,
}

#[derive(Debug)]
struct FileEntry {
    block: StoredBlock,
    /// `None` while the block is pending.
    positions: Option<RecordPositions>,
}

#[derive(Clone, Copy, Debug)]
struct RecordPositions {
    block: RecordPosition,
    undo: Option<RecordPosition>,
}

/// A block that no file contains yet.
#[derive(Debug)]
struct PendingBlock {
    hash: BlockHash,
    block: Vec<u8>,
    undo: Vec<u8>,
}

/// A file that is appended to.
#[derive(Debug)]
struct AppendFile {
    file: File,
    length: u64,
    allocated: u64,
}

/// Blocks on disk.
#[derive(Debug)]
pub struct BlockFiles {
    directory: PathBuf,
    layout: BlockFilesLayout,
    entries: HashMap<BlockHash, FileEntry>,
    pending: Vec<PendingBlock>,
    rng: Rng,
    number: u32,
    blocks: AppendFile,
    undos: AppendFile,
    /// Bytes in all files, without preallocated ones.
    size: u64,
}

impl BlockFiles {
    /// Creates the files in a directory, which is created if it is missing. Errors: it already contains blk files.
    pub fn create(directory: &Path, layout: BlockFilesLayout) -> io::Result<BlockFiles> {
        fs::create_dir_all(directory)?;
        if let Some(key) = layout.key {
            let mut file = File::create_new(directory.join("xor.dat"))?;
            file.write_all(&key)?;
        }
        Ok(BlockFiles {
            blocks: AppendFile::create(&path(directory, "blk", 0))?,
            undos: AppendFile::create(&path(directory, "rev", 0))?,
            directory: directory.to_owned(),
            layout,
            entries: HashMap::new(),
            pending: Vec::new(),
            rng: Rng::new(0),
            number: 0,
            size: 0,
        })
    }

    /// Bytes of blocks and undo data, without preallocated ones.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds a block with the coins that it spends, a list for each transaction but the coinbase. A block that is
    /// already in the files is skipped. A genesis block, which spends nothing and is never undone, is appended
    /// at once, before all pending ones: a node that reads the files begins there.
    pub fn write(&mut self, block: &Block, spent: &[Vec<SimCoin>]) -> io::Result<()> {
        let hash = block.block_hash();
        if self.entries.contains_key(&hash) {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let length = frame(&mut bytes, block)?;
        let parent = block.header.prev_blockhash;
        let is_genesis = parent == BlockHash::all_zeros();
        let undo = if is_genesis { Vec::new() } else { undo_record(&parent, spent)? };
        let transactions = u32::try_from(block.txdata.len()).map_err(io::Error::other)?;
        let stored = StoredBlock { header: block.header, transactions, bytes: length };
        self.entries.insert(hash, FileEntry { block: stored, positions: None });
        self.size += length_of(&bytes) + length_of(&undo);
        self.pending.push(PendingBlock { hash, block: bytes, undo });
        if is_genesis {
            return self.write_pending(self.pending.len() - 1);
        }
        while self.pending.len() > self.layout.disorder {
            let next = self.rng.index(self.pending.len());
            self.write_pending(next)?;
        }
        Ok(())
    }

    /// Writes all pending blocks.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let next = self.rng.index(self.pending.len());
            self.write_pending(next)?;
        }
        Ok(())
    }

    /// Header and sizes of a block, without reading it.
    #[must_use]
    pub fn stored(&self, hash: &BlockHash) -> Option<&StoredBlock> {
        self.entries.get(hash).map(|entry| &entry.block)
    }

    /// The record of a block; `None` if the block is unknown. Reading it needs no access to this value, so the files
    /// can grow meanwhile.
    pub(in super::super) fn block(&self, hash: &BlockHash) -> Option<FileRecord> {
        self.record(hash, "blk", |positions| Some(positions.block), |pending| &pending.block)
    }

    /// The record of the undo data of a block; `None` if the block is unknown.
    pub(in super::super) fn undo(&self, hash: &BlockHash) -> Option<FileRecord> {
        self.record(hash, "rev", |positions| positions.undo, |pending| &pending.undo)
    }

    fn record(
        &self,
        hash: &BlockHash,
        kind: &str,
        position: impl Fn(&RecordPositions) -> Option<RecordPosition>,
        bytes: impl Fn(&PendingBlock) -> &Vec<u8>,
    ) -> Option<FileRecord> {
        if let Some(positions) = &self.entries.get(hash)?.positions {
            let RecordPosition { file, offset, length } = position(positions)?;
            let path = path(&self.directory, kind, file);
            return Some(FileRecord::OnDisk { path, offset, length, key: self.layout.key });
        }
        let pending = self.pending.iter().find(|pending| pending.hash == *hash)?;
        Some(FileRecord::InMemory(bytes(pending).get(FRAME_BYTES..)?.to_vec()))
    }

    fn write_pending(&mut self, index: usize) -> io::Result<()> {
        let PendingBlock { hash, block, undo } = self.pending.swap_remove(index);
        if self.blocks.length + length_of(&block) >= self.layout.file_bytes && self.blocks.length > 0 {
            self.blocks.end()?;
            self.undos.end()?;
            self.number += 1;
            self.blocks = AppendFile::create(&path(&self.directory, "blk", self.number))?;
            self.undos = AppendFile::create(&path(&self.directory, "rev", self.number))?;
        }
        let (key, allocation) = (self.layout.key, self.layout.allocation);
        let block = self.blocks.append(block, self.number, key, allocation)?;
        let undo = (!undo.is_empty()).then(|| self.undos.append(undo, self.number, key, allocation)).transpose()?;
        if let Some(entry) = self.entries.get_mut(&hash) {
            entry.positions = Some(RecordPositions { block, undo });
        }
        Ok(())
    }
}

/// The framed record of the undo data of a block, with its checksum.
fn undo_record(parent: &BlockHash, spent: &[Vec<SimCoin>]) -> io::Result<Vec<u8>> {
    let undo = undo_bytes(spent);
    let mut engine = sha256d::Hash::engine();
    engine.input(parent.as_byte_array());
    engine.input(&undo);
    let mut bytes = Vec::new();
    frame(&mut bytes, &RawBytes(&undo))?;
    bytes.extend_from_slice(sha256d::Hash::from_engine(engine).as_byte_array());
    Ok(bytes)
}

/// Bytes that are already serialised.
struct RawBytes<'b>(&'b [u8]);

impl Encodable for RawBytes<'_> {
    fn consensus_encode<W: bitcoin::io::Write + ?Sized>(&self, writer: &mut W) -> Result<usize, bitcoin::io::Error> {
        writer.write_all(self.0)?;
        Ok(self.0.len())
    }
}

impl AppendFile {
    fn create(path: &Path) -> io::Result<AppendFile> {
        Ok(AppendFile { file: File::create_new(path)?, length: 0, allocated: 0 })
    }

    /// Appends a framed record.
    fn append(
        &mut self,
        mut bytes: Vec<u8>,
        file: u32,
        key: Option<[u8; 8]>,
        allocation: u64,
    ) -> io::Result<RecordPosition> {
        let start = self.length;
        let frame = u64::try_from(FRAME_BYTES).map_err(io::Error::other)?;
        let end = start + length_of(&bytes);
        if allocation > 0 && end > self.allocated {
            self.allocated = end.next_multiple_of(allocation);
            self.file.set_len(self.allocated)?;
        }
        let length = u32::try_from(bytes.len() - FRAME_BYTES).map_err(io::Error::other)?;
        xor(&mut bytes, key, start);
        self.file.seek(SeekFrom::Start(start))?;
        self.file.write_all(&bytes)?;
        self.length = end;
        Ok(RecordPosition { file, offset: start + frame, length })
    }

    /// Truncates preallocated bytes, as a node does when it begins the next file.
    fn end(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)
    }
}

/// A record of the files, in memory while it is pending.
#[derive(Debug)]
pub(in super::super) enum FileRecord {
    InMemory(Vec<u8>),
    OnDisk { path: PathBuf, offset: u64, length: u32, key: Option<[u8; 8]> },
}

impl FileRecord {
    /// The record without its frame.
    pub(in super::super) fn read(self) -> io::Result<Vec<u8>> {
        match self {
            FileRecord::InMemory(bytes) => Ok(bytes),
            FileRecord::OnDisk { path, offset, length, key } => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(offset))?;
                let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
                file.read_exact(&mut bytes)?;
                xor(&mut bytes, key, offset);
                Ok(bytes)
            }
        }
    }

    /// Decodes a record of undo data: the coins that a block spends, a list for each transaction but the coinbase.
    pub(in super::super) fn read_undo(self) -> io::Result<Vec<Vec<SimCoin>>> {
        let bytes = self.read()?;
        let end = bytes.len().checked_sub(CHECKSUM_BYTES);
        read_undo(end.and_then(|end| bytes.get(..end)).unwrap_or_default())
    }
}

fn path(directory: &Path, kind: &str, number: u32) -> PathBuf {
    directory.join(format!("{kind}{number:05}.dat"))
}

/// XORs bytes with the key, whose bytes belong to absolute offsets in the file. Applies and removes the key alike.
fn xor(bytes: &mut [u8], key: Option<[u8; 8]>, offset: u64) {
    let Some(mut key) = key else { return };
    // below the length of the key
    key.rotate_left(usize::try_from(offset % 8).unwrap_or_default());
    for (byte, key) in bytes.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

fn length_of(bytes: &[u8]) -> u64 {
    // a length in memory fits 64 bits on every platform
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
