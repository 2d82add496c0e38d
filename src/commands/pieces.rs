//! What several commands build from the settings: the index, the node, the stop flag, and the exit code of each error.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use btcgraph::chain::pools::Pools;
use btcgraph::index::{
    Index, IndexError, IndexOptions, ObservedLimits, OptionalTables, PartialFiles, RawStorage, RequiredSpace, Salt,
};
use btcgraph::mempool::MempoolLimits;
use btcgraph::node::{Auth, Node, NodeError, NodeOptions, RetryPolicy, StopFlag};
use btcgraph::settings::{self, NodeAuth, RawTransactions, Settings};
use btcgraph::sync::{self, FreezeBounds, Freezing, SyncError};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::failure::{Exit, Failure, OrExit};

/// More threads of an import need more memory each, and one disk does not keep more of them busy. That it is not zero is
/// checked when it is compiled.
const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
/// A sample of the mempool is taken each minute.
const MINUTES_A_DAY: u64 = 24 * 60;

/// The index of the settings' network, open for writing, with the optional tables and the mining pools of the settings.
pub(super) fn open_index(settings: &Settings) -> Result<Index, Failure> {
    prepared(settings, || Index::open(&index_options(settings)))
}

/// The same, if files of it may not be complete on this machine.
pub(super) fn open_partial_index(settings: &Settings, partial: &PartialFiles) -> Result<Index, Failure> {
    prepared(settings, || Index::open_partial(&index_options(settings), partial))
}

fn prepared(settings: &Settings, open: impl FnOnce() -> Result<Index, IndexError>) -> Result<Index, Failure> {
    let pools = pools(settings)?;
    let mut index = open()?;
    index.set_pools(Arc::new(pools));
    index.switch_tables(optional_tables(settings))?;
    Ok(index)
}

/// The optional tables that the settings switch on.
pub(super) fn optional_tables(settings: &Settings) -> OptionalTables {
    let settings = &settings.index;
    OptionalTables {
        wtxids: settings.wtxids,
        address_prefixes: settings.address_prefixes,
        op_returns: settings.op_returns,
        block_filters: settings.block_filters,
    }
}

/// The mining pools: those of the file of the settings, if there is one, and those that are known without it.
pub(super) fn pools(settings: &Settings) -> Result<Pools, Failure> {
    let Some(file) = settings.index.pools_file() else { return Ok(Pools::known(settings.network)) };
    let wrong = || format!("the setting index.pools_file is wrong: {}", file.display());
    let json = std::fs::read_to_string(file).or_exit(Exit::Usage, wrong())?;
    let pools = Pools::with_file(settings.network, &json).or_exit(Exit::Usage, wrong())?;
    info!(file = %file.display(), pools = pools.iter().count(), "mining pools read");
    Ok(pools)
}

/// The path of the index and how it is opened. Three quarters of the memory are its cache, the rest buffers.
pub(super) fn index_options(settings: &Settings) -> IndexOptions {
    IndexOptions {
        path: settings.index_file(),
        network: settings.network,
        salt: match settings.index.salt {
            settings::Salt::Random => None,
            settings::Salt::Fixed(salt) => Some(Salt(salt)),
        },
        cache_bytes: memory(settings) / 4 * 3,
        freezes: true,
        stale_blocks_kept: settings.index.stale_blocks.into(),
        observed: ObservedLimits {
            departed: settings.mempool.departed.into(),
            first_seen: settings.index.first_seen.into(),
            blocks: settings.index.observed_blocks.into(),
            reorgs: settings.index.reorgs.into(),
            mempool_samples: u64::from(settings.mempool.history_days) * MINUTES_A_DAY,
        },
    }
}

/// How much history of the mempool is kept, and the weight of projected blocks.
pub(super) fn mempool_limits(settings: &Settings) -> MempoolLimits {
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    MempoolLimits {
        departed: count(settings.mempool.departed),
        departed_bytes: usize::try_from(settings.mempool.departed_bytes.to_bytes()).unwrap_or(usize::MAX),
        events: count(settings.mempool.events),
        block_weight: settings.mempool.block_weight.into(),
    }
}

/// The most bytes of blocks that are fetched and not indexed yet.
pub(super) fn buffer_bytes(settings: &Settings) -> usize {
    memory(settings) / 4
}

