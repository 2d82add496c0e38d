//! What `serve`, `import` and `publish` have to do with a store of published blocks.

pub(in crate::commands) mod backup;
pub(in crate::commands) mod publish;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use btcgraph::chain::Height;
use btcgraph::fleet::{self, FleetError, FleetStore, JoinOptions, JoinedNote, LazyJoin, OnChain, TxidCheck};
use btcgraph::index::{FrozenTxids, Index, IndexError};
use btcgraph::node::Node;
use btcgraph::settings::Settings;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::failure::{Exit, Failure};
use super::pieces;

/// The pause before `serve` looks for a manifest again whose block the node has.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// How often the files of an index are asked for that a server merges meanwhile.
const ATTEMPTS: usize = 5;

/// Uses the files of an index, and does so again while one of them is gone when it is read: the server that has the index open
/// merged it with others, and names another one now.
async fn with_current_files<T>(
    mut use_files: impl AsyncFnMut() -> Result<Result<T, FleetError>, Failure>,
) -> Result<Result<T, FleetError>, Failure> {
    for _ in 1..ATTEMPTS {
        match use_files().await? {
            Err(error) if error.is_of_missing_file() => info!(%error, "asking again for the files of the index"),
            used => return Ok(used),
        }
    }
    use_files().await
}

/// How joining ended.
pub(super) enum Joining {
    /// The index has the published blocks.
    Joined,
    /// The index has them, and not all are on this machine yet.
    Lazily(Box<LazyJoin>),
    /// A signal stopped it.
    Stopped,
    /// There is an index with blocks already, as this error says.
    Present(FleetError),
}

/// When a join ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinMode {
    /// When all blocks are downloaded.
    Whole,
    /// When the index can be opened.
    Lazy,
}

/// What a data directory has.
enum Present {
    /// No blocks.
    Nothing,
    /// All files of its blocks.
    Whole,
    /// An index of which files are missing.
    Partial(IndexError),
}

/// The store at this address, with the credentials of this process.
pub(super) fn open_store(url: &str, create: bool) -> Result<FleetStore, Failure> {
    // what is not UTF-8 is not a variable of a store
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(FleetStore::open(url, environment, create)?)
}

/// Makes the index of the settings from published blocks, of which the node must have the highest if it is asked.
pub(super) async fn join(
    settings: &Settings,
    stop: &CancellationToken,
    url: &str,
    asks_node: bool,
    mode: JoinMode,
) -> Result<Joining, Failure> {
    let store = open_store(url, false)?;
    let index = pieces::index_options(settings);
    if let Present::Partial(error) = present(settings).await? {
        return resume(settings, stop, &store, error, mode).await;
    }
    let on_chain = if asks_node {
        let (settings, flag) = (settings.clone(), pieces::stop_flag(stop));
        match pieces::blocking(move || pieces::connect(&settings, &flag)).await {
            Err(_) if stop.is_cancelled() => return Ok(Joining::Stopped),
            node => Some(asking(node?)),
        }
    } else {
        None
    };
    let options = JoinOptions { index, on_chain, stop: stop.clone() };
    let joined = match mode {
        JoinMode::Whole => fleet::join(&store, &options).await.map(|joined| (Joining::Joined, joined)),
        JoinMode::Lazy => tokio::select! {
            begun = LazyJoin::begin(&store, &options) => {
                begun.map(|(lazy, joined)| (Joining::Lazily(Box::new(lazy)), joined))
            }
            () = stop.cancelled() => Err(FleetError::Stopped),
        },
    };
    match joined {
        Ok((joining, joined)) => {
            info!(height = %joined.tip.height, hash = %joined.tip.hash, manifest = %joined.manifest, "joined: the index has the published blocks");
            Ok(joining)
        }
        Err(error @ FleetError::NotEmpty { .. }) => Ok(Joining::Present(error)),
        Err(_) if stop.is_cancelled() => {
            info!("stopped; run the command again to continue the download");
            Ok(Joining::Stopped)
        }
        Err(error) => Err(error.into()),
    }
}

/// Joins unless there is an index with blocks. Waits for a node that does not have a published block yet.
pub(super) async fn join_and_wait(
    settings: &Settings,
    stop: &CancellationToken,
    url: &str,
    mode: JoinMode,
) -> Result<Joining, Failure> {
    if let Present::Whole = present(settings).await? {
        info!("the index has blocks already, so --from has no effect");
        LazyJoin::remove_rest(&settings.index_file());
        return Ok(Joining::Joined);
    }
    loop {
        match join(settings, stop, url, true, mode).await {
            Err(failure) if failure.exit() == Exit::Node => {
                warn!(error = failure.message(), again_in = ?RETRY_PAUSE, "cannot join yet");
                tokio::select! {
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                    () = stop.cancelled() => return Ok(Joining::Stopped),
                }
            }
            joined => return joined,
        }
    }
}

/// Resumes a download that began with `--lazy`. `missing` says which file the index lacks, in case there is none.
async fn resume(
    settings: &Settings,
    stop: &CancellationToken,
    store: &FleetStore,
    missing: IndexError,
    mode: JoinMode,
) -> Result<Joining, Failure> {
    let index = settings.index_file();
    let resumed = tokio::select! {
        resumed = LazyJoin::resume(store, &index, stop) => resumed?,
        () = stop.cancelled() => return Ok(Joining::Stopped),
    };
    let Some(lazy) = resumed else { return Err(missing.into()) };
    if mode == JoinMode::Lazy {
        return Ok(Joining::Lazily(Box::new(lazy)));
    }
    match lazy.complete(stop).await {
        Ok(()) => Ok(Joining::Joined),
        Err(FleetError::Stopped) => Ok(Joining::Stopped),
        Err(error) => Err(error.into()),
    }
}

