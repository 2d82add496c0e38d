//! The failures of the index: of its file, and of blocks that it refuses.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bitcoin::{BlockHash, OutPoint, Txid};
use rustix::io::Errno;

use super::optional::OptionalTable;
use super::partial::Unfetched;
use crate::chain::Height;
use crate::chain::raw::RawError;

/// Why an operation of the index failed. A commit contains all of a block or none of it, so a failed operation changes
/// nothing; but commits that were not durable yet are lost once the index is opened again.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The file exists and is something else, or is damaged where it says what it is.
    #[error(
        "{path} is not a redb database: {reason}. Move it away, or set another --data-dir; if it was an index, the index is \
         damaged: remove it and import again", path = path.display()
    )]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// The error of redb.
        reason: String,
    },
    /// The index file does not exist.
    #[error("there is no index at {path} yet: run `btcgraph import` first, or set another --data-dir or --network", path = path.display())]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// A redb database that another program wrote.
    #[error("{path} is a redb database, but not an index of btcgraph. Move it away, or set another --data-dir", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// From a version with another format.
    #[error(
        "{path} has index format {found}, but this version of btcgraph reads format {expected}: \
         remove the file and import again, or run the version that wrote it", path = path.display()
    )]
    WrongVersion {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format this version writes.
        expected: u32,
    },
    /// A table in a version that this program does not read: it is newer, or so old that it must be imported again.
    #[error(
        "{path} has version {found} of table `{table}`, but this version of btcgraph {reads}: run the version that wrote it, \
         or remove the index and import again", path = path.display()
    )]
    TableVersion {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// The version found.
        found: u32,
        /// What this program reads, as the end of a sentence.
        reads: String,
    },
    /// A table that was switched on and is not complete yet.
    #[error("table `{table}` is being built: it has {built} of {transactions} transactions. Retry later")]
    TableNotReady {
        /// The table.
        table: OptionalTable,
        /// The transactions that it has.
        built: u64,
        /// The transactions of the chain.
        transactions: u64,
    },
    /// The table of the miners of blocks is not complete yet.
    #[error("table `miner_blocks` is being built: it has {built} of {blocks} blocks. Retry later")]
    MinersNotReady {
        /// The blocks that it has.
        built: u32,
        /// The blocks of the chain.
        blocks: u32,
    },
    /// The table of filter headers does not have the block yet.
    #[error("table `block_filters` is being built: it has {built} of {blocks} blocks. Retry later")]
    FiltersNotReady {
        /// The blocks that it has.
        built: u32,
        /// The blocks of the chain.
        blocks: u32,
    },
    /// The table of filter headers is not switched on.
    #[error("table `block_filters` is switched off: the setting index.block_filters switches it on")]
    FiltersOff,
    /// A table that is not switched on.
    #[error("table `{table}` is switched off: the setting index.{table} switches it on")]
    TableOff {
        /// The table.
        table: OptionalTable,
    },
    /// An index of another network.
    #[error("{path} is an index of {found}, not of {expected}. Set --network {found}, or another --data-dir", path = path.display())]
    WrongNetwork {
        /// The file.
        path: PathBuf,
        /// The network of the file.
        found: String,
        /// The requested network.
        expected: String,
    },
    /// An index whose first block is another one (a custom signet, say).
    #[error("{path} begins with genesis block {found}, not with {expected}. Set another --data-dir", path = path.display())]
    WrongGenesis {
        /// The file.
        path: PathBuf,
        /// The genesis block of the file.
        found: BlockHash,
        /// The genesis block of the network.
        expected: BlockHash,
    },
    /// The setting `index.salt` differs from the salt the file was made with.
    #[error("{path} was made with another salt than that of the setting index.salt. Remove the setting, or import again", path = path.display())]
    WrongSalt {
        /// The file.
        path: PathBuf,
    },
    /// Another process has it open.
    #[error("{path} is in use by another process. Stop it first, or use its API instead", path = path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full, or the quota of this user is used up.
    #[error(
        "the disk of the index is full: free some space and start again; missing blocks are then fetched from the node"
    )]
    DiskFull,
    /// A disk has less free space than an import needs.
    #[error(
        "the import needs {} MiB on the disk of {path}, and {} MiB are free: the index takes {} MiB{}, and temporary runs take \
         up to {} MiB until it is built. Free some space, or name a directory on another disk with --data-dir for the \
         index or --temporary-dir for the runs",
        needed_bytes.div_ceil(1 << 20), free_bytes >> 20, index_bytes.div_ceil(1 << 20),
        if *raw_bytes == 0 { String::new() } else { format!(", its copies of blocks {} MiB", raw_bytes.div_ceil(1 << 20)) },
        temporary_bytes.div_ceil(1 << 20), path = path.display()
    )]
    ImportSpace {
        /// A directory on the disk.
        path: PathBuf,
        /// The bytes that must be free there.
        needed_bytes: u64,
        /// The bytes that are free there.
        free_bytes: u64,
        /// The bytes of the index without copies of blocks.
        index_bytes: u64,
        /// The bytes of copies of blocks.
        raw_bytes: u64,
        /// The bytes of temporary runs at their peak.
        temporary_bytes: u64,
    },
    /// The system has less memory than an import needs.
    #[error(
        "the import needs {} MiB of memory, and {} MiB are available. Stop other programs while it \
         runs, or set another index.memory (--memory)", needed_bytes.div_ceil(1 << 20), available_bytes >> 20
    )]
    ImportMemory {
        /// The bytes that it needs.
        needed_bytes: u64,
        /// The bytes that are available.
        available_bytes: u64,
    },
    /// Reading or writing a file or directory fails.
    #[error("cannot {doing} {path}: {source}. Check that it exists and that this user may write to it", path = path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Bytes of a generation that are not on this machine yet cannot be fetched now.
    #[error("a part of the frozen blocks is not on this machine yet: {0}. It is requested again when it is read again")]
    Unfetched(#[source] Unfetched),
    /// An operation needs generations that are still being downloaded.
    #[error("the frozen blocks are not all on this machine yet: wait until the download is complete")]
    Downloading,
    /// A generation that a reorganisation shortened, so that its file alone is no part of another index.
    #[error(
        "{path}: a reorganisation disconnected the blocks above height {last} of a generation, whose file lacks outputs that are \
         unspent again. It can be published and joined once `serve` or `import` has built it again, which needs the bytes of its \
         blocks, from the raw files or the node", path = path.display()
    )]
    Shortened {
        /// The file, or the manifest that names it.
        path: PathBuf,
        /// Its highest block that counts.
        last: Height,
    },
    /// redb failed.
    #[error("the index database failed: {0}. Check the disk and the system's log, then run `btcgraph verify`")]
    Storage(#[source] Box<redb::Error>),
    /// The file differs from what was stored.
    #[error("the index is damaged: {what}. Remove the file and import again (`btcgraph import`), and check its disk")]
    Damaged {
        /// What was found.
        what: String,
    },
    /// A damaged row.
    #[error("the index is damaged: table {table}: {what}. Run `btcgraph verify`, or remove the index and import again")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// What is wrong with which row.
        what: String,
    },
    /// Bytes that are not a block.
    #[error("block {hash} cannot be read: {source}. Check the node that sent it, or run `btcgraph verify`")]
    Malformed {
        /// The requested block.
        hash: BlockHash,
        /// What is wrong.
        source: RawError,
    },
    /// A block that contradicts itself or the rules that the index relies on.
    #[error("block {hash} is not valid: {what}. Check the node that sent it, or run `btcgraph verify`")]
    InvalidBlock {
        /// The block.
        hash: BlockHash,
        /// What is wrong.
        what: String,
    },
    /// A block whose previous block is not the tip.
    #[error(
        "the previous block of {hash} is {previous}, but the tip of the index is {tip}. Disconnect down to the fork first"
    )]
    NotOnTip {
        /// The block.
        hash: BlockHash,
        /// The previous block of the block.
        previous: BlockHash,
        /// The tip of the index, or the word "empty".
        tip: String,
    },
    /// An input whose outpoint is not in the index, or is spent already.
    #[error(
        "input {vin} of transaction {txid} at height {height} spends {outpoint}, which {why}. Check the node that \
         sent the block, or run `btcgraph verify`"
    )]
    Unresolved {
        /// The height of the block.
        height: Height,
        /// The spending transaction.
        txid: Txid,
        /// The number of the input.
        vin: u32,
        /// The outpoint.
        outpoint: OutPoint,
        /// "is not in the index", or "is spent already, or can never be spent".
        why: &'static str,
    },
    /// A generation that does not follow the frozen blocks of the index, or is of another branch than the live ones.
    #[error("generation {path} begins at height {first}, and the tip of the index is {tip}. Remove the file", path = path.display())]
    NotNext {
        /// The file.
        path: PathBuf,
        /// Its lowest block.
        first: Height,
        /// The tip of the index, or the word "empty".
        tip: String,
    },
    /// A generation of live blocks whose bytes were not appended to the raw files: they would be lost.
    #[error(
        "the raw files of the index do not have all blocks of generation {path}. Remove the file: its blocks are frozen again",
        path = path.display()
    )]
    RawBlocksMissing {
        /// The file.
        path: PathBuf,
    },
    /// The disk has less free space than copies of frozen blocks need.
    #[error(
        "copies of the frozen blocks need {} MiB on the disk of {path}, and {} MiB are free. Free some space, or set \
         index.raw_transactions to `node`",
        needed_bytes.div_ceil(1 << 20), free_bytes >> 20, path = path.display()
    )]
    RawSpace {
        /// A directory on the disk.
        path: PathBuf,
        /// The bytes that must be free there.
        needed_bytes: u64,
        /// The bytes that are free there.
        free_bytes: u64,
    },
    /// The index names a generation whose file is missing.
    #[error(
        "the generation {path} is missing, without which the index cannot be read. Put the file back; if it was being \
         downloaded, start with the --from with which that began; or remove the index and import again (`btcgraph import`)",
        path = path.display()
    )]
    GenerationMissing {
        /// The file.
        path: PathBuf,
    },
    /// The bytes of a frozen block, which are in no table, can be read neither from the node nor from its files now.
    #[error(
        "the bytes of block {hash} at height {height} cannot be read: {why}. Check that the node runs and has this block; if \
         no node will ever have it again, remove the index and import again"
    )]
    RawUnavailable {
        /// The height of the block.
        height: Height,
        /// The block.
        hash: BlockHash,
        /// Why not.
        why: String,
    },
    /// The index has frozen blocks, and a check of it is given no place to read their bytes from.
    #[error(
        "the bytes of the blocks up to height {height} are not in the index, and the check needs them: connect a node that \
         has them (`btcgraph verify` without --without-node)"
    )]
    NoRawBlocks {
        /// The highest of them.
        height: Height,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for writing the index: {0}. Raise the limit of threads for this user")]
    Threads(#[source] std::io::Error),
    /// The thread that flushes commits to the disk panicked.
    #[error("flushing the newest changes to the disk failed by a bug of btcgraph; restart it to fetch them again")]
    FlushPanicked,
    /// An earlier step of the update or import failed, so its tables may contain half of a block.
    #[error("a step of this update or import has failed: drop it, and begin another")]
    Broken,
    /// The caller's progress callback stopped the check or the import.
    #[error("the check or import was stopped by its caller")]
    Interrupted,
    /// Writing or reading a temporary file fails.
    #[error(
        "cannot sort in a temporary file: {0}. Check that the index's directory, or the one that --temporary-dir names, is \
         writable and has free space"
    )]
    Sorting(#[source] std::io::Error),
    /// A temporary file of an import has lost some of its bytes, or its disk fails.
    #[error(
        "cannot read a temporary file of the import in {directory}: {source}. Check that disk and the system's log, and start \
         the import again, with another --temporary-dir if the disk fails", directory = directory.display()
    )]
    TemporaryRuns {
        /// The directory of temporary files.
        directory: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A temporary file of an import differs from what was written to it.
    #[error(
        "the temporary file {path} of the import differs from what was written to it. Check that disk, the memory and the system's \
         log, and start the import again, with another --temporary-dir if the disk fails: it begins with the first block",
        path = path.display()
    )]
    DamagedRun {
        /// The file.
        path: PathBuf,
    },
    /// Another import uses the directory for temporary runs.
    #[error(
        "another import uses {directory} for its temporary files. Wait until it is complete, or name another directory with \
         --temporary-dir", directory = directory.display()
    )]
    TemporaryDirectoryInUse {
        /// The directory.
        directory: PathBuf,
    },
    /// No secret could be drawn for a new index.
    #[error("the operating system has no random numbers: {0}")]
    NoRandomness(#[from] getrandom::Error),
}

