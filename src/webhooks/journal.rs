//! Where a hook is, on disk: the cursor behind which its stream resumes, and the message that is being delivered.
//!
//! The message is stored before its first attempt, so that after a crash the same id and body are sent again, and the cursor
//! is stored after the receiver has acknowledged it. The file is replaced as a whole.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::message::HookMessage;
use crate::durable::sync_name;

/// How far a hook has delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HookPosition {
    /// The stream resumes behind this. All before it is delivered, or a dead letter.
    pub(crate) cursor: String,
    /// Whether the cursor is that of a state, and not of an event.
    pub(crate) is_snapshot: bool,
    /// The event behind it, which is being delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<HookMessage>,
}

/// The file of a hook's position.
#[derive(Clone, Debug)]
pub(crate) struct HookJournal {
    path: PathBuf,
}

impl HookJournal {
    /// In this directory, which is created.
    pub(crate) fn new(directory: &Path, hook: &str) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        Ok(Self { path: directory.join(format!("{hook}.json")) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The position; `None` for a new hook.
    ///
    /// Errors: the file cannot be read, or has another format.
    pub(crate) fn load(&self) -> io::Result<Option<HookPosition>> {
        match fs::read(&self.path) {
            Ok(bytes) => {
                let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                serde_json::from_slice(&bytes).map(Some).map_err(damaged)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the position. Once it returns, a power cut does not lose it.
    pub(crate) fn store(&self, position: &HookPosition) -> io::Result<()> {
        replace(&self.path, &serde_json::to_vec(position)?)
    }
}

/// Replaces a file as a whole: after a crash it is the old or the new one.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_name(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_stored() {
        let directory = tempfile::tempdir().unwrap();
        let journal = HookJournal::new(&directory.path().join("new"), "shop").unwrap();
        assert_eq!(journal.load().unwrap(), None);
        let pending = HookMessage {
            id: "msg_1".to_owned(),
            kind: "ledger.seen".to_owned(),
            created_at: 7,
            body: "{\"a\":\"\\u0000ü\"}".to_owned(),
            cursor: "d".to_owned(),
            is_snapshot: false,
        };
        for pending in [None, Some(pending)] {
            let position = HookPosition { cursor: "c".to_owned(), is_snapshot: true, pending };
            journal.store(&position).unwrap();
            assert_eq!(journal.load().unwrap(), Some(position));
        }
        assert_eq!(fs::read_dir(directory.path().join("new")).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_damaged_position_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let journal = HookJournal::new(directory.path(), "shop").unwrap();
        for content in ["", "{}", "{\"cursor\":1}", "\u{0}"] {
            fs::write(journal.path(), content).unwrap();
            assert_eq!(journal.load().unwrap_err().kind(), io::ErrorKind::InvalidData, "{content}");
        }
    }
}
