//! The raw files of the index: blocks as they were received, appended one after another.
//!
//! ```text
//!   00000.dat  00001.dat  00002.dat
//!   ├─ named by rows of `raw_blocks` ─┼──── tail: appended, and no commit names it ────┤
//!                                     └ a kill leaves it; the next who appends keeps what belongs to it, and cuts the rest
//! ```
//!
//! Bytes of disconnected blocks stay in the files until they are at the end of them when the index is opened.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::super::codec::small;
use super::super::error::IndexError;
use super::super::files::{file, flush_name, remove_if_exists};
use super::super::hot::tables::block_files::BlockFileRow;
use super::super::hot::tip::Tip;
use super::frames::{FRAME, frame, frame_at};
use crate::chain::Height;
use crate::chain::raw::HEADER_SIZE;

/// Bytes of a file at most: some 900 files for mainnet, and few enough blocks that a damaged one is soon copied again.
const FILE_BYTES: u32 = 1 << 30;
/// Files that are open for reading.
const OPEN_FILES: usize = 64;

/// The raw files in a directory, which one process at a time writes.
#[derive(Debug, Default)]
pub struct RawFiles {
    directory: PathBuf,
    magic: [u8; 4],
    /// Bytes of a file at most.
    file_bytes: u32,
    named: RwLock<NamedBlocks>,
    tail: Mutex<Tail>,
    /// An LRU of files by their numbers.
    open: Mutex<VecDeque<(u32, Arc<File>)>>,
}

/// A place between two blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct FileEnd {
    file: u32,
    offset: u32,
}

impl FileEnd {
    fn behind(row: BlockFileRow) -> Self {
        Self { file: row.file, offset: row.offset.saturating_add(row.length) }
    }

    fn next_file(self) -> Self {
        Self { file: self.file.saturating_add(1), offset: 0 }
    }
}

/// The blocks that rows of `raw_blocks` name.
#[derive(Debug, Default)]
struct NamedBlocks {
    /// By height. A length of 0 stands for none, as a block has a header.
    rows: Vec<BlockFileRow>,
    bytes: u64,
    /// Blocks whose row names bytes that no file has.
    lost: u64,
    /// The place behind the last of them.
    end: FileEnd,
}

impl NamedBlocks {
    const NONE: BlockFileRow = BlockFileRow { file: 0, offset: 0, length: 0 };

    fn get(&self, height: Height) -> Option<BlockFileRow> {
        self.rows.get(index(height)).copied().filter(|row| *row != Self::NONE)
    }

    fn set(&mut self, height: Height, row: BlockFileRow) {
        let at = index(height);
        if self.rows.len() <= at {
            self.rows.resize(at + 1, Self::NONE);
        }
        let before = std::mem::replace(&mut self.rows[at], row);
        self.bytes = self.bytes.saturating_sub(before.length.into()).saturating_add(row.length.into());
    }
}

fn index(height: Height) -> usize {
    usize::try_from(height.to_u32()).unwrap_or(usize::MAX)
}

/// What was appended behind the named blocks.
#[derive(Debug, Default)]
struct Tail {
    /// Whether it was read since the files were opened.
    is_read: bool,
    blocks: HashMap<BlockHash, BlockFileRow>,
    end: FileEnd,
    /// The last file, at its end.
    writer: Option<File>,
    /// Files with bytes that may not be on the disk.
    dirty: BTreeSet<u32>,
}

impl RawFiles {
    /// The files in a directory, which need not exist, of which none is named.
    ///
    /// Errors: [`IndexError::File`].
    pub fn open(directory: PathBuf, network: Network) -> Result<Self, IndexError> {
        Self::with_rows(directory, network, [])
    }

