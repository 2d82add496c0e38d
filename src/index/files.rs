//! Changes to files and directories of the index, whose errors name the path.

use std::path::Path;

use super::error::IndexError;
use crate::durable;

/// The error of doing something with a path.
pub(super) fn file<'p>(doing: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> IndexError + use<'p> {
    move |source| match source.kind() {
        std::io::ErrorKind::StorageFull => IndexError::DiskFull,
        _ => IndexError::File { doing, path: path.to_path_buf(), source },
    }
}

/// Makes the names in a directory durable.
pub(super) fn flush_directory(directory: &Path) -> Result<(), IndexError> {
    durable::sync_directory(directory).map_err(file("flush", directory))
}

/// Makes the name of a file or a directory durable.
pub(super) fn flush_name(path: &Path) -> Result<(), IndexError> {
    durable::sync_name(path).map_err(file("flush the name of", path))
}

/// Removes a file if there is one.
///
/// Errors: [`IndexError::File`].
pub(super) fn remove_if_exists(path: &Path) -> Result<(), IndexError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(file("remove", path)),
    }
}

/// The bytes of a file, or of all files in a directory and below it; 0 if it is not there.
///
/// Errors: [`IndexError::File`].
pub(super) fn bytes_below(path: &Path) -> Result<u64, IndexError> {
    let found = match std::fs::symlink_metadata(path) {
        // another thread may have removed it meanwhile
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        found => found.map_err(file("find", path))?,
    };
    if !found.is_dir() {
        return Ok(found.len());
    }
    let entries = std::fs::read_dir(path).map_err(file("read", path))?;
    entries.map(|entry| bytes_below(&entry.map_err(file("read", path))?.path())).sum()
}

/// Removes a directory with all that is in it, if there is one.
///
/// Errors: [`IndexError::File`].
pub(super) fn remove_directory_if_exists(path: &Path) -> Result<(), IndexError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(file("remove", path)),
    }
}
