//! Files of generations that are not complete on this machine yet: what is missing of them is fetched when it is read.
//!
//! ```text
//!   FrozenTable ─► redb ─► Unchanged ─► PartialFile::read ─ there? ─► the file
//!                                                         └ missing ─► fetched, verified, written to the file (fleet)
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::frozen::Generations;

/// A file of which some bytes may be missing. It does not change otherwise.
pub trait PartialFile: fmt::Debug + Send + Sync {
    /// Its bytes once it is complete.
    fn bytes(&self) -> u64;

    /// How many of them are missing.
    fn missing_bytes(&self) -> u64;

    /// Whether it is complete, and will never fetch anything again.
    fn is_complete(&self) -> bool;

    /// Reads bytes, and fetches first what is missing of them. Blocks the thread meanwhile.
    ///
    /// Errors: what is missing cannot be fetched now; the file cannot be read.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Unfetched>;
}

/// Partial files by the name of their generation.
pub type PartialFiles = BTreeMap<String, Arc<dyn PartialFile>>;

/// Why bytes cannot be read that are missing on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfetched(pub String);

impl Generations {
    /// The bytes of their files that are missing on this machine.
    pub(super) fn missing_bytes(&self) -> u64 {
        self.iter().map(|in_force| in_force.generation.missing_bytes()).sum()
    }

    /// Whether bytes of one may be missing on this machine.
    pub(super) fn are_partial(&self) -> bool {
        self.iter().any(|in_force| in_force.generation.is_partial())
    }
}
