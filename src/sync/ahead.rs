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
const WARMING: Duration = Duration::from_secs(20);
/// and a rest within it no longer than this.
const LONGEST_REST: Duration = Duration::from_millis(50);
/// Transactions that are read from one state.
const AT_ONCE: usize = 200;

/// The thread. Dropping it ends it.
pub(super) struct ReadAhead {
    stop: StopFlag,
    /// Whether blocks come just now, which need the processors more.
    is_busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Keeps the thread from reading for as long as it is there.
pub(super) struct StandBack(Arc<AtomicBool>);

impl Drop for StandBack {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl ReadAhead {
    /// Begins, with the newest state that is published. Without a thread blocks are only slower.
    ///
    /// `cache_bytes` is what the index keeps of its pages in memory at most.
    pub(super) fn start(published: &Published, cache_bytes: u64) -> Self {
        let (stop, is_busy) = (StopFlag::new(), Arc::default());
        let (published, is_busy_too) = (published.clone(), Arc::clone(&is_busy));
        let reader = Reader { published, stop: stop.clone(), is_busy: is_busy_too, cache_bytes };
        let thread = thread::Builder::new().name("read-ahead".into()).spawn(move || reader.read_on());
        Self { stop, is_busy, thread: thread.ok() }
    }

    /// Lets blocks have the processors.
    pub(super) fn stand_back(&self) -> StandBack {
        self.is_busy.store(true, Ordering::Relaxed);
        StandBack(Arc::clone(&self.is_busy))
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // it ends by itself; whether it failed matters to nobody
            let _ = thread.join();
        }
    }
}

/// The thread's share.
struct Reader {
    published: Published,
    stop: StopFlag,
    is_busy: Arc<AtomicBool>,
    cache_bytes: u64,
}

impl Reader {
    fn read_on(&self) {
        // as long as nobody has filled it: later it would only take the place of what was asked for
        let chain = self.published.head().map(|head| Arc::clone(&head.chain));
        if let Some(chain) = chain {
            self.warm_up(&chain);
        }
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
            for some in new.chunks(AT_ONCE) {
                // the newest, so that none is kept for as long as a slow disk takes
                let Some(head) = self.published.head().filter(|_| !self.stop.is_raised()) else { break };
                match self.read_entries(&head, some) {
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

    /// Fills the cache, with a pause after each step as long as it took, and while blocks come. On a thread of its own that
    /// ends: the memory of one that goes on is not used by others, even when the pages in it have given way.
    fn warm_up(&self, chain: &Snapshot) {
        let began = Instant::now();
        let mut rested = began;
        let goes_on = move || {
            let mut rest = rested.elapsed().min(LONGEST_REST);
            while self.stop.sleep(rest).is_ok() && began.elapsed() < WARMING {
                if !self.is_busy() {
                    rested = Instant::now();
                    return true;
                }
                rest = LONGEST_REST;
            }
            false
        };
        let read = thread::scope(|scope| {
            let warming = thread::Builder::new().name("warm-up".into());
            let warming = warming.spawn_scoped(scope, move || chain.warm_up(self.cache_bytes, goes_on));
            warming.ok().and_then(|warming| warming.join().ok())
        });
        debug!(?read, took = ?began.elapsed(), "filled the cache");
    }

    /// How many it came to read.
    fn read_entries(&self, head: &Head, sequences: &[u64]) -> Result<usize, IndexError> {
        for (count, sequence) in sequences.iter().enumerate() {
            if self.is_busy() {
                return Ok(count);
            }
            if let Some(entry) = head.mempool.by_sequence(*sequence) {
                read_entry(head, entry)?;
            }
        }
        Ok(sequences.len())
    }

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }
}

fn read_entry(head: &Head, entry: &Entry) -> Result<(), IndexError> {
    let spent = entry.inputs().map(|(input, prevout)| {
        let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
        (outpoint, Script::from_bytes(prevout.script_pubkey))
    });
    let paid = entry.outputs().map(|output| Script::from_bytes(output.script_pubkey));
    head.chain.read_ahead(&entry.txid, spent, paid)
}
