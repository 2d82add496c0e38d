//! A file that redb may write to, and that stays as it is: all writes stay in memory.
//!
//! redb writes when it opens a file: that it is open, and after a crash what it works out anew.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use redb::{BackendError, StorageBackend};

/// Writes are stored in blocks of this many bytes.
const BLOCK: u64 = 4096;
const BLOCK_LENGTH: usize = 4096;

/// A file with later writes kept in memory.
pub(super) struct Unchanged<B> {
    file: B,
    /// The length of the file that is still valid: the rest was truncated.
    file_length: AtomicU64,
    length: AtomicU64,
    written: RwLock<HashMap<u64, Box<[u8]>>>,
    watch: Box<WatchReads>,
}

/// Called before each read with its bytes and the length of the file. An error ends the read.
type WatchReads = dyn Fn(usize, u64) -> io::Result<()> + Send + Sync;

impl<B: StorageBackend> fmt::Debug for Unchanged<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unchanged").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The blocks that contain `length` bytes from `offset` on, each with its range among these bytes and the offset of their
/// first byte in it.
fn blocks(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, usize)> {
    let end = offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    (offset / BLOCK..end.div_ceil(BLOCK)).filter_map(move |block| {
        let (first, last) = (offset.max(block * BLOCK), end.min((block + 1) * BLOCK));
        let among = usize::try_from(first - offset).ok()?..usize::try_from(last - offset).ok()?;
        Some((block, among, usize::try_from(first % BLOCK).ok()?))
    })
}

impl<B: StorageBackend> Unchanged<B> {
    /// Errors: the file cannot be read.
    pub(super) fn new(
        file: B,
        watch: impl Fn(usize, u64) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let length = file.len()?;
        Ok(Self {
            file,
            file_length: AtomicU64::new(length),
            length: AtomicU64::new(length),
            written: RwLock::default(),
            watch: Box::new(watch),
        })
    }

    /// Reads the file, and zeros beyond its end.
    fn read_file(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = self.file_length.load(Ordering::Acquire).saturating_sub(offset);
        let (from_file, behind) = out.split_at_mut(usize::try_from(there).unwrap_or(usize::MAX).min(out.len()));
        behind.fill(0);
        if from_file.is_empty() { Ok(()) } else { self.file.read(offset, from_file) }
    }
}

impl<B: StorageBackend> StorageBackend for Unchanged<B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let length = self.length.load(Ordering::Acquire);
        (self.watch)(out.len(), length)?;
        let end = u64::try_from(out.len()).ok().and_then(|bytes| offset.checked_add(bytes));
        if end.is_none_or(|end| end > length) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.read_file(offset, out)?;
        let written = self.written.read();
        if !written.is_empty() {
            for (block, among, begin) in blocks(offset, out.len()) {
                if let Some(block) = written.get(&block) {
                    let count = among.len();
                    out[among].copy_from_slice(&block[begin..begin + count]);
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut written = self.written.write();
        written.retain(|block, _| block * BLOCK < length);
        if let (Some(last), Ok(left)) = (written.get_mut(&(length / BLOCK)), usize::try_from(length % BLOCK)) {
            last[left..].fill(0);
        }
        self.file_length.fetch_min(length, Ordering::AcqRel);
        self.length.store(length, Ordering::Release);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.write();
        for (block, among, begin) in blocks(offset, data.len()) {
            let count = among.len();
            let bytes = match written.entry(block) {
                Entry::Occupied(bytes) => bytes.into_mut(),
                Entry::Vacant(place) => {
                    let mut bytes = vec![0; BLOCK_LENGTH];
                    self.read_file(block * BLOCK, &mut bytes)?;
                    place.insert(bytes.into_boxed_slice())
                }
            };
            bytes[begin..begin + count].copy_from_slice(&data[among]);
        }
        let end = offset.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        self.length.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    // a reader shares the file with other readers, and with no writer

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use proptest::prelude::*;
    use redb::backends::FileBackend;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        SetLen(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u64..20_000, prop::collection::vec(any::<u8>(), 1..9_000)).prop_map(|(at, data)| Step::Write(at, data)),
            (0_u64..30_000).prop_map(Step::SetLen),
        ]
    }

    proptest! {
        #[test]
        fn reads_see_the_writes_and_the_file_stays_unchanged(
            length in 0_usize..20_000,
            steps in prop::collection::vec(step(), 0..8),
        ) {
            let original: Vec<u8> = (1..=u8::MAX).cycle().take(length).collect();
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), &original).unwrap();
            let opened = FileBackend::new(File::open(file.path()).unwrap()).unwrap();
            let unchanged = Unchanged::new(opened, |_, _| Ok(())).unwrap();
            let mut expected = original.clone();
            for step in steps {
                match step {
                    Step::Write(at, data) => {
                        unchanged.write(at, &data).unwrap();
                        let at = usize::try_from(at).unwrap();
                        expected.resize(expected.len().max(at + data.len()), 0);
                        expected[at..at + data.len()].copy_from_slice(&data);
                    }
                    Step::SetLen(length) => {
                        unchanged.set_len(length).unwrap();
                        expected.resize(usize::try_from(length).unwrap(), 0);
                    }
                }
                let mut found = vec![0xee; expected.len()];
                unchanged.read(0, &mut found).unwrap();
                prop_assert!(found == expected);
            }
            prop_assert_eq!(unchanged.len().unwrap(), expected.len() as u64);
            let mut beyond = vec![0; expected.len() + 1];
            prop_assert_eq!(unchanged.read(0, &mut beyond).unwrap_err().kind(), ErrorKind::UnexpectedEof);
            prop_assert!(fs::read(file.path()).unwrap() == original);
        }
    }
}
