//! Files that are there as a whole or not at all, also after a crash.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::error::FleetError;
use super::names::ContentHash;
use super::progress::TransferProgress;
use crate::chain::wide;
use crate::durable;

/// A lock on a directory of transfers, while the file is open.
pub(super) fn lock(directory: &Path) -> Result<File, FleetError> {
    let path = directory.join("lock");
    let file = File::create(&path).map_err(FleetError::of_file("make", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(FleetError::Locked { path: directory.to_path_buf() }),
        Err(fs::TryLockError::Error(error)) => Err(FleetError::of_file("lock", &path)(error)),
    }
}

/// Writes a file that is there as a whole or not at all. [`flush`] of its directory makes it durable.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> Result<(), FleetError> {
    let written = FleetError::of_file("write", path);
    let unfinished = path.with_extension("new");
    let mut file = File::create(&unfinished).map_err(&written)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(&written)?;
    fs::rename(&unfinished, path).map_err(&written)
}

/// Copies a file to one that is there when it is complete and on the disk. Returns the checksum of what was read.
pub(super) fn copy_file(
    from: &Path,
    to: &Path,
    progress: &TransferProgress,
    stop: &CancellationToken,
) -> Result<ContentHash, FleetError> {
    let (read, written) = (FleetError::of_file("read", from), FleetError::of_file("write", to));
    let mut source = File::open(from).map_err(&read)?;
    let unfinished = to.with_extension("new");
    let mut target = File::create(&unfinished).map_err(&written)?;
    let (mut sum, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        if stop.is_cancelled() {
            return Err(FleetError::Stopped);
        }
        let length = source.read(&mut buffer).map_err(&read)?;
        if length == 0 {
            break;
        }
        sum.update(&buffer[..length]);
        target.write_all(&buffer[..length]).map_err(&written)?;
        progress.add(wide(length));
    }
    target.sync_all().map_err(&written)?;
    fs::rename(&unfinished, to).map_err(&written)?;
    Ok(ContentHash(sum.finalize().into()))
}

/// Makes renames within a directory durable.
pub(super) fn flush(directory: &Path) -> Result<(), FleetError> {
    durable::sync_directory(directory).map_err(FleetError::of_file("flush", directory))
}
