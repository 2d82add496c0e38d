//! Files that are removed when nothing reads them any more.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::files::remove_if_exists;

/// A file that is removed when this is dropped after it was retired.
pub(super) struct RetirableFile {
    path: PathBuf,
    is_retired: AtomicBool,
}

impl RetirableFile {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), is_retired: AtomicBool::new(false) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes, `None` if the file system does not report them.
    pub(super) fn bytes(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|file| file.len())
    }

    /// Has the file removed when this is dropped.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }
}

impl Drop for RetirableFile {
    fn drop(&mut self) {
        if self.is_retired.load(Ordering::Relaxed) {
            // what cannot be removed now is removed at the next start
            let _ = remove_if_exists(&self.path);
        }
    }
}
