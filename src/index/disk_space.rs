//! The free disk space that the index needs before it is changed.
//!
//! A write to a full disk breaks the database until it is opened again. So a writer that can wait checks the free space first:
//! while there is too little it writes nothing, and the index can still be read.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::block::ParsedBlock;
use super::error::IndexError;
use super::open::Index;
use super::update::Update;

/// A block of 3,000 transactions changes some 40,000 pages, and each is written to 4 KiB of free space.
const ENOUGH: u64 = 256 << 20;
/// The minimum, for an index with a small cache.
const LEAST: u64 = 1 << 20;

/// The free space that an index requires on its disk.
#[derive(Clone, Debug)]
pub struct RequiredSpace {
    path: Arc<Path>,
    bytes: u64,
    reason: Reason,
}

/// What the space is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// A commit of as many changes as fit into the cache.
    Cache,
    /// The next blocks, each of which is committed whole.
    Blocks,
}

/// The disk has less free space than the index requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShortage {
    /// The bytes that must be free.
    pub needed_bytes: u64,
    /// The bytes that are free.
    pub free_bytes: u64,
    reason: Reason,
}

impl Index {
    /// The space that must be free on its disk before it is changed.
    #[must_use]
    pub fn required_space(&self) -> RequiredSpace {
        RequiredSpace {
            path: Arc::clone(&self.path),
            bytes: (self.cache_bytes / 4).clamp(LEAST, ENOUGH),
            reason: Reason::Cache,
        }
    }
}

impl Update<'_> {
    /// The space that must be free for these blocks and the uncommitted changes, if they need more than
    /// [`Index::required_space`]: little of that is on the disk before the commit.
    ///
    /// Errors: storage errors.
    pub fn required_space_for(&self, blocks: &[ParsedBlock]) -> Result<RequiredSpace, IndexError> {
        let space = self.index.required_space();
        let bytes = self.changed_bytes(blocks)?;
        Ok(if bytes > space.bytes { RequiredSpace { bytes, reason: Reason::Blocks, ..space } } else { space })
    }
}

impl RequiredSpace {
    /// Whether that much is free. True also if the free space is unknown.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.shortage().is_none()
    }

    /// The required and the free space, if too little is free.
    #[must_use]
    pub fn shortage(&self) -> Option<DiskShortage> {
        let free_bytes = free(&self.path).filter(|free| *free < self.bytes)?;
        Some(DiskShortage { needed_bytes: self.bytes, free_bytes, reason: self.reason })
    }

    /// The bytes that must be free.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What to do after a write to a full disk, with the sizes.
    #[must_use]
    pub fn advice(&self) -> String {
        match (self.shortage(), free(&self.path)) {
            (Some(shortage), _) => shortage.to_string(),
            (None, Some(free)) => format!(
                "{} MiB are free on the disk of the index, and one commit takes more: free some space, or set a smaller \
                 index.memory (--memory), which makes commits smaller",
                free >> 20
            ),
            (None, None) => "free some space".to_owned(),
        }
    }

    /// A quarter more than this.
    #[must_use]
    pub fn plus_a_quarter(self) -> Self {
        Self { bytes: self.bytes.saturating_add(self.bytes / 4), ..self }
    }
}

impl fmt::Display for DiskShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, free) = (self.needed_bytes.div_ceil(1 << 20), self.free_bytes >> 20);
        write!(f, "{needed} MiB must be free on the disk of the index, and {free} MiB are: ")?;
        match self.reason {
            Reason::Cache if self.needed_bytes > LEAST => {
                f.write_str("free some space, or set a smaller index.memory (--memory), which requires less")
            }
            Reason::Cache => f.write_str("free some space"),
            Reason::Blocks => f.write_str("free some space; the next blocks need it with any settings"),
        }
    }
}

/// The bytes that this user can still write to the disk of this file.
#[cfg(unix)]
pub(super) fn free(path: &Path) -> Option<u64> {
    // some file systems in user space report only zeros
    let disk = rustix::fs::statvfs(path).ok().filter(|disk| disk.f_blocks > 0)?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
pub(super) fn free(_: &Path) -> Option<u64> {
    None
}

/// Whether two files are on one disk. True also if that is unknown.
#[cfg(unix)]
pub(super) fn is_same_disk(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| path.metadata().ok().map(|file| file.dev());
    device(one).zip(device(other)).is_none_or(|(one, other)| one == other)
}

#[cfg(not(unix))]
pub(super) fn is_same_disk(_: &Path, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_free_if_it_fits_or_the_disk_is_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let is_free =
            |path: &Path, bytes| RequiredSpace { path: Arc::from(path), bytes, reason: Reason::Cache }.is_free();
        assert!(is_free(directory.path(), 1));
        assert!(!is_free(directory.path(), u64::MAX));
        assert!(is_free(&directory.path().join("absent"), u64::MAX));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn directories_are_on_one_disk_or_on_two() {
        let directory = tempfile::tempdir().unwrap();
        assert!(is_same_disk(directory.path(), directory.path()));
        assert!(!is_same_disk(directory.path(), Path::new("/proc")));
        assert!(is_same_disk(directory.path(), &directory.path().join("absent")));
    }

    #[test]
    fn a_shortage_names_both_sizes_and_the_setting() {
        let shortage = |needed_bytes, reason| DiskShortage { needed_bytes, free_bytes: (93 << 20) + 1, reason };
        assert_eq!(
            shortage((240 << 20) - 1, Reason::Cache).to_string(),
            "240 MiB must be free on the disk of the index, and 93 MiB are: free some space, or set a \
             smaller index.memory (--memory), which requires less"
        );
        let of_blocks = shortage(240 << 20, Reason::Blocks).to_string();
        assert!(of_blocks.ends_with("the next blocks need it with any settings"), "{of_blocks}");
        assert!(!shortage(LEAST, Reason::Cache).to_string().contains("--memory"));
    }
}
