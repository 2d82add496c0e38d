//! Whether the disk has room for what is to be written.
//!
//! A write that finds no room breaks the database until it is opened again. So whoever can wait asks before: while there is
//! not enough nothing is written, and what is there can be read.

use std::path::Path;
use std::sync::Arc;

use super::block::Block;
use super::error::IndexError;
use super::open::Index;
use super::update::Update;

/// A block of 3,000 transactions changes some 40,000 pages, of which each takes 4 KiB anew.
const ENOUGH: u64 = 256 << 20;
/// What an index with a small cache needs at least.
const LEAST: u64 = 1 << 20;

/// The place of an index, and how much has to be free there.
#[derive(Clone, Debug)]
pub struct Room {
    path: Arc<Path>,
    bytes: u64,
}

impl Index {
    /// What has to be free on its disk before it is changed.
    #[must_use]
    pub fn room(&self) -> Room {
        Room { path: Arc::clone(&self.path), bytes: (self.cache_bytes / 4).clamp(LEAST, ENOUGH) }
    }
}

impl Update<'_> {
    /// The same for these blocks and what is changed here already, if they need more: little of that is on the disk before it
    /// is committed.
    ///
    /// Errors: storage errors.
    pub fn room_for(&self, blocks: &[Block]) -> Result<Room, IndexError> {
        let Room { path, bytes } = self.index.room();
        Ok(Room { path, bytes: bytes.max(self.changed_bytes(blocks)?) })
    }
}

impl Room {
    /// Whether that much is free; also if the system does not tell.
    #[must_use]
    pub fn is_there(&self) -> bool {
        free(&self.path).is_none_or(|free| free >= self.bytes)
    }

    /// A quarter more than that.
    #[must_use]
    pub fn and_some_more(self) -> Self {
        Self { bytes: self.bytes.saturating_add(self.bytes / 4), ..self }
    }

    /// The bytes that have to be free.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The bytes that this user may still write where this file is.
#[cfg(unix)]
fn free(path: &Path) -> Option<u64> {
    // some of those that a program serves tell nothing but zeros
    let disk = rustix::fs::statvfs(path).ok().filter(|disk| disk.f_blocks > 0)?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_what_fits_and_none_for_what_does_not_and_where_nobody_knows_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let room = |path: &Path, bytes| Room { path: Arc::from(path), bytes }.is_there();
        assert!(room(directory.path(), 1));
        assert!(!room(directory.path(), u64::MAX));
        assert!(room(&directory.path().join("absent"), u64::MAX));
    }
}
