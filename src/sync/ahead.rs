//! Reads ahead what the next block will change, as far as the mempool tells.
//!
//! A thread of its own looks every few seconds at the block that miners would make now, and reads the pages of the index
//! that belong to what is new in it. When the block comes, they are in memory.

use std::collections::HashSet;
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
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Begins, with the newest state that is published. Without a thread blocks are only slower.
    pub(super) fn start(published: &Published) -> Self {
        let (stop, published) = (StopFlag::new(), published.clone());
        let flag = stop.clone();
        let thread = thread::Builder::new().name("read-ahead".into()).spawn(move || read_on(&published, &flag));
        Self { stop, thread: thread.ok() }
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

fn read_on(published: &Published, stop: &StopFlag) {
    let mut read = HashSet::new();
    while stop.sleep(PAUSE).is_ok() {
        let state = published.state();
        let is_useful = state.phase == SyncPhase::Following && state.mempool_in_sync;
        let Some(head) = published.head().filter(|_| is_useful) else { continue };
        let blocks = head.mempool.projected_blocks(1, Remainder::Left);
        drop(head);
        let next: Vec<_> = blocks.iter().flat_map(|block| block.sequences.iter().copied()).collect();
        let new: Vec<_> = next.iter().filter(|sequence| !read.contains(*sequence)).copied().collect();
        for some in new.chunks(AT_ONCE) {
            // the newest, so that none is kept for as long as a slow disk takes
            let Some(head) = published.head().filter(|_| !stop.is_raised()) else { break };
            if let Err(error) = read_entries(&head, some) {
                // whoever needs the pages will say so
                debug!(%error, "the index could not be read ahead");
                break;
            }
        }
        read = next.into_iter().collect();
    }
}

fn read_entries(head: &Head, sequences: &[u64]) -> Result<(), IndexError> {
    let mut entries = sequences.iter().filter_map(|sequence| head.mempool.by_sequence(*sequence));
    entries.try_for_each(|entry| read_entry(head, entry))
}

fn read_entry(head: &Head, entry: &Entry) -> Result<(), IndexError> {
    let spent = entry.inputs().map(|(input, prevout)| {
        let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
        (outpoint, Script::from_bytes(&prevout.script_pubkey))
    });
    let paid = entry.outputs().map(|output| Script::from_bytes(output.script_pubkey));
    head.chain.read_ahead(&entry.txid, spent, paid)
}
