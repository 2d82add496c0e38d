//! Reads ahead what the next block will change, as far as the mempool tells.
//!
//! A thread of its own looks every few seconds at the block that miners would make now, and reads the pages of the index
//! that belong to what is new in it. When the block comes, they are in memory, and the thread stands back.
//!
//! Before that it fills the cache once: with memory that the process did not have before, of which the system clears each page
//! first, the first block after a start took twice as long as any other.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bitcoin::{OutPoint, Script};
use tracing::debug;

use crate::index::{IndexError, Snapshot};
use crate::mempool::{Entry, Remainder};
use crate::node::StopFlag;
use crate::view::{Head, Published, SyncPhase};

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// Filling the cache takes at most so long: a disk that seeks would take hours for some of it,
const WARMING: Duration = Duration::from_mins(1);
/// each rest within it this many times as long as what was read before it took, so that it has a quarter of one processor,
const REST: u32 = 3;
/// and no longer than this.
const LONGEST_REST: Duration = Duration::from_millis(100);
/// Transactions that are read from one state.
const BATCH: usize = 200;

/// The thread. Dropping it ends it.
pub(super) struct Prefetcher {
    stop: StopFlag,
    /// Whether blocks come just now, which need the processors more.
    is_busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Keeps the thread from reading for as long as it is there.
pub(super) struct PrefetchPause(Arc<AtomicBool>);

impl Drop for PrefetchPause {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Prefetcher {
    /// Begins, with the newest state that is published. Without a thread blocks are only slower.
    ///
    /// `cache_bytes` is what the index keeps of its pages in memory at most.
    pub(super) fn start(published: &Published, cache_bytes: u64) -> Self {
        let (stop, is_busy) = (StopFlag::new(), Arc::default());
        let (published, is_busy_too) = (published.clone(), Arc::clone(&is_busy));
        let worker = PrefetchWorker { published, stop: stop.clone(), is_busy: is_busy_too, cache_bytes };
        let thread = thread::Builder::new().name("prefetch".into()).spawn(move || worker.run());
        Self { stop, is_busy, thread: thread.ok() }
    }

    /// Lets blocks have the processors.
    pub(super) fn pause(&self) -> PrefetchPause {
        self.is_busy.store(true, Ordering::Relaxed);
        PrefetchPause(Arc::clone(&self.is_busy))
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // it ends by itself; whether it failed matters to nobody
            let _ = thread.join();
        }
    }
}

/// The thread's share.
struct PrefetchWorker {
    published: Published,
    stop: StopFlag,
    is_busy: Arc<AtomicBool>,
    cache_bytes: u64,
}

impl PrefetchWorker {
    fn run(&self) {
        self.warm_up();
        let mut read = HashSet::new();
        while self.stop.sleep(PAUSE).is_ok() {
            let state = self.published.state();
            let is_useful = state.phase == SyncPhase::Following && state.mempool_in_sync && !self.is_busy();
            let Some(head) = self.published.head().filter(|_| is_useful) else { continue };
            let blocks = head.mempool.projected_blocks(1, Remainder::Left);
            drop(head);
            let next: HashSet<_> = blocks.iter().flat_map(|block| block.sequences.iter().copied()).collect();
            read.retain(|sequence| next.contains(sequence));
            let new: Vec<_> = next.into_iter().filter(|sequence| !read.contains(sequence)).collect();
            for some in new.chunks(BATCH) {
                // the newest, so that none is kept for as long as a slow disk takes
                let Some(head) = self.published.head().filter(|_| !self.stop.is_raised()) else { break };
                match self.prefetch_entries(&head, some) {
                    Ok(count) => read.extend(some.iter().take(count)),
                    Err(error) => {
                        // whoever needs the pages will say so
                        debug!(%error, "the index could not be read ahead");
                        break;
                    }
                }
            }
        }
    }

    /// Fills the cache as long as nobody has: later it would only take the place of what was asked for. When blocks come it
    /// begins again with the newest state, as the pages of one that is read are not used again; what it read before is there.
    fn warm_up(&self) {
        let began = Instant::now();
        let newest = || self.published.head().map(|head| Arc::clone(&head.chain));
        let mut chain = newest();
        while let Some(state) = chain {
            let was_interrupted = self.fill(&state, began);
            drop(state);
            while self.is_busy() && self.stop.sleep(LONGEST_REST).is_ok() {}
            let continues = was_interrupted && !self.stop.is_raised() && began.elapsed() < WARMING;
            chain = newest().filter(|_| continues);
        }
    }

    /// The same from this state, with a rest after each step, until it has taken long enough or blocks come: whether they
    /// did. On a thread of its own that ends: the memory of one that goes on is not used by others, even when the pages in
    /// it have given way.
    fn fill(&self, chain: &Snapshot, began: Instant) -> bool {
        let (mut rested, mut blocks_come) = (Instant::now(), false);
        let continues = || {
            let rest = (rested.elapsed() * REST).min(LONGEST_REST);
            blocks_come = blocks_come || self.is_busy();
            let continues = !blocks_come && self.stop.sleep(rest).is_ok() && began.elapsed() < WARMING;
            rested = Instant::now();
            continues
        };
        let read = thread::scope(|scope| {
            let warming = thread::Builder::new().name("warm-up".into());
            let warming = warming.spawn_scoped(scope, || chain.warm_up(self.cache_bytes, continues));
            warming.ok().and_then(|warming| warming.join().ok())
        });
        debug!(?read, blocks_come, took = ?began.elapsed(), "filled the cache");
        blocks_come
    }

    /// How many it came to read.
    fn prefetch_entries(&self, head: &Head, sequences: &[u64]) -> Result<usize, IndexError> {
        for (count, sequence) in sequences.iter().enumerate() {
            if self.is_busy() {
                return Ok(count);
            }
            if let Some(entry) = head.mempool.by_sequence(*sequence) {
                prefetch_entry(head, entry)?;
            }
        }
        Ok(sequences.len())
    }

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }
}

fn prefetch_entry(head: &Head, entry: &Entry) -> Result<(), IndexError> {
    let spent = entry.inputs().map(|(input, prevout)| {
        let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
        (outpoint, Script::from_bytes(prevout.script_pubkey))
    });
    let paid = entry.outputs().map(|output| Script::from_bytes(output.script_pubkey));
    head.chain.prefetch(&entry.txid, spent, paid)
}