/// What the data directory of the settings has.
async fn present(settings: &Settings) -> Result<Present, Failure> {
    let options = pieces::index_options(settings);
    if !options.path.exists() {
        return Ok(Present::Nothing);
    }
    pieces::blocking(move || match Index::open_existing(&options) {
        Err(error @ IndexError::GenerationMissing { .. }) => Ok(Present::Partial(error)),
        index => Ok(if index?.snapshot()?.tip().is_some() { Present::Whole } else { Present::Nothing }),
    })
    .await
}

/// Asks the node whether it has a block in its main chain.
fn asking(node: Node) -> OnChain {
    Arc::new(move |height, hash| match node.block_hash(Height::from(height)) {
        Ok(found) => Ok(found == Some(hash)),
        Err(error) => Err(FleetError::Node(error.to_string())),
    })
}

/// Refuses an index of which an earlier run found that it is not one of the chain.
pub(super) fn refuse_wrong_blocks(settings: &Settings) -> Result<(), Failure> {
    let index = settings.index_file();
    if !index.exists() {
        return Ok(JoinedNote::remove(&index)?);
    }
    match JoinedNote::read(&index).and_then(|note| note.refusal) {
        Some(reason) => Err(Failure::new(Exit::Index, reason)),
        None => Ok(()),
    }
}

/// Compares the txids of an index that was joined with its headers, unless that was done. `rests` leaves the processor to
/// requests half of the time.
///
/// Errors: a block is not of the chain.
pub(super) fn check_txids(
    settings: &Settings,
    txids: &FrozenTxids,
    rests: bool,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let index = settings.index_file();
    let Some(note) = JoinedNote::read(&index).filter(|note| !note.txids_match) else { return Ok(()) };
    match note.check(&index, txids, rests, stop)? {
        TxidCheck::Match | TxidCheck::Stopped => Ok(()),
        TxidCheck::Mismatch(mismatch) => Err(wrong_blocks(&index, &mismatch)),
    }
}

/// Compares the txids of an index that was joined and that no process has open.
///
/// Errors: a block is not of the chain.
pub(super) async fn check_after_import(settings: &Settings, stop: &CancellationToken) -> Result<(), Failure> {
    if stop.is_cancelled() || JoinedNote::read(&settings.index_file()).is_none_or(|note| note.txids_match) {
        return Ok(());
    }
    let (settings, stop) = (settings.clone(), stop.clone());
    pieces::blocking(move || check_txids(&settings, &pieces::open_index(&settings)?.frozen_txids(), false, &stop)).await
}

/// The failure of an index that was joined and is not one of the chain, which is noted for every later start.
fn wrong_blocks(index: &Path, why: &impl std::fmt::Display) -> Failure {
    let note = JoinedNote::read(index);
    let manifest = note.as_ref().map_or("unknown", |note| note.manifest.as_str());
    let reason = format!(
        "the index was joined from manifest {manifest}, and is not an index of the chain: {why}. The publisher had a damaged \
         or wrong index, so do not use its answers: remove {index} with all that is named index.* beside it, and join from another store or \
         import from the node",
        index = index.display()
    );
    // without the note the next start compares again
    if let Some(Err(error)) = note.map(|note| note.refuse(index, reason.clone())) {
        warn!(%error, "cannot note that the index is wrong");
    }
    Failure::new(Exit::Index, reason)
}

/// Completes the download of an index that was joined, compares its txids while it is served, and stops the server if they
/// differ, or if the download cannot be completed on this machine.
pub(super) fn check_in_background(
    settings: &Settings,
    index: &Index,
    lazy: Option<Box<LazyJoin>>,
    stop: &CancellationToken,
) -> impl Future<Output = Result<(), Failure>> + use<> {
    let (settings, txids, stop) = (settings.clone(), index.frozen_txids(), stop.clone());
    let checking = tokio::spawn(async move {
        // also a panic ends the server
        let unless_checked = stop.clone().drop_guard();
        let checked = complete_and_check(settings, txids, lazy, stop).await;
        match &checked {
            Ok(()) => drop(unless_checked.disarm()),
            Err(failure) => error!("{}", failure.message()),
        }
        checked
    });
    async move { checking.await.unwrap_or_else(|error| Err(Failure::new(Exit::Failed, error))) }
}

async fn complete_and_check(
    settings: Settings,
    txids: FrozenTxids,
    lazy: Option<Box<LazyJoin>>,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let completed = match lazy {
        Some(lazy) => lazy.complete_beside_readers(&stop).await,
        None => Ok(()),
    };
    match completed {
        Err(FleetError::Stopped) => return Ok(()),
        Err(FleetError::Misnamed { object }) => {
            let why = format!("{object} of the store has another content than its name says");
            return Err(wrong_blocks(&settings.index_file(), &why));
        }
        completed => completed?,
    }
    let check = move || {
        // without a download all are there already
        txids.keep_filters();
        // it reads all of them
        check_txids(&settings, &txids, true, &stop)
    };
    pieces::blocking(check).await
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        let exit = match &error {
            FleetError::Url { .. } | FleetError::Settings { .. } => Exit::Usage,
            FleetError::Node(_) | FleetError::NotOnChain { .. } => Exit::Node,
            FleetError::Index(_)
            | FleetError::NotEmpty { .. }
            | FleetError::Importing { .. }
            | FleetError::Existing { .. }
            | FleetError::LocalChange { .. }
            | FleetError::Salt { .. }
            | FleetError::DiskShortage(_) => Exit::Index,
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    }
}
