//! Whether the disk has room for what is to be written.
//!
//! A write that finds no room breaks the database until it is opened again. So whoever can wait asks before: while there is
//! not enough nothing is written, and what is there can be read.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::block::ParsedBlock;
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
    reason: Reason,
}

/// What the room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// A commit of as much as the cache takes.
    Cache,
    /// The next blocks, of which each is committed whole.
    Blocks,
}

/// Less free space than the index needs before it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShortage {
    /// The bytes that have to be free.
    pub needed_bytes: u64,
    /// The bytes that are.
    pub free_bytes: u64,
    reason: Reason,
}

impl Index {
    /// What has to be free on its disk before it is changed.
    #[must_use]
    pub fn room(&self) -> Room {
        Room { path: Arc::clone(&self.path), bytes: (self.cache_bytes / 4).clamp(LEAST, ENOUGH), reason: Reason::Cache }
    }
}

impl Update<'_> {
    /// The same for these blocks and what is changed here already, if they need more: little of that is on the disk before it
    /// is committed.
    ///
    /// Errors: storage errors.
    pub fn room_for(&self, blocks: &[ParsedBlock]) -> Result<Room, IndexError> {
        let room = self.index.room();
        let bytes = self.changed_bytes(blocks)?;
        Ok(if bytes > room.bytes { Room { bytes, reason: Reason::Blocks, ..room } } else { room })
    }
}

impl Room {
    /// Whether that much is free; also if the system does not tell.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.shortage().is_none()
    }

    /// How much is needed and how much is free, if that is too little.
    #[must_use]
    pub fn shortage(&self) -> Option<DiskShortage> {
        let free_bytes = free(&self.path).filter(|free| *free < self.bytes)?;
        Some(DiskShortage { needed_bytes: self.bytes, free_bytes, reason: self.reason })
    }

    /// The bytes that have to be free.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What to do about a write that found no space, in figures.
    #[must_use]
    pub fn advice(&self) -> String {
        match (self.shortage(), free(&self.path)) {
            (Some(shortage), _) => shortage.to_string(),
            (None, Some(free)) => format!(
                "{} MiB are free on the disk of the index, and one commit takes more: free some space, or give a smaller \
                 index.memory (--memory), which makes them smaller",
                free >> 20
            ),
            (None, None) => "free some space".to_owned(),
        }
    }

    /// A quarter more than that.
    #[must_use]
    pub fn and_some_more(self) -> Self {
        Self { bytes: self.bytes.saturating_add(self.bytes / 4), ..self }
    }
}

impl fmt::Display for DiskShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, free) = (self.needed_bytes.div_ceil(1 << 20), self.free_bytes >> 20);
        write!(f, "{needed} MiB must be free on the disk of the index, and {free} MiB are: ")?;
        match self.reason {
            Reason::Cache if self.needed_bytes > LEAST => {
                f.write_str("free some space, or give a smaller index.memory (--memory), which needs less")
            }
            Reason::Cache => f.write_str("free some space"),
            Reason::Blocks => f.write_str("free some space, which the next blocks take whatever the settings are"),
        }
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
        let room = |path: &Path, bytes| Room { path: Arc::from(path), bytes, reason: Reason::Cache }.is_there();
        assert!(room(directory.path(), 1));
        assert!(!room(directory.path(), u64::MAX));
        assert!(room(&directory.path().join("absent"), u64::MAX));
    }

    #[test]
    fn a_shortage_names_both_sizes_and_the_setting_that_lowers_it() {
        let shortage = |needed_bytes, reason| DiskShortage { needed_bytes, free_bytes: (93 << 20) + 1, reason };
        assert_eq!(
            shortage((240 << 20) - 1, Reason::Cache).to_string(),
            "240 MiB must be free on the disk of the index, and 93 MiB are: free some space, or give a \
             smaller index.memory (--memory), which needs less"
        );
        let of_blocks = shortage(240 << 20, Reason::Blocks).to_string();
        assert!(of_blocks.ends_with("which the next blocks take whatever the settings are"), "{of_blocks}");
        assert!(!shortage(LEAST, Reason::Cache).to_string().contains("--memory"));
    }
}
