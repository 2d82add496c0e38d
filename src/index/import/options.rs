//! How to import.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::Network;

use super::super::keys::Salt;
use super::super::raw::RawFiles;

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The file of the generation. It must not exist, unless an import was interrupted: that is continued.
    pub path: PathBuf,
    /// The directory for temporary runs, which no other import may use. It is made if it does not exist.
    pub directory: PathBuf,
    /// The network of the blocks.
    pub network: Network,
    /// The salt of the index.
    pub salt: Salt,
    /// Memory for buffers and partitions, in bytes.
    pub memory: usize,
    /// Threads that work beside the one that calls.
    pub threads: usize,
    /// About how many transactions there are, from which the number of partitions follows.
    pub transactions: u64,
    /// Transactions of a range, or a few more, as it ends with a block.
    pub range: u32,
    /// The time between two checkpoints, of which there are more when files can be removed.
    pub checkpoint_interval: Duration,
    /// The raw files to which the blocks are appended, if they are stored beside the index.
    pub raw_files: Option<Arc<RawFiles>>,
}

impl ImportOptions {
    /// The time between two checkpoints if there is no reason for another: what a kill loses, against the time to flush
    /// files.
    pub const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

    /// Transactions of a range of a chain of so many, if there is no reason for another number: what is known of their
    /// outputs fits the cache of a processor, and there are at most some 4,000 ranges.
    #[must_use]
    pub fn default_range(transactions: u64) -> u32 {
        u32::try_from(transactions / 4_096).unwrap_or(u32::MAX).clamp(1 << 16, 1 << 20)
    }
}
