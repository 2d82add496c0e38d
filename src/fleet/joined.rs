//! The note that an index was joined, and the comparison of its txids with the merkle roots of its headers that follows from it.
//!
//! The note stands beside the index, `index.joined`. The checksums of a download prove that the objects are those that
//! were published; this comparison proves that the txids are those of the chain that leads to the block which the node has.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::error::FleetError;
use super::files::write_whole;
use super::names::ManifestName;
use crate::chain::Height;
use crate::index::{FrozenTxids, IndexError, TxidMismatch};

/// How long the comparison works before it rests as long, while requests are answered.
const WORK_SLICE: Duration = Duration::from_millis(20);
/// The interval between two lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// What is known of an index that was joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedNote {
    /// The name of the manifest.
    pub manifest: String,
    /// The height of its block.
    pub height: u32,
    /// The hash of its block.
    pub hash: BlockHash,
    /// Whether all txids were compared, and are those of the chain.
    pub txids_match: bool,
    /// Why the index must not be used, if a comparison found it.
    #[serde(default)]
    pub refusal: Option<String>,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxidCheck {
    /// All txids are those of the chain.
    Match,
    /// A block is not of the chain.
    Mismatch(TxidMismatch),
    /// It was stopped, and begins again at the next start.
    Stopped,
}

impl JoinedNote {
    pub(super) fn new(name: &ManifestName) -> Self {
        Self { manifest: name.to_string(), height: name.height, hash: name.hash, txids_match: false, refusal: None }
    }

    /// The note of the index in this file, `None` if it was not joined.
    #[must_use]
    pub fn read(index: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path_beside(index)).ok()?).ok()
    }

    pub(super) fn write(&self, index: &Path) -> Result<(), FleetError> {
        let path = path_beside(index);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(FleetError::of_file("make the directory", directory))?;
        }
        let content = serde_json::to_vec(self).map_err(|error| FleetError::of_file("write", &path)(error.into()))?;
        write_whole(&path, &content)
    }

    /// Removes the note, if there is one: the index that it was of does not exist.
    ///
    /// Errors: it cannot be removed.
    pub fn remove(index: &Path) -> Result<(), FleetError> {
        let path = path_beside(index);
        // of a read-only directory nothing can be removed, not even what is not there
        if path.exists() { fs::remove_file(&path).map_err(FleetError::of_file("remove", &path)) } else { Ok(()) }
    }

    /// Notes why the index must not be used, for every later start.
    ///
    /// Errors: writing the note fails.
    pub fn refuse(self, index: &Path, reason: String) -> Result<(), FleetError> {
        Self { refusal: Some(reason), ..self }.write(index)
    }

    /// Compares all txids, and notes it if they match. Rests half of the time if `rests` says so.
    ///
    /// Errors: reading the index or writing the note fails.
    pub fn check(
        mut self,
        index: &Path,
        txids: &FrozenTxids,
        rests: bool,
        stop: &CancellationToken,
    ) -> Result<TxidCheck, FleetError> {
        let last = txids.last().map_or(Height::GENESIS, |last| last.height);
        info!(%last, "comparing the txids of the joined blocks with the merkle roots of their headers");
        let (mut logged, mut since) = (Instant::now(), Instant::now());
        let checked = txids.check(&mut |height| {
            if stop.is_cancelled() {
                return ControlFlow::Break(());
            }
            if logged.elapsed() >= LOG_INTERVAL {
                logged = Instant::now();
                info!(%height, %last, "comparing the txids of the joined blocks with the merkle roots of their headers");
            }
            if rests && since.elapsed() >= WORK_SLICE {
                thread::sleep(since.elapsed().min(Duration::from_secs(1)));
                since = Instant::now();
            }
            ControlFlow::Continue(())
        });
        match checked {
            Ok(None) => {
                self.txids_match = true;
                self.write(index)?;
                info!(%last, "the txids of the joined blocks are those of the chain");
                Ok(TxidCheck::Match)
            }
            Ok(Some(mismatch)) => Ok(TxidCheck::Mismatch(mismatch)),
            Err(IndexError::Interrupted) => Ok(TxidCheck::Stopped),
            Err(error) => Err(error.into()),
        }
    }
}

fn path_beside(index: &Path) -> PathBuf {
    index.with_extension("joined")
}
