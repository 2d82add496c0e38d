//! An object of which some blocks are in a file on this machine: those that are missing are fetched in the order in which they
//! are read, and all others in the background, each once.
//!
//! ```text
//!   reader ─ PartialFile::read ─┐ blocks that are missing,         ┌ in the file, from an earlier process ─┐
//!   filler ─ fill ──────────────┴ and not being fetched ───► Claim ┴ in the store ─────────────────────────┴─ verified ─► there
//! ```
//!
//! A block is there once this process has compared it with its checksum, so that no record of them has to survive a crash.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::block_fetch::BlockFetch;
use super::checksums::BLOCK;
use super::error::FleetError;
use super::pace::Pace;
use super::progress::TransferProgress;
use super::reader_window::ReaderWindow;
use super::store::FleetStore;
use super::store_health::StoreHealth;
use super::wanted::WantedObject;
use crate::chain::wide;
use crate::index::{PartialFile, Patience, Unfetched, reserve_space};

/// How long a reader waits for the store.
const READER_PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits after a reader waited in vain, until the store answers again: an answer needs many blocks.
const BRIEF_PATIENCE: Duration = Duration::from_millis(10);
/// How many windows of blocks of an object are being fetched for readers at most until then, so that they notice when it does.
const PROBES: usize = 8;
/// How long it waits for what others fetch before it is requested for this one: a large request may be slow.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_millis(500);
/// How often a range is requested that does not match its checksums: it may have been damaged on the way.
const ATTEMPTS: usize = 2;
/// The pause before missing blocks are looked for again that readers are fetching, or before readers are looked for again.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause of a thread that waits endlessly, and the interval between two lines of the log meanwhile.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// How often filling pauses for readers before it continues beside them.
const PAUSES: usize = 20;

/// An object, as far as it is in a file. Cheap to clone.
#[derive(Clone)]
pub(super) struct PartialObject(Arc<Shared>);

struct Shared {
    store: FleetStore,
    wanted: WantedObject,
    path: PathBuf,
    file: File,
    /// Whether blocks that were not compared yet may be in the file.
    may_have_more: AtomicBool,
    /// Whether it is complete and in its place.
    is_complete: AtomicBool,
    blocks: Mutex<BlockStates>,
    /// Readers that wait.
    readers: AtomicUsize,
    /// Objects of a store share it.
    health: Arc<StoreHealth>,
    stop: CancellationToken,
    window: ReaderWindow,
    /// Requests of ranges so far.
    requests: AtomicU64,
    progress: Arc<TransferProgress>,
    runtime: Handle,
}

struct BlockStates {
    are_there: Vec<bool>,
    missing: usize,
    /// Those that are being fetched.
    fetches: BTreeMap<usize, Arc<BlockFetch>>,
    /// How many of them are being fetched for readers, those twice that are requested once more.
    for_readers: usize,
}

/// Blocks that follow each other and that this alone fetches. Dropped before, it gives them up.
struct Claim {
    shared: Arc<Shared>,
    blocks: Range<usize>,
    fetch: Arc<BlockFetch>,
    fetcher: Fetcher,
}

/// Who has blocks fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fetcher {
    /// Waits for them.
    Reader,
    /// Traverses the object.
    Filler,
}

impl Claim {
    async fn run(self) -> Result<(), FleetError> {
        let fetched = self.shared.fetch(&self.blocks, self.fetcher).await;
        self.give_up(match &fetched {
            Ok(()) => Ok(()),
            Err(error) => Err(Unfetched(error.to_string())),
        });
        fetched
    }

    fn give_up(&self, result: Result<(), Unfetched>) {
        let mut blocks = self.shared.blocks.lock();
        for block in self.blocks.clone() {
            // others may be fetching it, too
            if blocks.fetches.get(&block).is_some_and(|fetch| Arc::ptr_eq(fetch, &self.fetch)) {
                blocks.fetches.remove(&block);
            }
        }
        if self.fetcher == Fetcher::Reader {
            blocks.for_readers = blocks.for_readers.saturating_sub(self.blocks.len());
        }
        drop(blocks);
        self.fetch.end(result);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.fetch.has_ended() {
            self.give_up(Err(Unfetched("the download was stopped".to_owned())));
        }
    }
}

