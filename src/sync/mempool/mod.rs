//! Keeps the mempool equal to the node's.
//!
//! ```text
//!   list of the node's mempool ── difference ──┬─► leaving ─► leaving.rs, why ──► remove
//!            list.rs                           │
//!   signals: came, went ───────────────────────┼─► wanted ──► incoming.rs, prevouts.rs ──► add (replaces what it
//!                                              │                │ parent unknown            conflicts with)
//!   blocks that left, blocks that joined ──────┘                └─► waiting.rs ─► missed.rs, in the end
//!            chain_change.rs
//!
//!   index ── start ──► memory.rs ──► add             every so often, and at the end ──► memory.rs ──► index
//! ```
//!
//! The node decides what is in its mempool, and signals say what changes. Whenever one may have been lost, and every so
//! often, the whole list is asked for and the difference made up. Transactions that spend what is not known yet wait for
//! it. What a failure leaves undone is done at the next turn.
//!
//! The list has txids only. A transaction that leaves and comes again with another witness, and so with the same txid, is
//! noticed by the signals of both; while signals are lost or not sent it is not, and stands here with its first witness
//! until it leaves.

mod chain_change;
mod conflicts;
mod first_seen;
mod incoming;
mod leaving;
mod list;
mod load;
mod lock_times;
mod memory;
mod missed;
mod prevouts;
mod queue;
#[cfg(test)]
pub(super) mod tests;
mod waiting;

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use bitcoin::Txid;
use tracing::info;

use super::error::SyncError;
use crate::chain::Height;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{Cause, Departure, Mempool, MempoolSnapshot};
use crate::node::{Node, NodeSignal, ReceivedSignal};
use incoming::{Incoming, Outcome, Wanted};
use leaving::{Reorged, departures};
use list::Listed;
use load::Load;
pub use memory::KeptMempool;
use memory::Memory;
use missed::Missed;
use queue::Queue;
use waiting::Waiting;

pub(super) use first_seen::Seen;

/// What the node says of its own mempool is asked for this often.
const INFO: Duration = Duration::from_secs(5);
/// Transactions asked of the node in one turn, after which they are published and blocks are looked for again.
const TURN: usize = 2_000;
/// The same, by what they take in bytes.
const TURN_BYTES: usize = 16 << 20;
/// As many of them are asked for at once.
const AT_ONCE: usize = 100;
/// While the node gives nothing, so many are remembered at most as told by signals; the list has them too.
const WANTED: usize = 500_000;
/// What goes may be going for what comes, and the signals of both may come in two turns: this long it is waited for. What
/// comes later corrects why the other went.
const HOLD: Duration = Duration::from_millis(15);

/// The mempool on its way to be the node's.
pub(super) struct Unconfirmed<'a> {
    mempool: &'a mut Mempool,
    /// How often the list is asked for while no signals come.
    poll: Duration,
    /// The last list; `None` if it has to be asked for next.
    listed: Option<Listed>,
    /// Whether signals were lost since: what happened right before they came again may be in neither, so that the list
    /// is asked for once more soon after.
    lost: bool,
    /// Numbers below this are of what the last list knew already.
    listed_up_to: u64,
    nearness: Nearness,
    /// Whether the node has read all that it had in its mempool before it was started.
    is_read: bool,
    /// Transactions of the node that are to be asked for.
    wanted: Queue<Wanted>,
    /// So many of them are remembered at most while the node gives nothing.
    most_wanted: usize,
    /// Transactions that spend outputs of one that is not known yet.
    waiting: Waiting,
    /// Transactions of the node that cannot be made sense of.
    missed: Missed,
    /// The reorganisation that was followed last.
    reorged: Option<Reorged>,
    /// Transactions that are no longer in the node's mempool, and since when that is known where it was told just now.
    leaving: Queue<Option<Instant>>,
    /// When transactions of blocks that left were first seen, until it is known what became of them.
    freed: &'a mut HashMap<Txid, u64>,
    /// When the node last told about its own mempool.
    asked: Option<Instant>,
    /// The list that is on its way in, if it is long.
    load: Option<Load>,
    /// What of it is written down.
    memory: &'a mut Memory,
}

/// How near the mempool is to the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nearness {
    /// No list was made up for since the start, or since the node was away.
    Behind,
    /// One was, and signals were lost since.
    WithGaps,
    /// One was, and nothing was lost since.
    InSync,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Everything that is known of is done.
    Settled,
    /// There is more to do at once.
    Unfinished,
    /// There is more to do in a few milliseconds.
    Held,
    /// The node's chain is not the one that the mempool stands on.
    Elsewhere,
}