/// Lets the index read the bytes of frozen blocks from the node. Returns which blocks are frozen, and what building a
/// generation may use: while the index is empty all memory.
pub(super) fn freezing(settings: &Settings, index: &Index, node: &Node) -> Result<Freezing, Failure> {
    let blocks_dir = settings.node.blocks_dir().map(PathBuf::from);
    let blocks = sync::read_frozen_blocks(index, node, blocks_dir.clone())?;
    let raw_transactions = match settings.index.raw_transactions {
        RawTransactions::Auto => None,
        RawTransactions::Index => Some(RawStorage::Index),
        RawTransactions::Node => Some(RawStorage::Node),
    };
    Ok(Freezing {
        bounds: FreezeBounds {
            depth: settings.index.freeze_depth,
            every: settings.index.freeze_every,
            transactions: settings.index.freeze_transactions,
        },
        raw_transactions,
        blocks,
        blocks_dir,
        temporary_dir: settings.index.temporary_dir.clone(),
        memory: memory(settings),
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN).min(MOST_THREADS),
    })
}

/// Concurrent requests to the node while catching up.
pub(super) fn connections(settings: &Settings) -> NonZeroUsize {
    NonZeroUsize::new(settings.node.connections).unwrap_or(NonZeroUsize::MIN)
}

fn memory(settings: &Settings) -> usize {
    usize::try_from(settings.index.memory.to_bytes()).unwrap_or(usize::MAX)
}

/// How to connect to the node of the settings. Raising `stop` ends every wait for it.
pub(super) fn node_settings(settings: &Settings, stop: &StopFlag) -> NodeOptions {
    let auth = match settings.node.auth() {
        NodeAuth::Cookie(path) => Auth::Cookie(path),
        NodeAuth::Password(user, password) => Auth::UserPassword { user, password: password.expose().into() },
    };
    let patience = Duration::from_secs(settings.node.patience_seconds.into());
    let mut node = NodeOptions::new(settings.network, settings.node.rpc_url.clone(), auth);
    node.timeout = settings.node.timeout();
    node.zmq = settings.node.zmq().map(str::to_owned);
    node.retry = RetryPolicy { patience, ..RetryPolicy::default() };
    node.connect_retry = node.retry;
    node.stop = stop.clone();
    node
}

/// A flag for blocking threads that is raised when `stop` is cancelled.
pub(super) fn stop_flag(stop: &CancellationToken) -> StopFlag {
    let (flag, stop) = (StopFlag::new(), stop.clone());
    let raised = flag.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        raised.raise();
    });
    flag
}

/// Runs blocking work on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => Err(Failure::new(
            Exit::Failed,
            "an internal fault ended the command; the log says where. If it recurs, run `btcgraph verify`, because damage to \
             the index file causes such faults",
        )),
        Err(error) => Err(error).or_exit(Exit::Failed, "a thread of btcgraph failed"),
    }
}

/// Connects to the node of the settings.
pub(super) fn connect(settings: &Settings, stop: &StopFlag) -> Result<Node, Failure> {
    Ok(Node::connect(node_settings(settings, stop))?)
}

/// Why following the node ended. For a full disk also how much space the index requires, and how to make it require less.
pub(super) fn following_failed(error: SyncError, space: &RequiredSpace) -> Failure {
    match error {
        SyncError::Index(IndexError::DiskFull) => {
            Failure::new(Exit::Index, format!("{}. {}", IndexError::DiskFull, space.advice()))
        }
        other => other.into(),
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        Failure::new(Exit::Index, error)
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        Failure::new(Exit::Node, error)
    }
}

impl From<SyncError> for Failure {
    fn from(error: SyncError) -> Self {
        let exit = match &error {
            SyncError::Node(_)
            | SyncError::ForeignChain { .. }
            | SyncError::NodeBehind { .. }
            | SyncError::NodePrunes
            | SyncError::BlocksPruned { .. }
            | SyncError::Awaited { .. } => Exit::Node,
            SyncError::Index(_) | SyncError::DiskShortage(_) => Exit::Index,
            SyncError::Threads(_) => Exit::Failed,
        };
        Failure::new(exit, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_command_with_advice() {
        let failure = blocking::<()>(|| panic!("damaged")).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Failed);
        assert_eq!(
            failure.message(),
            "an internal fault ended the command; the log says where. If it recurs, run `btcgraph verify`, because damage to \
             the index file causes such faults"
        );
    }
}