impl PartialObject {
    /// The object in this file, which is made if it does not exist. `health` is that of the store; `stop` ends endless waiting.
    /// Must be called within a runtime of tokio.
    ///
    /// Errors: the file cannot be opened; the disk has no space.
    pub(super) fn open(
        store: &FleetStore,
        wanted: WantedObject,
        path: &Path,
        progress: &Arc<TransferProgress>,
        (health, stop): (&Arc<StoreHealth>, &CancellationToken),
    ) -> Result<Self, FleetError> {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(FleetError::of_file("make", path))?;
        let may_have_more = file.metadata().map_err(FleetError::of_file("read", path))?.len() > 0;
        // what else is on the disk cannot take the space of what is missing
        reserve_space(&file, wanted.bytes).map_err(FleetError::of_file("make space for", path))?;
        let missing = usize::try_from(wanted.bytes.div_ceil(wide(BLOCK))).unwrap_or(usize::MAX);
        let window = ReaderWindow::of(wanted.bytes);
        Ok(Self(Arc::new(Shared {
            store: store.clone(),
            wanted,
            path: path.to_path_buf(),
            file,
            may_have_more: AtomicBool::new(may_have_more),
            is_complete: AtomicBool::new(false),
            blocks: Mutex::new(BlockStates {
                are_there: vec![false; missing],
                missing,
                fetches: BTreeMap::new(),
                for_readers: 0,
            }),
            readers: AtomicUsize::new(0),
            window,
            health: Arc::clone(health),
            stop: stop.clone(),
            requests: AtomicU64::new(0),
            progress: Arc::clone(progress),
            runtime: Handle::current(),
        })))
    }

    /// Fetches what is missing.
    ///
    /// Errors: [`FleetError::Gone`], `Truncated`, `Changed`, `Stopped`; the store fails; reading or writing the file fails.
    /// What was fetched stays.
    pub(super) async fn fill(&self, pace: Pace, stop: &CancellationToken) -> Result<(), FleetError> {
        let filled = self.fill_missing(pace, stop).await;
        let (wanted, store) = (self.wanted(), &self.0.store);
        // of an object that was cut short other bytes or an error of the store may come
        if let Err(FleetError::Changed { .. } | FleetError::Store { .. }) = filled {
            let (object, expected) = (wanted.object.object(), wanted.bytes);
            let size = tokio::time::timeout(READER_PATIENCE, store.size(&object)).await;
            if let Ok(Ok(Some(found))) = size
                && found != expected
            {
                return Err(FleetError::Truncated { object, found, expected });
            }
        }
        filled
    }

