//! Prefetches what the next block will need of the index, as far as the mempool predicts it.
//!
//! A thread looks at the first projected block every few seconds, and reads what the index has for its new transactions.
//! When the block arrives, its pages are in memory, most of its look-ups are done, and the thread pauses.
//!
//! At the start it fills the cache once. Without that the first block takes twice as long as the others, because the
//! system clears each page of memory that the process did not have before.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bitcoin::{OutPoint, Script};
use parking_lot::Mutex;
use tracing::debug;

use crate::index::{IndexError, PrefetchedRows, Snapshot};
use crate::mempool::{Entry, Remainder};
use crate::node::StopFlag;
use crate::view::{Head, Published, SyncPhase};

/// The interval between looks at the projected block.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest time for filling the cache: a disk that seeks would take hours for some indexes.
const WARM_UP_LIMIT: Duration = Duration::from_mins(1);
/// The rest after each read, as a multiple of the time of the read: the thread uses a quarter of one processor.
const REST: u32 = 3;
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_millis(100);
/// How long a block waits for the thread to finish with a transaction.
const LONGEST_WAIT: Duration = Duration::from_millis(5);
/// Transactions read from one snapshot.
const BATCH: usize = 200;

/// The thread. Dropping this stops it.
pub(super) struct Prefetcher {
    stop: StopFlag,
    /// Whether blocks are being connected, which need the processors.
    is_busy: Arc<AtomicBool>,
    rows: Arc<Mutex<Option<PrefetchedRows>>>,
    thread: Option<JoinHandle<()>>,
}

/// Pauses the thread while it exists.
pub(super) struct PrefetchPause(Arc<AtomicBool>);

impl Drop for PrefetchPause {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Prefetcher {
    /// Starts with the newest published state. If the thread cannot start, blocks only take longer.
    ///
    /// `cache_bytes` is the size of the index's page cache.
    pub(super) fn start(published: &Published, cache_bytes: u64) -> Self {
        let (stop, is_busy, rows) = (StopFlag::new(), Arc::default(), Arc::default());
        let worker = PrefetchWorker {
            published: published.clone(),
            stop: stop.clone(),
            is_busy: Arc::clone(&is_busy),
            rows: Arc::clone(&rows),
            cache_bytes,
        };
        let thread = thread::Builder::new().name("prefetch".into()).spawn(move || worker.run());
        Self { stop, is_busy, rows, thread: thread.ok() }
    }

    /// What was found for the next block, which arrives now, unless the thread waits for the disk. The thread begins anew.
    pub(super) fn take_rows(&self) -> Option<PrefetchedRows> {
        self.rows.try_lock_for(LONGEST_WAIT)?.take()
    }

    /// Leaves the processors to the blocks.
    pub(super) fn pause(&self) -> PrefetchPause {
        self.is_busy.store(true, Ordering::Relaxed);
        PrefetchPause(Arc::clone(&self.is_busy))
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // its failure affects nothing else
            let _ = thread.join();
        }
    }
}

/// The part that runs on the thread.
struct PrefetchWorker {
    published: Published,
    stop: StopFlag,
    is_busy: Arc<AtomicBool>,
    rows: Arc<Mutex<Option<PrefetchedRows>>>,
    cache_bytes: u64,
}

impl PrefetchWorker {
    fn run(&self) {
        self.warm_up();
        let mut prefetched = HashSet::new();
        while self.stop.sleep(PAUSE).is_ok() {
            let state = self.published.state();
            let is_useful = state.phase == SyncPhase::Following && state.mempool_in_sync && !self.is_busy();
            let Some(head) = self.published.head().filter(|_| is_useful) else {
                // they would only take memory
                *self.rows.lock() = None;
                continue;
            };
            let blocks = head.mempool.projected_blocks(1, Remainder::Left);
            if self.begin_rows(&head.chain) {
                prefetched.clear();
            }
            drop(head);
            let next: HashSet<_> = blocks.iter().flat_map(|block| block.sequences.iter().copied()).collect();
            prefetched.retain(|sequence| next.contains(sequence));
            let new: Vec<_> = next.into_iter().filter(|sequence| !prefetched.contains(sequence)).collect();
            for batch in new.chunks(BATCH) {
                // the newest snapshot, so that none is pinned for as long as a slow disk takes
                let Some(head) = self.published.head().filter(|_| !self.stop.is_raised()) else { break };
                match self.prefetch_entries(&head, batch) {
                    Ok(count) => prefetched.extend(batch.iter().take(count)),
                    Err(error) => {
                        // a later read of these pages reports the error
                        debug!(%error, "cannot prefetch from the index");
                        break;
                    }
                }
            }
        }
    }

