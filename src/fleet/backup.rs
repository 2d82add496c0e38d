//! Writes a backup: a directory with the files of the generations, a copy of the live tables, and a list of both with their
//! checksums. A generation never changes, so each is copied once, however often the backup is brought up to date.
//!
//! ```text
//!   backup.json                 the list, which is replaced last: until then the backup is the one before
//!   index-<sha256>.redb         the copy of the live tables
//!   index.frozen/<file>         the generations and their optional tables
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bitcoin::BlockHash;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::error::FleetError;
use super::files::{copy_file, flush, lock, write_whole};
use super::progress::TransferProgress;

/// The format of the list.
const BACKUP_FORMAT: u32 = 1;
const LIST: &str = "backup.json";
pub(super) const FROZEN: &str = "index.frozen";

/// The files of an index at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupSource {
    /// The network, as the settings spell it.
    pub network: String,
    /// The height and the hash of the tip, `None` in an empty index.
    pub tip: Option<(u32, BlockHash)>,
    /// A copy of the live tables, which is removed.
    pub copy: PathBuf,
    /// The generations that the copy names.
    pub generations: Vec<PathBuf>,
    /// Their optional tables; one that is gone is built again.
    pub optional: Vec<PathBuf>,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupOutcome {
    /// How many files were copied.
    pub copied: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The list of a backup.
#[derive(Serialize, Deserialize)]
pub(super) struct BackupList {
    format: u32,
    pub(super) network: String,
    pub(super) tip: Option<(u32, BlockHash)>,
    /// The copy of the live tables.
    pub(super) index: BackupFile,
    /// In `index.frozen`.
    pub(super) frozen: Vec<BackupFile>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct BackupFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl BackupList {
    /// The list in a directory, `None` if there is none.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, FleetError> {
        let unusable = |reason: String| FleetError::Backup { path: directory.to_path_buf(), reason };
        let path = directory.join(LIST);
        let content = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            content => content.map_err(FleetError::of_file("read", &path))?,
        };
        let list: Self = serde_json::from_slice(&content).map_err(|error| unusable(format!("{LIST}: {error}")))?;
        if list.format != BACKUP_FORMAT {
            let found = list.format;
            return Err(unusable(format!("it has format {found}, but this version reads format {BACKUP_FORMAT}")));
        }
        let foreign = {
            let mut names = list.frozen.iter().chain([&list.index]).map(|file| &file.name);
            names.find(|name| !is_file_name(name)).cloned()
        };
        match foreign {
            None => Ok(Some(list)),
            Some(name) => Err(unusable(format!("{LIST} names the file {name:?}"))),
        }
    }
}

/// Whether it names a file in a directory, and nothing above it.
fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !name.starts_with('.') && !name.is_empty() && name.bytes().all(is_plain)
}

/// Writes a backup of these files to a directory, or brings the one up to date that is there. Blocks.
///
/// Errors: [`FleetError::Backup`] if the directory has one of another network; a file cannot be read or written;
/// [`FleetError::Stopped`]. The backup before stays whole.
pub fn back_up(source: &BackupSource, to: &Path, stop: &CancellationToken) -> Result<BackupOutcome, FleetError> {
    let frozen = to.join(FROZEN);
    fs::create_dir_all(&frozen).map_err(FleetError::of_file("make the directory", &frozen))?;
    let _lock = lock(to)?;
    let before = BackupList::read(to)?;
    if let Some(before) = before.as_ref().filter(|before| before.network != source.network) {
        let reason = format!("it is one of network {}, and this index is of {}", before.network, source.network);
        return Err(FleetError::Backup { path: to.to_path_buf(), reason });
    }
    let known = before.map(|before| before.frozen).unwrap_or_default();
    let known: BTreeMap<_, _> = known.into_iter().map(|file| (file.name.clone(), file)).collect();
    let (mut listed, mut wanted) = (Vec::new(), Vec::new());
    for (path, is_optional) in
        source.generations.iter().map(|path| (path, false)).chain(source.optional.iter().map(|path| (path, true)))
    {
        let bytes = match fs::metadata(path) {
            Err(error) if is_optional && error.kind() == std::io::ErrorKind::NotFound => continue,
            found => found.map_err(FleetError::of_file("find", path))?.len(),
        };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let there = fs::metadata(frozen.join(&name)).is_ok_and(|there| there.len() == bytes);
        match known.get(&name).filter(|known| there && known.bytes == bytes) {
            Some(known) => listed.push(known.clone()),
            None => wanted.push((path, name, bytes, is_optional)),
        }
    }
    let copy_bytes = fs::metadata(&source.copy).map_err(FleetError::of_file("find", &source.copy))?.len();
    let all = wanted.iter().map(|(_, _, bytes, _)| bytes).sum::<u64>() + copy_bytes;
    let progress = Arc::new(TransferProgress::new("copying", all));
    let mut outcome = BackupOutcome { copied: 1, bytes: copy_bytes };
    for (path, name, bytes, is_optional) in wanted {
        let target = frozen.join(&name);
        match copy_file(path, &target, &progress, stop) {
            Ok(sum) => listed.push(BackupFile { name, bytes, sha256: sum.to_string() }),
            // removed meanwhile
            Err(FleetError::File { ref source, .. })
                if is_optional && source.kind() == std::io::ErrorKind::NotFound =>
            {
                continue;
            }
            Err(error) => return Err(error),
        }
        outcome = BackupOutcome { copied: outcome.copied + 1, bytes: outcome.bytes + bytes };
    }
    let unnamed = to.join("index.part");
    let sum = copy_file(&source.copy, &unnamed, &progress, stop)?;
    let index = BackupFile { name: format!("index-{sum}.redb"), bytes: copy_bytes, sha256: sum.to_string() };
    let path = to.join(&index.name);
    fs::rename(&unnamed, &path).map_err(FleetError::of_file("write", &path))?;
    flush(&frozen)?;
    flush(to)?;
    let (network, tip) = (source.network.clone(), source.tip);
    let list = BackupList { format: BACKUP_FORMAT, network, tip, index, frozen: listed };
    let path = to.join(LIST);
    let content =
        serde_json::to_vec_pretty(&list).map_err(|error| FleetError::of_file("write", &path)(error.into()))?;
    write_whole(&path, &content)?;
    flush(to)?;
    remove_unlisted(to, &list);
    Ok(outcome)
}

/// Removes files of the backup before. What cannot be removed stays, and does no harm.
fn remove_unlisted(to: &Path, list: &BackupList) {
    let is_listed = |name: &str| list.index.name == name || list.frozen.iter().any(|file| file.name == name);
    for directory in [to.to_path_buf(), to.join(FROZEN)] {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().extension().is_some_and(|extension| extension == "redb") && !is_listed(&name) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_names_only_files_within_it() {
        for name in ["index-ab.redb", "0-9-ab-00000001.redb", "0-9-ab-1.wtxids-2.redb"] {
            assert!(is_file_name(name), "{name}");
        }
        for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", ".hidden"] {
            assert!(!is_file_name(name), "{name}");
        }
    }
}
