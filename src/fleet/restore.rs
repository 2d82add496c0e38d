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
/// Errors: [`FleetError::Existing`], `Backup`, `BackupDamaged`, `WrongNetwork`, `Stopped`; reading or writing a file fails.
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
    let parent = index.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match &list.joined {
        Some(joined) => joined.write(index)?,
        // of another index that was in this place
        None => JoinedNote::remove(index)?,
    }
    flush(parent)?;
    // last, because it names the others, and must not be there without its note
    fs::rename(&copied_index, index).map_err(FleetError::of_file("write", index))?;
    flush(parent)?;
    drop(lock);
    // an empty directory does no harm
    let _ = fs::remove_dir_all(&directory);
    let files = u64::try_from(copied.len()).unwrap_or(u64::MAX).saturating_add(1);
    Ok(RestoreOutcome { tip: list.tip, files })
}

#[cfg(test)]
mod tests {
    use super::super::backup::{BackupSource, back_up};
    use super::*;

    #[test]
    fn a_restored_index_was_joined_as_the_one_of_the_backup_was() {
        let directory = tempfile::tempdir().unwrap();
        let [index, backup, restored] =
            ["index.redb", "backup", "restored/index.redb"].map(|name| directory.path().join(name));
        let copy = index.with_extension("copying");
        let (network, stop) = (network::name(Network::Regtest).to_owned(), CancellationToken::new());
        fs::write(&copy, "live tables").unwrap();
        let (generations, optional) = (Vec::new(), Vec::new());
        let source = BackupSource { index: index.clone(), network, tip: None, copy, generations, optional };
        let note = |manifest: &str, txids_match| JoinedNote {
            manifest: manifest.to_owned(),
            height: 9,
            hash: "00".repeat(32).parse().unwrap(),
            txids_match,
            refusal: None,
        };
        for joined in [Some(note("of the backup", false)), Some(note("of the backup", true)), None] {
            match &joined {
                Some(note) => note.write(&index).unwrap(),
                None => JoinedNote::remove(&index).unwrap(),
            }
            back_up(&source, &backup, &stop).unwrap();
            note("of another index", true).write(&restored).unwrap();
            restore(&backup, &restored, Network::Regtest, &stop).unwrap();
            assert_eq!(JoinedNote::read(&restored), joined);
            fs::remove_file(&restored).unwrap();
        }
        // a list of an earlier version has no note
        let list = backup.join("backup.json");
        let text = fs::read_to_string(&list).unwrap();
        fs::write(&list, text.replace(",\n  \"joined\": null", "")).unwrap();
        assert!(!fs::read_to_string(&list).unwrap().contains("joined"));
        restore(&backup, &restored, Network::Regtest, &stop).unwrap();
        assert_eq!(JoinedNote::read(&restored), None);
    }
}
