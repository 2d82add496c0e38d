//! Why an import starts from the first block instead of a checkpoint.

use std::path::PathBuf;

/// Why an import starts from the first block instead of the checkpoint of an earlier import.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreshStart {
    /// No import with blocks was interrupted here.
    #[error("there is no checkpoint of an earlier import")]
    NoCheckpoint,
    /// The checkpoint is of a version with another format.
    #[error("the checkpoint has format {found}, and this version of btcgraph reads format {expected}")]
    OtherFormat {
        /// The format of the checkpoint.
        found: u32,
        /// The format that this version writes.
        expected: u32,
    },
    /// The checkpoint is of a version whose tables have other rows.
    #[error("the checkpoint is of a version of btcgraph whose tables have other rows")]
    OtherTables,
    /// The checkpoint is of an import of another network.
    #[error("the checkpoint is of network {found}, not of {expected}")]
    OtherNetwork {
        /// The network of the checkpoint.
        found: String,
        /// The requested network.
        expected: String,
    },
    /// The checkpoint is of an import with another salt.
    #[error("the checkpoint is of an index with another salt")]
    OtherSalt,
    /// The file of the unfinished import is damaged.
    #[error("the file of the unfinished import is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// A temporary file that the checkpoint needs is missing.
    #[error("the checkpoint needs the temporary file {path}, which is missing", path = path.display())]
    MissingRun {
        /// The file.
        path: PathBuf,
    },
    /// A temporary file has fewer bytes than the checkpoint recorded.
    #[error("the temporary file {path} is shorter than the checkpoint recorded", path = path.display())]
    ShortRun {
        /// The file.
        path: PathBuf,
    },
    /// A temporary file differs from what was written.
    #[error("the temporary file {path} differs from what was written to it", path = path.display())]
    DamagedRun {
        /// The file.
        path: PathBuf,
    },
    /// A temporary file is of another import.
    #[error("the temporary file {path} is of another import than the checkpoint", path = path.display())]
    OtherRun {
        /// The file.
        path: PathBuf,
    },
}
