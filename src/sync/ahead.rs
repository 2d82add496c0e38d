//! Reads ahead what the next block will change, as far as the mempool tells.
//!
//! A thread of its own looks every few seconds at the block that miners would make now, and reads the pages of the index
//! that belong to what is new in it. When the block comes, they are in memory, and the thread stands back.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bitcoin::{OutPoint, Script};
use tracing::debug;

use crate::index::IndexError;
use crate::mempool::{Entry, Remainder};
use crate::node::StopFlag;
use crate::view::{Head, Published, SyncPhase};

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(5);
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
    pub(super) fn start(published: &Published) -> Self {
        let (stop, is_busy) = (StopFlag::new(), Arc::default());
        let reader = Reader { published: published.clone(), stop: stop.clone(), is_busy: Arc::clone(&is_busy) };
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
}

impl Reader {
    fn read_on(&self) {
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
        (outpoint, Script::from_bytes(&prevout.script_pubkey))
    });
    let paid = entry.outputs().map(|output| Script::from_bytes(output.script_pubkey));
    head.chain.read_ahead(&entry.txid, spent, paid)
}