/// Whether the operating system reports a full disk, an exceeded quota or file size limit.
fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

impl IndexError {
    /// Whether a retry may succeed: a block is not on the tip, the bytes of a frozen transaction are not available, or a part of
    /// the index cannot be fetched now.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::NotOnTip { .. } | Self::RawUnavailable { .. } | Self::Unfetched(_))
    }

    /// Whether a file could not be opened because the process or the system has too many open.
    #[must_use]
    pub fn is_out_of_files(&self) -> bool {
        let Self::File { source, .. } = self else { return false };
        matches!(Errno::from_io_error(source), Some(Errno::MFILE | Errno::NFILE))
    }

    /// Whether the error is only a consequence of an earlier error that broke the database.
    #[must_use]
    pub fn is_aftermath(&self) -> bool {
        matches!(self, Self::Storage(error) if matches!(**error, redb::Error::PreviousIo))
    }

    /// Converts the error of a read-only operation: corruption that redb then finds is in the file. After a failed write it may
    /// be in the memory of redb.
    pub(super) fn of_reading(self) -> Self {
        match self {
            Self::Storage(error) => match *error {
                redb::Error::Corrupted(what) => Self::Damaged { what },
                other => Self::Storage(Box::new(other)),
            },
            other => other,
        }
    }

    /// An error for a row that contradicts its table's encoding.
    pub(crate) fn corrupt(table: &'static str, what: impl Into<String>) -> Self {
        Self::Corrupt { table, what: what.into() }
    }

    fn storage(error: redb::Error) -> Self {
        if let redb::Error::Io(io) = &error
            && let Some(unfetched) = io.get_ref().and_then(|source| source.downcast_ref::<Unfetched>())
        {
            return Self::Unfetched(unfetched.clone());
        }
        match error {
            redb::Error::Io(io) if is_full(io.kind()) => Self::DiskFull,
            redb::Error::Io(io) if io.kind() == ErrorKind::UnexpectedEof => {
                Self::Damaged { what: "the file ends before a page that belongs to it".to_owned() }
            }
            other => Self::Storage(Box::new(other)),
        }
    }

    /// The error for a file that redb cannot open.
    pub(super) fn opening(path: &Path, error: redb::DatabaseError) -> Self {
        let path = path.to_path_buf();
        match error {
            redb::DatabaseError::DatabaseAlreadyOpen => Self::InUse { path },
            redb::DatabaseError::UpgradeRequired(version) => {
                Self::NotADatabase { path, reason: format!("its file format {version} is of another version of redb") }
            }
            redb::DatabaseError::Storage(redb::StorageError::Io(source)) => match source.kind() {
                ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                    Self::NotADatabase { path, reason: source.to_string() }
                }
                kind if is_full(kind) => Self::DiskFull,
                _ => Self::File { doing: "open", path, source },
            },
            redb::DatabaseError::Storage(redb::StorageError::Corrupted(reason)) => {
                Self::Damaged { what: format!("{}: {reason}", path.display()) }
            }
            other => Self::storage(other.into()),
        }
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => {
        $(impl From<$error> for IndexError {
            fn from(error: $error) -> Self {
                Self::storage(error.into())
            }
        })*
    };
}
from_redb!(
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    redb::SetDurabilityError,
    redb::CursorError
);