    async fn fill_missing(&self, pace: Pace, stop: &CancellationToken) -> Result<(), FleetError> {
        let shared = &self.0;
        let all = shared.blocks.lock().are_there.len();
        while shared.blocks.lock().missing > 0 {
            let (mut next, mut running) = (0, JoinSet::new());
            loop {
                while running.len() < pace.concurrent && next < all {
                    let blocks = next..all.min(next + pace.blocks);
                    next = blocks.end;
                    if !shared.blocks.lock().are_there[blocks.clone()].contains(&false) {
                        continue;
                    }
                    shared.yield_to_readers().await;
                    for claim in shared.claim(blocks.clone(), &blocks, Fetcher::Filler, None) {
                        running.spawn(claim.run());
                    }
                }
                let joined = tokio::select! {
                    joined = running.join_next() => joined,
                    () = stop.cancelled() => return Err(FleetError::Stopped),
                };
                match joined {
                    None => break,
                    // dropping the others stops them
                    Some(joined) => joined??,
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Compares all blocks again when they are read: the file is not what it was.
    pub(super) fn forget(&self) {
        let mut blocks = self.0.blocks.lock();
        self.0.may_have_more.store(true, Ordering::Relaxed);
        self.0.progress.take_back(self.0.bytes_there(&blocks));
        blocks.missing = blocks.are_there.len();
        blocks.are_there.fill(false);
    }

    /// Nothing of it is ever fetched again.
    pub(super) fn set_complete(&self) {
        self.0.is_complete.store(true, Ordering::Release);
    }

    /// How many ranges were requested so far.
    pub(super) fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }

    pub(super) fn wanted(&self) -> &WantedObject {
        &self.0.wanted
    }
}

impl Shared {
    /// Claims the blocks of `wanted` that are neither there nor being fetched by others than `except`, and those beside them
    /// within `around`.
    fn claim(
        self: &Arc<Self>,
        wanted: Range<usize>,
        around: &Range<usize>,
        fetcher: Fetcher,
        except: Option<&Arc<BlockFetch>>,
    ) -> Vec<Claim> {
        let mut blocks = self.blocks.lock();
        let is_excepted = |fetch: &Arc<BlockFetch>| except.is_some_and(|except| Arc::ptr_eq(fetch, except));
        let mut claims: Vec<Claim> = Vec::new();
        for block in wanted {
            let is_free =
                |block: &usize| !blocks.are_there[*block] && blocks.fetches.get(block).is_none_or(is_excepted);
            if !is_free(&block) {
                continue;
            }
            let first = (around.start..block).rev().take_while(is_free).last().unwrap_or(block);
            let end = (block..around.end).take_while(is_free).last().unwrap_or(block) + 1;
            let fetch = Arc::<BlockFetch>::default();
            blocks.fetches.extend((first..end).map(|block| (block, Arc::clone(&fetch))));
            if fetcher == Fetcher::Reader {
                blocks.for_readers += end - first;
            }
            claims.push(Claim { shared: Arc::clone(self), blocks: first..end, fetch, fetcher });
        }
        claims
    }

    /// Has blocks fetched that are missing, and waits for them as long as the patience of the thread lasts.
    fn require(self: &Arc<Self>, wanted: &Range<usize>) -> Result<(), Unfetched> {
        let mut logged: Option<Instant> = None;
        loop {
            let required = self.require_soon(wanted);
            let Err(error) = &required else { return required };
            if !Patience::current().is_endless() || self.stop.is_cancelled() {
                return required;
            }
            if logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
                warn!(%error, "waiting for a part of the index that is not on this machine yet");
                logged = Some(Instant::now());
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Has blocks fetched that are missing, and waits for them for a moment.
    fn require_soon(self: &Arc<Self>, wanted: &Range<usize>) -> Result<(), Unfetched> {
        if self.may_have_more.load(Ordering::Relaxed)
            && self.recognise(wanted.clone()).is_ok_and(|left| left.is_empty())
        {
            // of an earlier process, also if the store does not answer
            return Ok(());
        }
        let (is_failing, answers) = (self.health.is_failing(), self.health.answers());
        let until = Instant::now() + if is_failing { BRIEF_PATIENCE } else { READER_PATIENCE };
        let all = self.blocks.lock().are_there.len();
        let window = self.window.blocks();
        let around = wanted.start / window * window..all.min(wanted.end.div_ceil(window) * window);
        let (mut own, mut slow): (Vec<Arc<BlockFetch>>, _) = (Vec::new(), None);
        loop {
            if is_failing && self.blocks.lock().for_readers > PROBES * window {
                return Err(Unfetched("the store does not answer".to_owned()));
            }
            // what is slow is requested once more without what is beside it
            let around = if slow.is_some() { wanted } else { &around };
            for claim in self.claim(wanted.clone(), around, Fetcher::Reader, slow.as_ref()) {
                own.push(Arc::clone(&claim.fetch));
                self.runtime.spawn(claim.run());
            }
            let fetch = {
                let blocks = self.blocks.lock();
                let Some(missing) = wanted.clone().find(|block| !blocks.are_there[*block]) else { return Ok(()) };
                blocks.fetches.get(&missing).map(Arc::clone)
            };
            // without one it has just ended, and is looked for again
            let Some(fetch) = fetch.or_else(|| own.last().cloned()) else { continue };
            let is_own = own.iter().any(|own| Arc::ptr_eq(own, &fetch));
            let patience = if is_own { until } else { until.min(Instant::now() + PATIENCE_WITH_OTHERS) };
            let result = fetch.wait(patience);
            if is_own || Instant::now() >= until {
                result.inspect_err(|_| self.health.record_failure(answers))?;
            } else if result.is_err() {
                // what is slow or failed for another is requested for this one
                slow = Some(fetch);
            }
        }
    }

    /// Fetches blocks, each from the file if it is there.
    async fn fetch(self: &Arc<Self>, blocks: &Range<usize>, fetcher: Fetcher) -> Result<(), FleetError> {
        let missing = if self.may_have_more.load(Ordering::Relaxed) {
            let (shared, blocks) = (Arc::clone(self), blocks.clone());
            spawn_blocking(move || shared.recognise(blocks)).await??
        } else {
            vec![blocks.clone()]
        };
        for blocks in missing {
            self.request(blocks, fetcher).await?;
        }
        Ok(())
    }

    /// Compares blocks of the file with their checksums. Returns those that differ.
    fn recognise(&self, blocks: Range<usize>) -> Result<Vec<Range<usize>>, FleetError> {
        let range = self.bytes_of(&blocks);
        let mut content = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut content, range.start).map_err(FleetError::of_file("read", &self.path))?;
        let mut missing: Vec<Range<usize>> = Vec::new();
        for (block, content) in blocks.zip(content.chunks(BLOCK)) {
            match missing.last_mut() {
                _ if self.wanted.sums.first_difference(block, content).is_none() => self.add(&(block..block + 1)),
                Some(last) if last.end == block => last.end += 1,
                _ => missing.push(block..block + 1),
            }
        }
        Ok(missing)
    }

    /// Requests blocks from the store, and writes them to the file if they match their checksums.
    async fn request(self: &Arc<Self>, blocks: Range<usize>, fetcher: Fetcher) -> Result<(), FleetError> {
        let (object, range) = (self.wanted.object.object(), self.bytes_of(&blocks));
        let mut attempt = 1;
        loop {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let (begun, window) = (Instant::now(), self.window.blocks());
            let content = self.store.read_range(&object, range.clone()).await;
            // a part of a window says little of a whole one
            if fetcher == Fetcher::Reader && (content.is_err() || blocks.len() >= window) {
                self.window.adapt(window, content.as_ref().map(|_| begun.elapsed()).ok());
            }
            if matches!(content, Ok(_) | Err(FleetError::Gone { .. })) {
                self.health.record_answer();
            }
            match self.write(&blocks, content?).await? {
                None => return Ok(()),
                Some(offset) if attempt == ATTEMPTS => {
                    return Err(FleetError::Changed { object, offset: range.start + offset });
                }
                Some(_) => attempt += 1,
            }
        }
    }

    /// Writes blocks to the file, unless their content differs from their checksums, and then returns where it does.
    async fn write(self: &Arc<Self>, blocks: &Range<usize>, content: Vec<u8>) -> Result<Option<u64>, FleetError> {
        let (shared, blocks) = (Arc::clone(self), blocks.clone());
        let write = move || {
            let range = shared.bytes_of(&blocks);
            if wide(content.len()) != range.end - range.start {
                return Ok(Some(0));
            }
            if let Some(offset) = shared.wanted.sums.first_difference(blocks.start, &content) {
                return Ok(Some(wide(offset)));
            }
            shared.file.write_all_at(&content, range.start).map_err(FleetError::of_file("write", &shared.path))?;
            shared.add(&blocks);
            Ok(None)
        };
        spawn_blocking(write).await?
    }

    /// These blocks are there.
    fn add(&self, added: &Range<usize>) {
        let (mut blocks, mut bytes) = (self.blocks.lock(), 0);
        for block in added.clone() {
            if !std::mem::replace(&mut blocks.are_there[block], true) {
                blocks.missing -= 1;
                let range = self.bytes_of(&(block..block + 1));
                bytes += range.end - range.start;
            }
        }
        drop(blocks);
        self.progress.add(bytes);
    }

    /// Pauses while readers wait for the store, for a short time.
    async fn yield_to_readers(&self) {
        for _ in 0..PAUSES {
            if self.readers.load(Ordering::Relaxed) == 0 {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn bytes_there(&self, blocks: &BlockStates) -> u64 {
        let there = (0..).zip(&blocks.are_there).filter(|(_, is_there)| **is_there);
        there.map(|(block, _)| self.bytes_of(&(block..block + 1))).map(|range| range.end - range.start).sum()
    }

    fn bytes_of(&self, blocks: &Range<usize>) -> Range<u64> {
        let start = |block: usize| self.wanted.bytes.min(wide(block) * wide(BLOCK));
        start(blocks.start)..start(blocks.end)
    }
}

impl std::fmt::Debug for PartialObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartialObject").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl PartialFile for PartialObject {
    fn bytes(&self) -> u64 {
        self.0.wanted.bytes
    }

    fn missing_bytes(&self) -> u64 {
        self.0.wanted.bytes.min(wide(self.0.blocks.lock().missing) * wide(BLOCK))
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete.load(Ordering::Acquire)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Unfetched> {
        let shared = &self.0;
        let block = |offset: u64| usize::try_from(offset / wide(BLOCK)).unwrap_or(usize::MAX);
        let end = offset.saturating_add(wide(out.len()));
        if end > shared.wanted.bytes {
            return Err(Unfetched(format!("{} ends before byte {end}", shared.path.display())));
        }
        if !self.is_complete() && !out.is_empty() {
            let wanted = block(offset)..block(end - 1) + 1;
            if shared.blocks.lock().are_there[wanted.clone()].contains(&false) {
                shared.readers.fetch_add(1, Ordering::Relaxed);
                let required = shared.require(&wanted);
                shared.readers.fetch_sub(1, Ordering::Relaxed);
                required?;
            }
        }
        let read = shared.file.read_exact_at(out, offset);
        read.map_err(|error| Unfetched(format!("cannot read {}: {error}", shared.path.display())))
    }
}
