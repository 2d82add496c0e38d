//! [`BlockFiles`]: a directory of `blkNNNNN.dat` as a node keeps it, and `revNNNNN.dat` beside each, written block after
//! block and read back by position. A bitcoind with `-reindex` reads it.
//!
//! ```text
//!   write(block, spent) ──► waiting, in no order ──► blkNNNNN.dat  magic, length, block
//!                             up to `disorder`    └► revNNNNN.dat  magic, length, what it spends, checksum
//!   block(hash) ──► position ──► read ──► XOR with the key, by absolute offset
//! ```
//!
//! Everything is written through to the operating system at once, which may write it to disk whenever it likes: this
//! is scratch space for tests and loads.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bitcoin::block::Header;
use bitcoin::consensus::Encodable;
use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::{Block, BlockHash};

use super::super::{Coin, Rng};
use super::undo::{read_undo, undo_bytes};
use super::{FRAME_BYTES, frame};

/// The length of the checksum behind what a block spends.
const CHECKSUM_BYTES: usize = 32;

/// How the files are laid out. The default is a node's way of today, but for the key: none.
#[derive(Clone, Copy, Debug)]
pub struct BlockFilesLayout {
    /// What the files are XORed with, written as `xor.dat`. `None`: the files are plain and there is no such file.
    pub key: Option<[u8; 8]>,
    /// A blk file ends before it would reach this many bytes (`MAX_BLOCKFILE_SIZE` of Core's `node/blockstorage.h`).
    pub file_bytes: u64,
    /// Up to this many blocks wait for others to be written before them, as when a node downloads from several peers.
    pub disorder: usize,
    /// The last files end with zeros up to a multiple of this many bytes, which a node allocates ahead; 0 for none.
    pub allocation: u64,
}

impl Default for BlockFilesLayout {
    fn default() -> Self {
        BlockFilesLayout { key: None, file_bytes: 128 << 20, disorder: 0, allocation: 16 << 20 }
    }
}

/// A block of the files, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// Its header.
    pub header: Header,
    /// Its transactions, the coinbase among them.
    pub transactions: u32,
    /// Its length in bytes.
    pub bytes: u32,
}

/// Where a record is, its frame not counted.
#[derive(Clone, Copy, Debug)]
struct Place {
    file: u32,
    offset: u64,
    length: u32,
}

#[derive(Debug)]
struct Entry {
    block: StoredBlock,
    /// `None` while it waits.
    places: Option<Places>,
}

#[derive(Clone, Copy, Debug)]
struct Places {
    block: Place,
    undo: Option<Place>,
}

/// A block that waits to be written.
#[derive(Debug)]
struct Waiting {
    hash: BlockHash,
    block: Vec<u8>,
    undo: Vec<u8>,
}

/// A file that grows.
#[derive(Debug)]
struct Growing {
    file: File,
    length: u64,
    allocated: u64,
}

/// Blocks on disk.
#[derive(Debug)]
pub struct BlockFiles {
    directory: PathBuf,
    layout: BlockFilesLayout,
    entries: HashMap<BlockHash, Entry>,
    waiting: Vec<Waiting>,
    rng: Rng,
    number: u32,
    blocks: Growing,
    undos: Growing,
    /// Bytes in all files, what is allocated ahead not counted.
    size: u64,
}

impl BlockFiles {
    /// Makes the files in a directory, which is made when it is missing. Fails when it holds blk files already.
    pub fn create(directory: &Path, layout: BlockFilesLayout) -> io::Result<BlockFiles> {
        fs::create_dir_all(directory)?;
        if let Some(key) = layout.key {
            let mut file = File::create_new(directory.join("xor.dat"))?;
            file.write_all(&key)?;
        }
        Ok(BlockFiles {
            blocks: Growing::create(&path(directory, "blk", 0))?,
            undos: Growing::create(&path(directory, "rev", 0))?,
            directory: directory.to_owned(),
            layout,
            entries: HashMap::new(),
            waiting: Vec::new(),
            rng: Rng::new(0),
            number: 0,
            size: 0,
        })
    }

    /// Bytes that blocks and what they spend take, what is allocated ahead not counted.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Adds a block with what it spends, a list for each transaction but the coinbase. A block that is there already
    /// is not written again. A genesis block, which spends nothing and is never undone, comes first and at once: it
    /// is where a node that reads the files begins.
    pub fn write(&mut self, block: &Block, spent: &[Vec<Coin>]) -> io::Result<()> {
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
        self.entries.insert(hash, Entry { block: stored, places: None });
        self.size += length_of(&bytes) + length_of(&undo);
        self.waiting.push(Waiting { hash, block: bytes, undo });
        if is_genesis {
            return self.write_waiting(self.waiting.len() - 1);
        }
        while self.waiting.len() > self.layout.disorder {
            let next = self.rng.index(self.waiting.len());
            self.write_waiting(next)?;
        }
        Ok(())
    }

