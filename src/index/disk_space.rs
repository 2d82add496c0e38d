//! The free disk space that the index needs before it is changed.
//!
//! A write to a full disk breaks the database until it is opened again. So a writer that can wait checks the free space first:
//! while there is too little it writes nothing, and the index can still be read.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::block::ParsedBlock;
use super::error::IndexError;
use super::hot::update::Update;
use super::open::Index;

/// Space for a commit without blocks: rows of the mempool, or the deletion of shadowed rows.
const RESERVE: u64 = 16 << 20;

/// The free space that an index requires on its disk.
#[derive(Clone, Debug)]
pub struct RequiredSpace {
    path: Arc<Path>,
    bytes: u64,
}

/// The disk has less free space than the index requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShortage {
    /// The bytes that must be free.
    pub needed_bytes: u64,
    /// The bytes that are free.
    pub free_bytes: u64,
}

impl Index {
    /// The space that must be free on its disk before it is changed, for all changes but blocks.
    #[must_use]
    pub fn required_space(&self) -> RequiredSpace {
        RequiredSpace { path: Arc::clone(&self.path), bytes: RESERVE }
    }
}

impl Update<'_> {
    /// The space that must be free for these blocks and the uncommitted changes, if they need more than
    /// [`Index::required_space`]: little of that is on the disk before the commit.
    ///
    /// Errors: storage errors.
    pub fn required_space_for(&self, blocks: &[ParsedBlock]) -> Result<RequiredSpace, IndexError> {
        let space = self.index.required_space();
        Ok(RequiredSpace { bytes: space.bytes.max(self.changed_bytes(blocks)?), ..space })
    }
}

impl RequiredSpace {
    /// So many bytes on the disk of this path.
    #[must_use]
    pub fn at(path: &Path, bytes: u64) -> Self {
        Self { path: Arc::from(path), bytes }
    }

    /// Whether that much is free. True also if the free space is unknown.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.shortage().is_none()
    }

    /// The required and the free space, if too little is free.
    #[must_use]
    pub fn shortage(&self) -> Option<DiskShortage> {
        let free_bytes = free(&self.path).filter(|free| *free < self.bytes)?;
        Some(DiskShortage { needed_bytes: self.bytes, free_bytes })
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
            (None, Some(free)) => {
                format!(
                    "{} MiB are free on the disk of the index, and one commit takes more: free some space",
                    free >> 20
                )
            }
            (None, None) => "free some space".to_owned(),
        }
    }

    /// The space for what takes so many bytes while it is built, beside this.
    #[must_use]
    pub fn with_build(self, bytes: u64) -> Self {
        Self { bytes: self.bytes.saturating_add(bytes), ..self }
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
        write!(f, "{needed} MiB must be free on the disk of the index, and {free} MiB are: free some space")
    }
}

/// Makes a file so many bytes long, and takes their space on the disk if its file system can.
///
/// Errors: the disk has less space; the file cannot be changed.
pub fn reserve_space(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if bytes > 0 {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::{Errno, retry_on_intr};
        let before = file.metadata()?.len();
        let taken = retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes));
        // a file system that cannot do it says so in many ways
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) = taken {
            // the rest of the disk is for others
            file.set_len(before)?;
            return Err(error.into());
        }
    }
    file.set_len(bytes)
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

/// The directory, or the lowest one above it that exists: they will be on one disk.
pub(super) fn nearest_existing(directory: &Path) -> &Path {
    let here = Path::new(".");
    directory.ancestors().find(|path| path.exists()).unwrap_or(here)
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
        let is_free = |path: &Path, bytes| RequiredSpace { path: Arc::from(path), bytes }.is_free();
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
    fn a_shortage_names_both_sizes() {
        let shortage = DiskShortage { needed_bytes: (240 << 20) - 1, free_bytes: (93 << 20) + 1 };
        assert_eq!(
            shortage.to_string(),
            "240 MiB must be free on the disk of the index, and 93 MiB are: free some space"
        );
    }
}