    /// Fills the cache while it is empty; later the pages would evict those of queries. When a block arrives, this
    /// starts again with the newest snapshot, as the changed pages of the old one are not used again; the others are in
    /// the cache.
    fn warm_up(&self) {
        let began = Instant::now();
        let newest = || self.published.head().map(|head| Arc::clone(&head.chain));
        let mut chain = newest();
        while let Some(state) = chain {
            let was_interrupted = self.fill(&state, began);
            drop(state);
            while self.is_busy() && self.stop.sleep(LONGEST_REST).is_ok() {}
            let continues = was_interrupted && !self.stop.is_raised() && began.elapsed() < WARM_UP_LIMIT;
            chain = newest().filter(|_| continues);
        }
    }

    /// Fills the cache from one snapshot, with a rest after each step, until the time is over or blocks arrive. Returns
    /// whether blocks arrived. It runs on a thread that ends, because other threads do not reuse memory of a thread
    /// that continues, even after its pages are evicted.
    fn fill(&self, chain: &Snapshot, began: Instant) -> bool {
        let (mut rested, mut blocks_arrived) = (Instant::now(), false);
        let continues = || {
            let rest = (rested.elapsed() * REST).min(LONGEST_REST);
            blocks_arrived = blocks_arrived || self.is_busy();
            let continues = !blocks_arrived && self.stop.sleep(rest).is_ok() && began.elapsed() < WARM_UP_LIMIT;
            rested = Instant::now();
            continues
        };
        let read = thread::scope(|scope| {
            let warming = thread::Builder::new().name("warm-up".into());
            let warming = warming.spawn_scoped(scope, || chain.warm_up(self.cache_bytes, continues));
            warming.ok().and_then(|warming| warming.join().ok())
        });
        debug!(?read, blocks_arrived, took = ?began.elapsed(), "filled the cache");
        blocks_arrived
    }

    /// Begins with no rows unless those that are there can grow from this snapshot on. Returns whether it did.
    fn begin_rows(&self, chain: &Snapshot) -> bool {
        let mut rows = self.rows.lock();
        let begins = !rows.as_ref().is_some_and(|rows| rows.accepts(chain));
        if begins {
            *rows = Some(PrefetchedRows::on(chain));
        }
        begins
    }

    /// Reads what the index has for these transactions. Returns for how many it did before blocks arrived.
    fn prefetch_entries(&self, head: &Head, sequences: &[u64]) -> Result<usize, IndexError> {
        for (count, sequence) in sequences.iter().enumerate() {
            let mut rows = self.rows.lock();
            let Some(rows) = rows.as_mut().filter(|rows| !self.is_busy() && rows.accepts(&head.chain)) else {
                return Ok(count);
            };
            if let Some(entry) = head.mempool.by_sequence(*sequence) {
                prefetch_entry(head, entry, rows)?;
            }
        }
        Ok(sequences.len())
    }

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }
}

fn prefetch_entry(head: &Head, entry: &Entry, rows: &mut PrefetchedRows) -> Result<(), IndexError> {
    let spent = entry.inputs().map(|(input, prevout)| {
        let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
        (outpoint, Script::from_bytes(prevout.script_pubkey))
    });
    let paid = entry.outputs().map(|output| Script::from_bytes(output.script_pubkey));
    head.chain.prefetch(rows, &entry.txid, spent, paid)
}