impl<'a> Unconfirmed<'a> {
    /// `poll` is how often the list is asked for while no signals come.
    pub(super) fn new(kept: &'a mut KeptMempool, poll: Duration) -> Self {
        Self {
            mempool: &mut kept.mempool,
            poll,
            listed: None,
            lost: false,
            listed_up_to: 0,
            nearness: Nearness::Behind,
            is_read: true,
            wanted: Queue::default(),
            most_wanted: WANTED,
            waiting: Waiting::default(),
            missed: Missed::default(),
            reorged: None,
            leaving: Queue::default(),
            freed: &mut kept.freed,
            asked: None,
            load: None,
            memory: &mut kept.memory,
        }
    }

    /// The mempool as it is.
    pub(super) fn snapshot(&mut self) -> MempoolSnapshot {
        self.mempool.snapshot()
    }

    /// Whether there is anything that a block could concern.
    ///
    /// Also while the mempool is empty: when a transaction was first seen may be known of one that is on its way, that left,
    /// or that a block held which left.
    pub(super) fn holds_any(&self) -> bool {
        let is_on_its_way = !(self.wanted.is_empty() && self.waiting.is_empty());
        !self.mempool.is_empty() || is_on_its_way || !self.freed.is_empty() || self.mempool.has_departed()
    }

    /// Whether it was once equal to the node's, and followed since without a gap.
    pub(super) fn is_in_sync(&self) -> bool {
        self.nearness == Nearness::InSync
    }

    /// Without signals, the mempool may be another by now.
    pub(super) fn look_anew(&mut self) {
        if let Some(listed) = &mut self.listed {
            listed.doubt();
        }
    }

    /// Something that the node told may have been missed: the list is asked for next.
    pub(super) fn doubt(&mut self) {
        self.listed = None;
    }

    /// The node was away, or what it says of its mempool cannot be used.
    pub(super) fn lose_touch(&mut self) {
        self.nearness = Nearness::Behind;
        if self.wanted.len() > self.most_wanted {
            self.wanted.clear();
        }
        self.doubt();
    }

    /// Goes a step towards the node's mempool. `chain` is the chain that the mempool stands on, `told` whether signals
    /// come at this time; of these there are all up to the moment `heard`.
    ///
    /// Errors: the node's, after which there will be a list; the index's.
    pub(super) fn turn(
        &mut self,
        node: &Node,
        chain: &Snapshot,
        signals: Vec<ReceivedSignal>,
        heard: Instant,
        told: bool,
    ) -> Result<Turn, SyncError> {
        self.hear(signals);
        let turned = self.try_turn(node, chain, heard, told);
        if turned.is_err() {
            self.doubt();
        }
        turned
    }

    fn try_turn(&mut self, node: &Node, chain: &Snapshot, heard: Instant, told: bool) -> Result<Turn, SyncError> {
        let now = now();
        self.fetch(node, chain, now)?;
        // a list says nothing new of what is on its way
        if self.wanted.is_empty() && self.is_list_due(told) && !self.list(node, chain)? {
            return Ok(Turn::Elsewhere);
        }
        if !self.wanted.is_empty() {
            return Ok(Turn::Unfinished);
        }
        if self.asked.is_none_or(|asked| asked.elapsed() >= INFO) {
            self.note_info(&node.mempool_info()?);
            if !self.is_read {
                // it was started anew since the last list
                self.doubt();
                return Ok(Turn::Unfinished);
            }
        }
        let left = self.let_go(node, chain, heard, now)?;
        if left != Turn::Settled {
            return Ok(left);
        }
        if !self.is_read {
            return Ok(Turn::Settled);
        }
        if self.nearness == Nearness::Behind {
            info!(transactions = self.mempool.len(), waiting = self.waiting.len(), "the mempool is the node's");
        }
        self.nearness = Nearness::InSync;
        if let Some(reorged) = &mut self.reorged {
            reorged.is_guessed = false;
        }
        Ok(Turn::Settled)
    }

