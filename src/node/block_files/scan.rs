//! Finds the blocks of one file.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use bitcoin::block::Header;
use bitcoin::consensus::deserialize;
use bitcoin::consensus::encode::VarInt;

use super::error::BlockFileError;
use super::frame::{FRAME, unmask};
use super::open_files::read_at;
use super::record::BlockRecord;
use crate::chain::raw::{HEADER_SIZE, MAX_BLOCK_SIZE};

/// Bytes that are read of a block: its frame, its header, and the number of its transactions.
const HEAD: usize = FRAME + HEADER_SIZE + 9;
/// Bytes that are searched at once for the next block behind damage.
const WINDOW: usize = 1 << 16;

/// The blocks of a file, in their order.
pub(super) struct FileScan {
    file: File,
    path: PathBuf,
    number: u32,
    /// Where the next frame is expected.
    at: u64,
    key: Option<[u8; 8]>,
    magic: [u8; 4],
    /// A length that the file had.
    length: u64,
    is_over: bool,
}

/// What is at the place of a frame.
enum Found {
    Block(BlockRecord),
    /// No frame.
    Damage,
    End,
}

impl FileScan {
    pub(super) fn new(file: File, path: PathBuf, number: u32, at: u64, key: Option<[u8; 8]>, magic: [u8; 4]) -> Self {
        Self { file, path, number, at, key, magic, length: 0, is_over: false }
    }

    fn advance(&mut self) -> io::Result<Option<BlockRecord>> {
        loop {
            match self.frame()? {
                Found::Block(block) => {
                    self.at = block.offset + u64::from(block.length);
                    return Ok(Some(block));
                }
                Found::End => return Ok(None),
                Found::Damage => match self.find_magic(self.at + 1)? {
                    Some(at) => self.at = at,
                    None => return Ok(None),
                },
            }
        }
    }

    fn frame(&mut self) -> io::Result<Found> {
        let mut head = [0; HEAD];
        let count = read_at(&self.file, &mut head, self.at)?;
        let head = &mut head[..count];
        // a node writes the frame of a block in one go, and zeros lie behind the last
        if count < FRAME || head[..FRAME] == [0; FRAME] {
            return Ok(Found::End);
        }
        unmask(head, self.at, self.key);
        let (frame, block) = head.split_at(FRAME);
        let length = frame.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
        let least = u32::try_from(HEADER_SIZE + 1).unwrap_or(u32::MAX);
        if frame[..4] != self.magic || !(least..=MAX_BLOCK_SIZE).contains(&length) {
            return Ok(Found::Damage);
        }
        let offset = self.at + u64::try_from(FRAME).unwrap_or(0);
        let end = offset + u64::from(length);
        if end > self.length {
            // the node may have appended since the scan began
            self.length = self.file.metadata()?.len();
        }
        if end > self.length {
            return Ok(Found::End);
        }
        let header = block.get(..HEADER_SIZE).and_then(|header| deserialize::<Header>(header).ok());
        let transactions = block.get(HEADER_SIZE..).and_then(|rest| {
            let (count, _) = bitcoin::consensus::encode::deserialize_partial::<VarInt>(rest).ok()?;
            Some(count.0)
        });
        let Some((header, transactions)) = header.zip(transactions) else { return Ok(Found::Damage) };
        let (hash, previous) = (header.block_hash(), header.prev_blockhash);
        Ok(Found::Block(BlockRecord { hash, previous, transactions, file: self.number, offset, length }))
    }

    /// The next place from `from` on that has the magic of a frame.
    fn find_magic(&mut self, mut from: u64) -> io::Result<Option<u64>> {
        let mut window = vec![0; WINDOW];
        loop {
            let count = read_at(&self.file, &mut window, from)?;
            let bytes = &mut window[..count];
            unmask(bytes, from, self.key);
            if let Some(at) = bytes.windows(self.magic.len()).position(|bytes| bytes == self.magic) {
                return Ok(Some(from + u64::try_from(at).unwrap_or(0)));
            }
            if count < WINDOW {
                return Ok(None);
            }
            // the magic may lie across two windows
            from += u64::try_from(WINDOW - self.magic.len() + 1).unwrap_or(1);
        }
    }
}

impl Iterator for FileScan {
    type Item = Result<BlockRecord, BlockFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.advance().map_err(|cause| BlockFileError::Io { path: self.path.clone(), cause });
        self.is_over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}
