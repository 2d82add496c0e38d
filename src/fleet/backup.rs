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
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bitcoin::BlockHash;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::error::FleetError;
use super::files::{copy_file, flush, lock, write_whole};
use super::joined::JoinedNote;
use super::names::ContentHash;
use super::progress::TransferProgress;

/// The format of the list.
const BACKUP_FORMAT: u32 = 1;
const LIST: &str = "backup.json";
pub(super) const FROZEN: &str = "index.frozen";
/// The ends of the names in `index.frozen` of what is being copied, and of a copy that waits for the others.
const UNFINISHED: [&str; 2] = [".new", ".copied"];

/// The files of an index at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupSource {
    /// The file of the index.
    pub index: PathBuf,
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

/// What was copied.
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
    /// What was known of the index if it was joined.
    #[serde(default)]
    pub(super) joined: Option<JoinedNote>,
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

/// Whether it names a copy of the live tables.
fn is_copy_of_live_tables(name: &str) -> bool {
    let sum = name.strip_prefix("index-").and_then(|rest| rest.strip_suffix(".redb"));
    sum.is_some_and(|sum| sum.parse::<ContentHash>().is_ok())
}

/// Whether it names what an interrupted backup left of a generation or its optional tables.
fn is_unfinished(name: &str) -> bool {
    let Some(stem) = UNFINISHED.iter().find_map(|end| name.strip_suffix(end)) else { return false };
    let mut parts = stem.splitn(4, '-');
    let mut has = |is_digit: fn(&u8) -> bool| {
        parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| is_digit(&byte)))
    };
    has(u8::is_ascii_digit) && has(u8::is_ascii_digit) && has(u8::is_ascii_hexdigit) && parts.next().is_some()
}

/// Refuses a directory in which a backup would mix with the files of this index.
///
/// Errors: [`FleetError::Backup`]; a path cannot be resolved.
pub fn check_backup_directory(index: &Path, to: &Path) -> Result<(), FleetError> {
    let resolved = |path: &Path| resolve(path).map_err(FleetError::of_file("resolve", path));
    let own = resolved(index.parent().unwrap_or(index))?;
    // it may be a link to another disk
    let own_frozen = resolved(&index.with_extension("frozen"))?;
    for directory in [to.to_path_buf(), to.join(FROZEN)] {
        let directory = resolved(&directory)?;
        let is_own = match directory.strip_prefix(&own) {
            // all that is named `index.…` beside an index belongs to it
            Ok(below) => below
                .components()
                .next()
                .is_none_or(|first| first.as_os_str().as_encoded_bytes().starts_with(b"index.")),
            Err(_) => directory.starts_with(&own_frozen),
        };
        if is_own {
            let index = index.display();
            let reason = format!(
                "the files of the index {index} are in it; set --to to another directory, best on another disk"
            );
            return Err(FleetError::Backup { path: to.to_path_buf(), reason });
        }
    }
    Ok(())
}

/// The path without links and `..`, as far as it exists.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut resolved = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        if component == Component::ParentDir {
            resolved.pop();
            continue;
        }
        resolved.push(component);
        if let Ok(real) = fs::canonicalize(&resolved) {
            resolved = real;
        }
    }
    Ok(resolved)
}

