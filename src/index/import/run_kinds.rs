//! The kinds of temporary runs, and the names of their files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::super::error::IndexError;

/// The names of the files of runs end with these.
const BUNDLE_SUFFIX: &str = ".run";
const LOG_SUFFIX: &str = ".chunks";

/// What the records of runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RunKind {
    /// The blocks: hash, time, number of transactions.
    Blocks,
    /// Transactions by the hashes of their txids.
    Transactions,
    /// Inputs by the hashes of the txids that they spend.
    Prevouts,
    /// Compact blocks by range.
    Stream,
    /// P2PK scripts by the hashes of their public keys.
    P2pk,
    /// Inputs by the ranges of what they spend.
    Spends,
    /// What inputs spend, by the ranges of the inputs.
    Inputs,
    /// Outputs by their script keys.
    Scripts,
}

impl RunKind {
    pub(super) const ALL: [Self; 8] = [
        Self::Blocks,
        Self::Transactions,
        Self::Prevouts,
        Self::Stream,
        Self::P2pk,
        Self::Spends,
        Self::Inputs,
        Self::Scripts,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Transactions => "transactions",
            Self::Prevouts => "prevouts",
            Self::Stream => "stream",
            Self::P2pk => "p2pk",
            Self::Spends => "spends",
            Self::Inputs => "inputs",
            Self::Scripts => "scripts",
        }
    }

    pub(super) fn bundle_path(self, directory: &Path, bundle: usize) -> PathBuf {
        directory.join(format!("{}-{bundle:02}{BUNDLE_SUFFIX}", self.name()))
    }

    pub(super) fn log_path(self, directory: &Path) -> PathBuf {
        directory.join(format!("{}{LOG_SUFFIX}", self.name()))
    }

    /// Whether a file of runs has this name.
    fn is_file_name(name: &str) -> bool {
        Self::ALL.iter().any(|kind| {
            name.strip_prefix(kind.name()).is_some_and(|rest| {
                let bundle = rest.strip_prefix('-').and_then(|rest| rest.strip_suffix(BUNDLE_SUFFIX));
                rest == LOG_SUFFIX || bundle.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
            })
        })
    }
}

/// Removes the files of runs in a directory but those named.
///
/// Errors: [`IndexError::File`]. A directory that does not exist has none.
pub(super) fn remove_files(directory: &Path, but: &BTreeSet<PathBuf>) -> Result<(), IndexError> {
    let failed = |source| IndexError::File { doing: "clear the temporary directory", path: directory.into(), source };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let is_run = entry.file_name().to_str().is_some_and(RunKind::is_file_name);
        if is_run && !but.contains(&entry.path()) {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}