    /// The files in a directory, which need not exist, with the rows that name blocks in them.
    ///
    /// Errors: those of the rows; [`IndexError::File`].
    pub(super) fn with_rows(
        directory: PathBuf,
        network: Network,
        rows: impl IntoIterator<Item = Result<(Height, BlockFileRow), IndexError>>,
    ) -> Result<Self, IndexError> {
        let files = Self { directory, magic: network.magic().to_bytes(), file_bytes: FILE_BYTES, ..Self::default() };
        let lengths = files.lengths()?;
        let mut named = files.named_mut();
        for row in rows {
            let (height, row) = row?;
            let end = FileEnd::behind(row);
            if lengths.get(&row.file).is_some_and(|length| *length >= end.offset.into()) {
                named.set(height, row);
            } else {
                named.lost += 1;
            }
            named.end = named.end.max(end);
        }
        drop(named);
        Ok(files)
    }

    /// Files of another size.
    #[cfg(test)]
    pub(super) fn with_file_bytes(self, file_bytes: u32) -> Self {
        Self { file_bytes, ..self }
    }

    /// The bytes of the files, by their numbers.
    fn lengths(&self) -> Result<BTreeMap<u32, u64>, IndexError> {
        let failed = file("read", &self.directory);
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            entries => entries.map_err(&failed)?,
        };
        let mut lengths = BTreeMap::new();
        for entry in entries {
            let entry = entry.map_err(&failed)?;
            let name = entry.file_name();
            let digits = name.to_str().and_then(|name| name.strip_suffix(".dat"));
            if let Some(number) = digits.filter(|digits| digits.len() >= 5).and_then(|digits| digits.parse().ok()) {
                lengths.insert(number, entry.metadata().map_err(&failed)?.len());
            }
        }
        Ok(lengths)
    }

    /// Whether the bytes of the block at a height are named.
    pub(super) fn has(&self, height: Height) -> bool {
        self.named().get(height).is_some()
    }

    /// The lowest height from `from` on whose block is not named.
    pub(super) fn first_missing(&self, from: Height) -> Height {
        let named = self.named();
        let behind = named.rows.get(index(from)..).unwrap_or_default();
        let present = behind.iter().take_while(|row| **row != NamedBlocks::NONE).count();
        Height::from(from.to_u32().saturating_add(small(present)))
    }

    /// The bytes of all named blocks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.named().bytes
    }

    /// The bytes of the named blocks from a height on.
    pub(super) fn bytes_from(&self, from: Height) -> u64 {
        self.named().rows.iter().skip(index(from)).map(|row| u64::from(row.length)).sum()
    }

    /// How many blocks had rows when the files were opened, but no bytes in them.
    pub(super) fn lost(&self) -> u64 {
        self.named().lost
    }

    /// `length` bytes of a block from `offset` on, `None` if the block is not named. The error says what is wrong.
    pub(super) fn read(&self, block: Tip, offset: u32, length: u32) -> Option<Result<Vec<u8>, String>> {
        let row = self.named().get(block.height)?;
        Some(self.read_row(row, block.hash, offset, length))
    }

    /// `length` bytes, from `offset` on, of the block that a row names. The error says what is wrong.
    pub(super) fn read_row(
        &self,
        row: BlockFileRow,
        hash: BlockHash,
        offset: u32,
        length: u32,
    ) -> Result<Vec<u8>, String> {
        let path = self.path(row.file);
        if offset.checked_add(length).is_none_or(|end| end > row.length) {
            return Err(format!("the block in {} has {} bytes", path.display(), row.length));
        }
        let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
        let open = self.reader(row.file).map_err(unreadable)?;
        let mut header = [0; HEADER_SIZE];
        open.read_exact_at(&mut header, row.offset.into()).map_err(unreadable)?;
        if BlockHash::hash(&header) != hash {
            return Err(format!("{} does not have the block at offset {}", path.display(), row.offset));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        open.read_exact_at(&mut bytes, u64::from(row.offset) + u64::from(offset)).map_err(unreadable)?;
        Ok(bytes)
    }

    fn reader(&self, number: u32) -> std::io::Result<Arc<File>> {
        let lock = || self.open.lock();
        let known = {
            let mut open = lock();
            let at = open.iter().position(|(open, _)| *open == number);
            at.and_then(|at| open.remove(at)).map(|(_, file)| file)
        };
        // not under the lock: a slow disk delays only those who need this file
        let file = match known {
            Some(file) => file,
            None => Arc::new(File::open(self.path(number))?),
        };
        let mut open = lock();
        open.retain(|(other, _)| *other != number);
        open.push_front((number, Arc::clone(&file)));
        open.truncate(OPEN_FILES);
        Ok(file)
    }

    /// Keeps those blocks of the tail that are the first of these, in this order, and cuts the others: what is appended comes
    /// behind them.
    ///
    /// Errors: [`IndexError::File`].
    pub(in crate::index) fn keep_tail(&self, hashes: &[BlockHash]) -> Result<(), IndexError> {
        let mut wanted = hashes.iter();
        let tail = self.read_tail(|hash| wanted.next() == Some(hash))?;
        let end = tail.end;
        for number in self.lengths()?.keys().filter(|number| **number > end.file) {
            self.remove(*number)?;
        }
        let last = self.path(end.file);
        match fs::metadata(&last) {
            Ok(_) if end.offset == 0 => self.remove(end.file)?,
            Ok(found) if found.len() > end.offset.into() => {
                let cut = File::options().write(true).open(&last).and_then(|open| open.set_len(end.offset.into()));
                cut.map_err(file("cut", &last))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the tail up to the first block that is not to be kept.
    fn read_tail(&self, mut keep: impl FnMut(&BlockHash) -> bool) -> Result<MutexGuard<'_, Tail>, IndexError> {
        let mut tail = self.tail();
        *tail = Tail { is_read: true, end: self.named().end, ..Tail::default() };
        let lengths = self.lengths()?;
        let (mut at, mut open) = (tail.end, None);
        while let Some(length) = lengths.get(&at.file) {
            if u64::from(at.offset) >= *length {
                (at, open) = (at.next_file(), None);
                continue;
            }
            let path = self.path(at.file);
            let reader = match open.take() {
                Some(reader) => reader,
                None => File::open(&path).map_err(file("open", &path))?,
            };
            let found = frame_at(&reader, self.magic, at.file, at.offset).map_err(file("read", &path))?;
            let Some((hash, row)) = found.filter(|(hash, _)| keep(hash)) else { break };
            tail.blocks.insert(hash, row);
            tail.end = FileEnd::behind(row);
            (at, open) = (tail.end, Some(reader));
        }
        Ok(tail)
    }

    /// Appends a block, which [`RawFiles::sync`] or the flush of [`RawFiles::take_dirty`] makes durable.
    ///
    /// Errors: [`IndexError::File`], `DiskFull`.
    pub(in crate::index) fn append(&self, hash: BlockHash, block: &[u8]) -> Result<(), IndexError> {
        if !self.tail().is_read {
            self.keep_tail(&[])?;
        }
        let mut tail = self.tail();
        let length = small(block.len());
        let needed = FRAME.saturating_add(length);
        if tail.end.offset > 0 && tail.end.offset.saturating_add(needed) > self.file_bytes {
            (tail.end, tail.writer) = (tail.end.next_file(), None);
        }
        let mut writer = match tail.writer.take() {
            Some(writer) => writer,
            None => self.writer(&mut tail.end)?,
        };
        let number = tail.end.file;
        let path = self.path(number);
        tail.dirty.insert(number);
        writer
            .write_all(&frame(self.magic, length))
            .and_then(|()| writer.write_all(block))
            .map_err(file("write", &path))?;
        let row = BlockFileRow { file: number, offset: tail.end.offset.saturating_add(FRAME), length };
        tail.blocks.insert(hash, row);
        tail.end = FileEnd::behind(row);
        tail.writer = Some(writer);
        Ok(())
    }

    /// Opens the file in which the tail ends, or the next one if that is shorter: its blocks are lost.
    fn writer(&self, end: &mut FileEnd) -> Result<File, IndexError> {
        if !self.directory.exists() {
            fs::create_dir_all(&self.directory).map_err(file("make the directory", &self.directory))?;
            flush_name(&self.directory)?;
        }
        loop {
            let path = self.path(end.file);
            let failed = file("open", &path);
            let mut open = File::options().write(true).create(true).truncate(false).open(&path).map_err(&failed)?;
            let length = open.metadata().map_err(&failed)?.len();
            if length < end.offset.into() {
                *end = end.next_file();
                continue;
            }
            // what a failed append left
            open.set_len(end.offset.into()).map_err(&failed)?;
            open.seek(SeekFrom::Start(end.offset.into())).map_err(&failed)?;
            return Ok(open);
        }
    }

    /// Makes all blocks durable that were appended.
    ///
    /// Errors: [`IndexError::File`], `DiskFull`.
    pub(in crate::index) fn sync(&self) -> Result<(), IndexError> {
        for open in self.take_dirty()? {
            open.sync_data().map_err(file("flush", &self.directory))?;
        }
        Ok(())
    }

    /// The files whose flush makes all blocks durable that were appended so far, and their directory.
    ///
    /// Errors: [`IndexError::File`].
    pub(in crate::index) fn take_dirty(&self) -> Result<Vec<File>, IndexError> {
        let dirty = std::mem::take(&mut self.tail().dirty);
        if dirty.is_empty() {
            return Ok(Vec::new());
        }
        let paths = dirty.into_iter().map(|number| self.path(number)).chain([self.directory.clone()]);
        paths.map(|path| File::open(&path).map_err(file("open", &path))).collect()
    }

    /// Where a block of the tail is.
    ///
    /// Errors: [`IndexError::File`].
    pub(super) fn in_tail(&self, hash: &BlockHash) -> Result<Option<BlockFileRow>, IndexError> {
        let mut tail = self.tail();
        if !tail.is_read {
            drop(tail);
            tail = self.read_tail(|_| true)?;
        }
        Ok(tail.blocks.get(hash).copied())
    }

    /// Blocks of the tail are named by a commit.
    pub(super) fn name(&self, rows: &[(Height, BlockFileRow)]) {
        let mut named = self.named_mut();
        for (height, row) in rows {
            named.set(*height, *row);
            named.end = named.end.max(FileEnd::behind(*row));
        }
        drop(named);
        self.tail().blocks.clear();
    }

    /// The rows of these heights are deleted by a commit.
    pub(super) fn forget(&self, heights: &[Height]) {
        let mut named = self.named_mut();
        for height in heights {
            if named.get(*height).is_some() {
                named.set(*height, NamedBlocks::NONE);
            }
        }
    }

    /// Whether there is a file, named or not.
    ///
    /// Errors: [`IndexError::File`].
    pub(super) fn has_files(&self) -> Result<bool, IndexError> {
        Ok(!self.lengths()?.is_empty())
    }

    /// Removes all files, of which no row names any.
    ///
    /// Errors: [`IndexError::File`].
    pub(super) fn remove_all(&self) -> Result<(), IndexError> {
        *self.named_mut() = NamedBlocks::default();
        *self.tail() = Tail::default();
        for number in self.lengths()?.keys() {
            self.remove(*number)?;
        }
        // it stays if anything else is in it
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }

    fn remove(&self, number: u32) -> Result<(), IndexError> {
        self.open.lock().retain(|(open, _)| *open != number);
        remove_if_exists(&self.path(number))
    }

    pub(in crate::index) fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number:05}.dat"))
    }

    fn named(&self) -> RwLockReadGuard<'_, NamedBlocks> {
        self.named.read()
    }

    fn named_mut(&self) -> RwLockWriteGuard<'_, NamedBlocks> {
        self.named.write()
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }
}
