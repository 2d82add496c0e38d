//! Restores a backup into a data directory without an index.

use std::fs;
use std::path::{Path, PathBuf};

use bitcoin::{BlockHash, Network};
use tokio_util::sync::CancellationToken;

use super::backup::{BackupFile, BackupList, FROZEN};
use super::error::FleetError;
use super::files::{copy_file, flush, lock};
use super::joined::JoinedNote;
use super::progress::TransferProgress;
use crate::chain::network;

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// The height and the hash of the tip, `None` in an empty index.
    pub tip: Option<(u32, BlockHash)>,
    /// How many files were copied.
    pub files: u64,
}

/// Copies a backup to the place of the index in this file, and compares every file with its checksum before. Blocks. The index
/// appears when all of it is there.
///
/// Errors: [`FleetError::Existing`], `Backup`, `BackupDamaged`, `WrongNetwork`, `Stopped`; a file cannot be read or written.
pub fn restore(
    from: &Path,
    index: &Path,
    network: Network,
    stop: &CancellationToken,
) -> Result<RestoreOutcome, FleetError> {
    for path in [index.to_path_buf(), index.with_extension("building")] {
        if path.exists() {
            return Err(FleetError::Existing { path });
        }
    }
    // of another index that was in this place
    JoinedNote::remove(index)?;
    let none = || FleetError::Backup { path: from.to_path_buf(), reason: "there is no backup.json in it".to_owned() };
    let list = BackupList::read(from)?.ok_or_else(none)?;
    let expected = network::name(network);
    if list.network != expected {
        let object = format!("the backup {}", from.display());
        return Err(FleetError::WrongNetwork { object, found: list.network, expected: expected.to_owned() });
    }
    let (directory, frozen) = (index.with_extension("restoring"), index.with_extension("frozen"));
    for directory in [&directory, &frozen] {
        fs::create_dir_all(directory).map_err(FleetError::of_file("make the directory", directory))?;
    }
    let lock = lock(&directory)?;
    let bytes = list.frozen.iter().chain([&list.index]).map(|file| file.bytes).sum();
    let progress = TransferProgress::new("copying", bytes);
    let copy = |file: &BackupFile, source: PathBuf| -> Result<PathBuf, FleetError> {
        let target = directory.join(&file.name);
        let sum = copy_file(&source, &target, &progress, stop)?;
        if sum.to_string() == file.sha256 { Ok(target) } else { Err(FleetError::BackupDamaged { path: source }) }
    };
    let mut copied = Vec::new();
    for file in &list.frozen {
        copied.push((copy(file, from.join(FROZEN).join(&file.name))?, frozen.join(&file.name)));
    }
    let copied_index = copy(&list.index, from.join(&list.index.name))?;
    for (path, target) in &copied {
        fs::rename(path, target).map_err(FleetError::of_file("write", target))?;
    }
    flush(&frozen)?;
    // last, because it names the others
    fs::rename(&copied_index, index).map_err(FleetError::of_file("write", index))?;
    if let Some(directory) = index.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        flush(directory)?;
    }
    drop(lock);
    // an empty directory does no harm
    let _ = fs::remove_dir_all(&directory);
    let files = u64::try_from(copied.len()).unwrap_or(u64::MAX).saturating_add(1);
    Ok(RestoreOutcome { tip: list.tip, files })
}