    /// Writes what still waits.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let next = self.rng.index(self.waiting.len());
            self.write_waiting(next)?;
        }
        Ok(())
    }

    /// What is known of a block without reading it.
    #[must_use]
    pub fn stored(&self, hash: &BlockHash) -> Option<&StoredBlock> {
        self.entries.get(hash).map(|entry| &entry.block)
    }

    /// How to read a block; `None` when it is not there. Reading needs no access to these files, which can grow
    /// meanwhile.
    pub(in super::super) fn block(&self, hash: &BlockHash) -> Option<Record> {
        self.record(hash, "blk", |places| Some(places.block), |waiting| &waiting.block)
    }

    /// How to read what a block spends; `None` when it is not there.
    pub(in super::super) fn undo(&self, hash: &BlockHash) -> Option<Record> {
        self.record(hash, "rev", |places| places.undo, |waiting| &waiting.undo)
    }

    fn record(
        &self,
        hash: &BlockHash,
        kind: &str,
        place: impl Fn(&Places) -> Option<Place>,
        bytes: impl Fn(&Waiting) -> &Vec<u8>,
    ) -> Option<Record> {
        if let Some(places) = &self.entries.get(hash)?.places {
            let Place { file, offset, length } = place(places)?;
            let path = path(&self.directory, kind, file);
            return Some(Record::OnDisk { path, offset, length, key: self.layout.key });
        }
        let waiting = self.waiting.iter().find(|waiting| waiting.hash == *hash)?;
        Some(Record::InMemory(bytes(waiting).get(FRAME_BYTES..)?.to_vec()))
    }

    fn write_waiting(&mut self, index: usize) -> io::Result<()> {
        let Waiting { hash, block, undo } = self.waiting.swap_remove(index);
        if self.blocks.length + length_of(&block) >= self.layout.file_bytes && self.blocks.length > 0 {
            self.blocks.end()?;
            self.undos.end()?;
            self.number += 1;
            self.blocks = Growing::create(&path(&self.directory, "blk", self.number))?;
            self.undos = Growing::create(&path(&self.directory, "rev", self.number))?;
        }
        let (key, allocation) = (self.layout.key, self.layout.allocation);
        let block = self.blocks.append(block, self.number, key, allocation)?;
        let undo = (!undo.is_empty()).then(|| self.undos.append(undo, self.number, key, allocation)).transpose()?;
        if let Some(entry) = self.entries.get_mut(&hash) {
            entry.places = Some(Places { block, undo });
        }
        Ok(())
    }
}

/// The framed record of what a block spends, with its checksum.
fn undo_record(parent: &BlockHash, spent: &[Vec<Coin>]) -> io::Result<Vec<u8>> {
    let undo = undo_bytes(spent);
    let mut engine = sha256d::Hash::engine();
    engine.input(parent.as_byte_array());
    engine.input(&undo);
    let mut bytes = Vec::new();
    frame(&mut bytes, &Raw(&undo))?;
    bytes.extend_from_slice(sha256d::Hash::from_engine(engine).as_byte_array());
    Ok(bytes)
}

/// Bytes that are serialised already.
struct Raw<'b>(&'b [u8]);

impl Encodable for Raw<'_> {
    fn consensus_encode<W: bitcoin::io::Write + ?Sized>(&self, writer: &mut W) -> Result<usize, bitcoin::io::Error> {
        writer.write_all(self.0)?;
        Ok(self.0.len())
    }
}

impl Growing {
    fn create(path: &Path) -> io::Result<Growing> {
        Ok(Growing { file: File::create_new(path)?, length: 0, allocated: 0 })
    }

    /// Appends a framed record.
    fn append(&mut self, mut bytes: Vec<u8>, file: u32, key: Option<[u8; 8]>, allocation: u64) -> io::Result<Place> {
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
        Ok(Place { file, offset: start + frame, length })
    }

    /// Gives back what was allocated ahead, as a node does when it begins the next file.
    fn end(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)
    }
}

/// A record that can be read.
#[derive(Debug)]
pub(in super::super) enum Record {
    InMemory(Vec<u8>),
    OnDisk { path: PathBuf, offset: u64, length: u32, key: Option<[u8; 8]> },
}

impl Record {
    /// The record without its frame.
    pub(in super::super) fn read(self) -> io::Result<Vec<u8>> {
        match self {
            Record::InMemory(bytes) => Ok(bytes),
            Record::OnDisk { path, offset, length, key } => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(offset))?;
                let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
                file.read_exact(&mut bytes)?;
                xor(&mut bytes, key, offset);
                Ok(bytes)
            }
        }
    }

    /// What a block spends, a list for each transaction but the coinbase, of a record of that kind.
    pub(in super::super) fn read_undo(self) -> io::Result<Vec<Vec<Coin>>> {
        let bytes = self.read()?;
        let end = bytes.len().checked_sub(CHECKSUM_BYTES);
        read_undo(end.and_then(|end| bytes.get(..end)).unwrap_or_default())
    }
}

fn path(directory: &Path, kind: &str, number: u32) -> PathBuf {
    directory.join(format!("{kind}{number:05}.dat"))
}

/// Applies the key, whose bytes belong to absolute offsets in the file, in either direction.
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