    /// Notes what comes and what goes.
    fn hear(&mut self, signals: Vec<ReceivedSignal>) {
        let cause = if self.is_read { Cause::New } else { Cause::Loaded };
        for ReceivedSignal { signal, at } in signals {
            match signal {
                NodeSignal::Added { txid, mempool_sequence } if mempool_sequence >= self.listed_up_to => {
                    // what goes and comes at once may come with another witness
                    let is_back = self.leaving.remove(&txid).is_some();
                    self.missed.forgive(&txid);
                    if is_back || (self.mempool.get(&txid).is_none() && !self.waiting.contains(&txid)) {
                        self.wanted.push(txid, Wanted { cause, heard: seconds(at) });
                    }
                }
                NodeSignal::Removed { txid, mempool_sequence } if mempool_sequence >= self.listed_up_to => {
                    self.wanted.remove(&txid);
                    self.waiting.remove(&txid);
                    self.missed.forgive(&txid);
                    if self.mempool.get(&txid).is_some() {
                        self.leaving.push(txid, Some(Instant::now()));
                    }
                }
                NodeSignal::Lost => {
                    self.lost = true;
                    if self.nearness == Nearness::InSync {
                        self.nearness = Nearness::WithGaps;
                    }
                    self.doubt();
                }
                // the loop above looks for blocks itself
                _ => {}
            }
        }
    }

    /// Asks for what is wanted, as much of it as is published at once, and takes it in.
    fn fetch(&mut self, node: &Node, chain: &Snapshot, now: u64) -> Result<(), SyncError> {
        let height = chain.tip().map_or(Height::GENESIS, |tip| tip.height);
        let (mut asked, mut bytes) = (0, 0_usize);
        while !self.wanted.is_empty() && asked < TURN && bytes < TURN_BYTES && !node.stop().is_raised() {
            let wanted = self.wanted.take_first(AT_ONCE);
            asked += wanted.len();
            let txids: Vec<_> = wanted.iter().map(|(txid, _)| *txid).collect();
            let fetched = Incoming::fetch(node, wanted.clone()).inspect_err(|_| {
                // when they were heard of is known nowhere else
                for (txid, note) in wanted {
                    self.wanted.push(txid, note);
                }
            })?;
            for mut incoming in fetched {
                bytes = bytes.saturating_add(incoming.size());
                if let Some(earlier) = self.freed.get(&incoming.txid) {
                    incoming.first_seen = incoming.first_seen.min(*earlier);
                }
                self.take_in(chain, height, incoming, now)?;
            }
            for txid in txids.into_iter().filter(|txid| self.mempool.get(txid).is_none()) {
                self.missed.note(txid);
            }
        }
        self.load = self.load.take().and_then(|load| load.left(self.wanted.len()));
        Ok(())
    }

    /// Adds a transaction, and what waited for it.
    fn take_in(&mut self, chain: &Snapshot, height: Height, incoming: Incoming, now: u64) -> Result<(), IndexError> {
        let mut next = vec![incoming];
        while let Some(incoming) = next.pop() {
            let txid = incoming.txid;
            if self.mempool.get(&txid).is_some_and(|entry| entry.wtxid != incoming.wtxid) {
                self.mempool.remove(&txid, Departure::Unknown, now);
                // what stood on it left with it, and may be there in the node's
                self.doubt();
            }
            match incoming.add(self.mempool, chain, height, now)? {
                Outcome::Added => next.extend(self.waiting.take(&txid)),
                // one that is refused counts as missed
                Outcome::Known | Outcome::Refused => {}
                Outcome::WaitsFor(parent) => self.waiting.push(parent, incoming),
            }
        }
        Ok(())
    }

    /// Removes what left the node's mempool, but for what was told just now, for what it may have left for. Nothing leaves
    /// while the node stands on another block: what it holds tells why.
    fn let_go(&mut self, node: &Node, chain: &Snapshot, heard: Instant, now: u64) -> Result<Turn, SyncError> {
        let is_due = |since: &Option<Instant>| since.is_none_or(|since| heard.saturating_duration_since(since) >= HOLD);
        let due: Vec<Txid> = self.leaving.iter().filter(|(_, since)| is_due(since)).map(|(txid, _)| *txid).collect();
        if !due.is_empty() {
            let standing = node.mempool_status()?;
            if chain.tip().is_none_or(|tip| tip.hash != standing.tip) {
                return Ok(Turn::Elsewhere);
            }
            self.note_info(&standing.info);
            if !standing.info.loaded {
                // it was started anew, and what it will read is not known yet
                self.leaving.clear();
                self.lose_touch();
                return Ok(Turn::Unfinished);
            }
            for (txid, departure) in departures(&self.mempool.snapshot(), &due, now, chain, self.reorged.as_ref())? {
                self.mempool.remove(&txid, departure, now);
            }
            for txid in &due {
                self.leaving.remove(txid);
            }
        }
        Ok(if self.leaving.is_empty() { Turn::Settled } else { Turn::Held })
    }
}

/// Seconds since 1970.
fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since 1970, until now.
pub(super) fn now() -> u64 {
    seconds(SystemTime::now())
}
