//! Why publishing or joining fails.

use std::io;
use std::path::{Path, PathBuf};

use bitcoin::BlockHash;

use crate::index::{DiskShortage, IndexError};

/// Why an operation on a store of published blocks failed. What was uploaded or downloaded and verified stays, so that the
/// operation continues there when it is repeated.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The address is not one of a store.
    #[error("{url:?} is not the address of a store: {reason}; use s3://BUCKET/PREFIX or file:///DIRECTORY")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store cannot be set up as the environment says.
    #[error("cannot use the store {url}: {source}; check AWS_ENDPOINT_URL, AWS_REGION and the other AWS variables")]
    Settings {
        /// The address.
        url: String,
        /// Why.
        source: Box<object_store::Error>,
    },
    /// The store fails.
    #[error("cannot {doing} {object}: {source}; run the command again to continue")]
    Store {
        /// The operation.
        doing: &'static str,
        /// The name of the object.
        object: String,
        /// The error of the store.
        source: Box<object_store::Error>,
    },
    /// The store denies access.
    #[error(
        "the store denies to {doing} {object}: {source}; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they \
         are allowed to do"
    )]
    Denied {
        /// The operation.
        doing: &'static str,
        /// The name of the object.
        object: String,
        /// The error of the store.
        source: Box<object_store::Error>,
    },
    /// Anyone can read the store.
    #[error(
        "{url} answers a request without a signature, so that anyone can read it. The salt of the index would be public, and \
         who knows it can make two scripts whose balances are merged. Make the bucket private"
    )]
    Public {
        /// The address.
        url: String,
    },
    /// An object is gone: its manifest was retired.
    #[error("{object} is not in the store any more; run the command again to use the newest manifest")]
    Gone {
        /// Its name.
        object: String,
    },
    /// An object has another size than its name and the manifest say.
    #[error(
        "{object} has {found} bytes instead of {expected}: it is truncated or was replaced; remove it from the store and publish again"
    )]
    Truncated {
        /// Its name.
        object: String,
        /// The bytes that it has.
        found: u64,
        /// The bytes that it should have.
        expected: u64,
    },
    /// An object has another content than its checksums say.
    #[error(
        "{object} differs from its checksum at byte {offset}: it is damaged or was replaced; remove it from the store and publish again"
    )]
    Changed {
        /// Its name.
        object: String,
        /// The first byte of the block that differs.
        offset: u64,
    },
    /// An object agrees with its checksums block by block, and not with its name.
    #[error(
        "{object} has blocks with the right checksums and another content than its name says: run the command again, and if it \
         fails again, remove the object and its checksums from the store, publish again, and join in an empty data directory"
    )]
    Misnamed {
        /// Its name.
        object: String,
    },
    /// A manifest cannot be read.
    #[error("{object} is not a valid manifest: {reason}; remove it from the store and publish again")]
    Malformed {
        /// Its name.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// A manifest of a newer version of btcgraph.
    #[error(
        "{object} has manifest format {found}, but this version of btcgraph reads format {expected}: use the version that wrote it, or a newer one"
    )]
    NewerManifest {
        /// Its name.
        object: String,
        /// Its format.
        found: u32,
        /// The format that this version reads.
        expected: u32,
    },
    /// The published blocks are those of another network.
    #[error("{object} is of network {found}, not {expected}: set another --network or another store")]
    WrongNetwork {
        /// The name of the manifest.
        object: String,
        /// The network of the manifest.
        found: String,
        /// The network of the settings.
        expected: String,
    },
    /// There are no manifests.
    #[error("there are no manifests in {url}: publish an index there first, or set another address")]
    NoManifest {
        /// The address of the store.
        url: String,
    },
    /// No manifest is of the node's chain.
    #[error(
        "none of the {count} manifests in {url} is of the main chain of the node: the highest is of block {hash} at height \
         {height}. Wait until the node has that block, or join without a node"
    )]
    NotOnChain {
        /// The address of the store.
        url: String,
        /// How many manifests there are.
        count: usize,
        /// The height of the highest.
        height: u32,
        /// Its block.
        hash: BlockHash,
    },
    /// The node cannot be asked whether a block is in its chain.
    #[error("{0}")]
    Node(String),
    /// The index exists and has blocks.
    #[error(
        "the index {path} has blocks up to height {height} already: only an empty data directory can join; set another \
         --data-dir, or leave --from out", path = path.display()
    )]
    NotEmpty {
        /// The file of the index.
        path: PathBuf,
        /// The height of its tip.
        height: u32,
    },
    /// An import was interrupted in the directory.
    #[error(
        "{path} is of an import that was interrupted: continue it without --from, or remove the file and join",
        path = path.display()
    )]
    Importing {
        /// The file.
        path: PathBuf,
    },
    /// The settings or an empty index have another salt than the published blocks.
    #[error("the published blocks have another salt than {holder}: {remedy}")]
    Salt {
        /// What has a salt.
        holder: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A directory cannot be that of a backup, or the one that is there cannot be used.
    #[error("{path} cannot be used as a backup: {reason}", path = path.display())]
    Backup {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file of a backup differs from its checksum.
    #[error("{path} differs from its checksum: the backup is damaged, use another one", path = path.display())]
    BackupDamaged {
        /// The file.
        path: PathBuf,
    },
    /// A backup is restored into a directory that has an index.
    #[error("{path} exists already: a backup is restored into a data directory without an index", path = path.display())]
    Existing {
        /// The file.
        path: PathBuf,
    },
    /// No blocks are frozen.
    #[error(
        "no blocks of the index are frozen yet, and only frozen blocks are published: see index.freeze_depth, index.freeze_transactions and index.freeze_every"
    )]
    NothingFrozen,
    /// The same is under way already.
    #[error("another command publishes or joins with {path}: wait until it ends", path = path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The disk has too little space for the published blocks.
    #[error("the published blocks do not fit on the disk: {0}")]
    DiskShortage(DiskShortage),
    /// A file cannot be used.
    #[error("cannot {doing} {path}: {source}", path = path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A local file differs from what its checksums say.
    #[error("{path} changed while it was read: run `btcgraph verify`, because the file may be damaged", path = path.display())]
    LocalChange {
        /// The file.
        path: PathBuf,
    },
    /// The index fails.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A signal stopped the operation.
    #[error("stopped; run the command again to continue")]
    Stopped,
    /// A thread failed.
    #[error("a thread of btcgraph failed: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