/// Writes a backup of these files to a directory, or brings the one up to date that is there. Blocks.
///
/// Errors: [`FleetError::Backup`] if the directory has one of another network, or is one of the index; reading or writing a
/// file fails; [`FleetError::Stopped`]. The backup before stays whole.
pub fn back_up(source: &BackupSource, to: &Path, stop: &CancellationToken) -> Result<BackupOutcome, FleetError> {
    check_backup_directory(&source.index, to)?;
    let frozen = to.join(FROZEN);
    fs::create_dir_all(&frozen).map_err(FleetError::of_file("make the directory", &frozen))?;
    let _lock = lock(to)?;
    remove_unfinished(&frozen);
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
    let mut copied = Vec::new();
    for (path, name, bytes, is_optional) in wanted {
        let target = frozen.join(&name);
        let waiting = target.with_extension("copied");
        match copy_file(path, &waiting, &progress, stop) {
            Ok(sum) => {
                copied.push((waiting, target));
                listed.push(BackupFile { name, bytes, sha256: sum.to_string() });
            }
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
    // only now, because a generation that no list has stays for ever once it is merged
    for (waiting, target) in copied {
        fs::rename(&waiting, &target).map_err(FleetError::of_file("write", &target))?;
    }
    flush(&frozen)?;
    flush(to)?;
    let (network, tip) = (source.network.clone(), source.tip);
    // as late as possible, because a comparison of the txids may end meanwhile
    let joined = JoinedNote::read(&source.index);
    let list = BackupList { format: BACKUP_FORMAT, network, tip, index, frozen: listed, joined };
    let path = to.join(LIST);
    let content =
        serde_json::to_vec_pretty(&list).map_err(|error| FleetError::of_file("write", &path)(error.into()))?;
    write_whole(&path, &content)?;
    flush(to)?;
    remove_unlisted(to, known.keys(), &list);
    Ok(outcome)
}

/// Removes what an interrupted backup left. What cannot be removed stays, and does no harm.
fn remove_unfinished(frozen: &Path) {
    for entry in fs::read_dir(frozen).into_iter().flatten().flatten() {
        if is_unfinished(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes what only backups before have: these files of `index.frozen`, and copies of the live tables. Other files are not of
/// a backup, and stay. What cannot be removed stays, too, and does no harm.
fn remove_unlisted<'n>(to: &Path, frozen_before: impl Iterator<Item = &'n String>, list: &BackupList) {
    for entry in fs::read_dir(to).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_copy_of_live_tables(&name) && name != list.index.name {
            let _ = fs::remove_file(entry.path());
        }
    }
    for name in frozen_before.filter(|name| list.frozen.iter().all(|file| file.name != **name)) {
        let _ = fs::remove_file(to.join(FROZEN).join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index in a directory, whose generations have their names as content.
    fn index_in(directory: &Path, generations: &[&str]) -> BackupSource {
        let (index, frozen) = (directory.join("index.redb"), directory.join(FROZEN));
        fs::create_dir_all(&frozen).unwrap();
        let copy = index.with_extension("copying");
        fs::write(&index, "index").unwrap();
        fs::write(&copy, generations.concat()).unwrap();
        let generations: Vec<_> = generations.iter().map(|name| frozen.join(name)).collect();
        for path in &generations {
            fs::write(path, path.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        BackupSource { index, network: "regtest".to_owned(), tip: None, copy, generations, optional: Vec::new() }
    }

    fn names_in(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_files_of_the_backup_before_are_removed() {
        let (own, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (to, frozen) = (backup.path(), backup.path().join(FROZEN));
        fs::create_dir(&frozen).unwrap();
        for path in [to.join("index.redb"), to.join("x.redb"), frozen.join("x.redb"), frozen.join("0-9-cd-1.redb")] {
            fs::write(path, "by hand").unwrap();
        }
        let copies = || names_in(to).into_iter().filter(|name| is_copy_of_live_tables(name)).collect::<Vec<_>>();
        let mut before = Vec::new();
        for generations in [["0-9-ab-1.redb", "10-19-ab-1.redb"], ["0-9-ab-1.redb", "10-19-ab-2.redb"]] {
            let source = index_in(own.path(), &generations);
            back_up(&source, to, &CancellationToken::new()).unwrap();
            assert_eq!(
                names_in(&frozen),
                [&["0-9-ab-1.redb", "0-9-cd-1.redb"], &generations[1..], &["x.redb"]].concat()
            );
            assert!(["index.redb", "x.redb"].iter().all(|name| to.join(name).exists()));
            assert!(copies().len() == 1 && copies() != before, "{:?}", copies());
            before = copies();
        }
    }

    #[test]
    fn what_an_interrupted_backup_left_is_removed() {
        let (own, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let frozen = to.path().join(FROZEN);
        fs::create_dir(&frozen).unwrap();
        for name in ["0-9-ab-1.new", "0-9-ab-1.wtxids-2.new", "10-19-cd-1.copied", "x.new", "0-9-by-hand.new"] {
            fs::write(frozen.join(name), "").unwrap();
        }
        // of one that ends without its list
        let stopped = CancellationToken::new();
        stopped.cancel();
        back_up(&index_in(own.path(), &["0-9-ab-2.redb"]), to.path(), &stopped).unwrap_err();
        assert_eq!(names_in(&frozen), ["0-9-ab-2.new", "0-9-by-hand.new", "x.new"]);
        let mut source = index_in(own.path(), &["0-9-ab-3.redb", "10-19-ab-3.redb"]);
        fs::remove_file(&source.copy).unwrap();
        fs::create_dir(&source.copy).unwrap();
        back_up(&source, to.path(), &CancellationToken::new()).unwrap_err();
        assert_eq!(names_in(&frozen), ["0-9-ab-3.copied", "0-9-by-hand.new", "10-19-ab-3.copied", "x.new"]);
        // before the next one the first generation is merged
        fs::remove_dir(&source.copy).unwrap();
        fs::write(&source.copy, "").unwrap();
        source.generations.remove(0);
        back_up(&source, to.path(), &CancellationToken::new()).unwrap();
        assert_eq!(names_in(&frozen), ["0-9-by-hand.new", "10-19-ab-3.redb", "x.new"]);
    }

    #[test]
    fn directories_with_files_of_the_index_are_refused() {
        let own = tempfile::tempdir().unwrap();
        let source = index_in(own.path(), &["0-9-ab-1.redb"]);
        let link = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(own.path(), link.path().join("own")).unwrap();
        std::os::unix::fs::symlink(own.path().join(FROZEN), link.path().join(FROZEN)).unwrap();
        let before = (names_in(own.path()), names_in(&own.path().join(FROZEN)));
        let beside = own.path().with_extension("absent");
        for to in [
            own.path().to_path_buf(),
            own.path().join(FROZEN),
            own.path().join("index.restoring/new"),
            beside.join("..").join(own.path().file_name().unwrap()),
            link.path().join("own"),
            // its own index.frozen is that of the index
            link.path().to_path_buf(),
        ] {
            let error = back_up(&source, &to, &CancellationToken::new()).unwrap_err();
            assert!(matches!(&error, FleetError::Backup { path, .. } if *path == to), "{error}");
            assert!(error.to_string().contains("set --to to another directory"), "{error}");
            assert_eq!((names_in(own.path()), names_in(&own.path().join(FROZEN))), before, "{}", to.display());
        }
        assert!(!beside.exists());
        back_up(&source, &own.path().join("backup"), &CancellationToken::new()).unwrap();
    }

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