impl FleetError {
    /// The error of an operation on an object.
    pub(super) fn of_store(doing: &'static str, object: &str, source: object_store::Error) -> Self {
        let object = object.to_owned();
        let source = Box::new(source);
        match *source {
            object_store::Error::NotFound { .. } => Self::Gone { object },
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                Self::Denied { doing, object, source }
            }
            _ => Self::Store { doing, object, source },
        }
    }

    /// The error of an operation on a file.
    pub(super) fn of_file<'p>(doing: &'static str, path: &'p Path) -> impl Fn(io::Error) -> Self + use<'p> {
        move |source| Self::File { doing, path: path.to_path_buf(), source }
    }

    /// Whether the same may succeed later without a change on this machine: the store may answer again, or have the object
    /// again, or the disk may have space.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Store { .. }
            | Self::Denied { .. }
            | Self::Gone { .. }
            | Self::Truncated { .. }
            | Self::Changed { .. } => true,
            Self::File { source, .. } | Self::Index(IndexError::File { source, .. }) => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// Whether a file is gone: the server that has the index open merged it with others meanwhile, and names another one now.
    #[must_use]
    pub fn is_of_missing_file(&self) -> bool {
        let (Self::File { source, .. } | Self::Index(IndexError::File { source, .. })) = self else { return false };
        source.kind() == io::ErrorKind::NotFound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_is_gone_is_asked_for_again() {
        let of =
            |kind: io::ErrorKind| FleetError::of_file("find", Path::new("/index.frozen/0-9-ab-1.redb"))(kind.into());
        assert!(of(io::ErrorKind::NotFound).is_of_missing_file());
        assert!(!of(io::ErrorKind::PermissionDenied).is_of_missing_file());
        let (path, source) = (PathBuf::from("/index.frozen/0-9-ab-1.redb"), io::ErrorKind::NotFound.into());
        assert!(FleetError::from(IndexError::File { doing: "open", path, source }).is_of_missing_file());
        assert!(!FleetError::NothingFrozen.is_of_missing_file());
    }

    #[test]
    fn what_the_store_lacks_may_come_back_and_a_file_that_cannot_be_read_does_not() {
        let object = || "objects/ab".to_owned();
        let of_file = |kind: io::ErrorKind| FleetError::of_file("write", Path::new("/ab.part"))(kind.into());
        let passing = [
            FleetError::Gone { object: object() },
            FleetError::Changed { object: object(), offset: 65_536 },
            of_file(io::ErrorKind::StorageFull),
        ];
        assert!(passing.iter().all(FleetError::is_transient));
        let lasting = [FleetError::Misnamed { object: object() }, of_file(io::ErrorKind::Other), FleetError::Stopped];
        assert!(!lasting.iter().any(FleetError::is_transient));
    }
}
