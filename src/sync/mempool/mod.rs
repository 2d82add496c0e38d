//! Keeps the mempool equal to the node's.
//!
//! ```text
//!   list of the node's mempool ── difference ──┐                     ┌── leaving ──────────────► remove
//!   signals: came, went ───────────────────────┼─► wanted ─► raw ────┤
//!   blocks that left, blocks that joined ──────┘              prevouts.rs ──► add (replaces what it conflicts with)
//!            chain_change.rs
//! ```
//!
//! The node decides what is in its mempool, and signals say what changes. Whenever one may have been lost, and every so
//! often, the whole list is asked for and the difference made up. Transactions that spend what is not known yet wait for
//! it. All of this is in memory; what a failure leaves undone is done at the next turn.

mod chain_change;
mod incoming;
mod prevouts;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use bitcoin::Txid;
use tracing::{debug, info};

use super::error::SyncError;
use crate::chain::Height;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{Cause, Departure, Mempool, MempoolSnapshot, NodeMempool};
use crate::node::{MempoolInfo, Node, NodeSignal};
use incoming::{Incoming, Outcome};

pub(super) use chain_change::Joined;

/// The whole list is asked for this often while signals come.
const RECONCILE: Duration = Duration::from_secs(30);
/// The list is asked for again so long after signals were lost.
const SOON: Duration = Duration::from_secs(1);
/// What the node says of its own mempool is asked for this often.
const INFO: Duration = Duration::from_secs(5);
/// Transactions asked of the node in one turn, after which blocks are looked for again.
const TURN: usize = 2_000;
/// What goes may be going for what comes, and the signals of both may come in two turns: this long it is waited for.
const HOLD: Duration = Duration::from_millis(15);
/// After this time a transaction that goes without a sign of why is taken to have waited too long (Core's default of
/// `-mempoolexpiry`).
const EXPIRY: Duration = Duration::from_hours(336);
/// A log line this often while many transactions are loaded.
const LINE: Duration = Duration::from_secs(10);

/// The mempool on its way to be the node's.
pub(super) struct Unconfirmed<'a> {
    mempool: &'a mut Mempool,
    /// How often the list is asked for while no signals come.
    poll: Duration,
    /// When the list was asked for; `None` if it has to be asked for next.
    listed: Option<Instant>,
    /// Whether signals were lost since: what happened right before they came again may be in neither, so that the list
    /// is asked for once more soon after.
    lost: bool,
    /// Numbers below this are of what the last list knew already.
    listed_up_to: u64,
    /// Whether a list was made up for since the start, or since the node was away.
    caught_up: bool,
    /// Transactions of the node that are to be asked for.
    wanted: VecDeque<(Txid, Cause)>,
    /// Transactions that spend outputs of the one they stand under, which is not known yet.
    waiting: HashMap<Txid, Vec<Incoming>>,
    /// Transactions that are no longer in the node's mempool, and since when that is known.
    leaving: Vec<(Txid, Instant)>,
    /// When the node was last asked about its own mempool.
    asked: Option<Instant>,
    load: Option<Load>,
}

/// The first list, which may be long.
struct Load {
    total: usize,
    started: Instant,
    last_line: Instant,
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
    pub(super) fn new(mempool: &'a mut Mempool, poll: Duration) -> Self {
        Self {
            mempool,
            poll,
            listed: None,
            lost: false,
            listed_up_to: 0,
            caught_up: false,
            wanted: VecDeque::new(),
            waiting: HashMap::new(),
            leaving: Vec::new(),
            asked: None,
            load: None,
        }
    }

    /// The mempool as it is.
    pub(super) fn snapshot(&mut self) -> MempoolSnapshot {
        self.mempool.snapshot()
    }

    /// Whether there is anything that a block could concern.
    pub(super) fn holds_any(&self) -> bool {
        !(self.mempool.is_empty() && self.waiting.is_empty())
    }

    /// Whether it was once equal to the node's, and followed since.
    pub(super) fn is_caught_up(&self) -> bool {
        self.caught_up
    }

    /// The node is away, or something that it told may have been missed: the list is asked for next.
    pub(super) fn doubt(&mut self) {
        self.listed = None;
    }

    /// The node was away, or on another chain.
    pub(super) fn lose_touch(&mut self) {
        self.caught_up = false;
        self.doubt();
    }

    /// Goes a step towards the node's mempool. `chain` is the chain that the mempool stands on, `told` whether signals
    /// come at this time.
    ///
    /// Errors: the node's, after which the next turn begins with a list; the index's.
    pub(super) fn turn(
        &mut self,
        node: &Node,
        chain: &Snapshot,
        signals: Vec<NodeSignal>,
        told: bool,
    ) -> Result<Turn, SyncError> {
        self.hear(signals);
        let turned = self.try_turn(node, chain, if told { RECONCILE } else { self.poll });
        if turned.is_err() {
            self.doubt();
        }
        turned
    }

    fn try_turn(&mut self, node: &Node, chain: &Snapshot, good_for: Duration) -> Result<Turn, SyncError> {
        if self.listed.is_none_or(|listed| listed.elapsed() >= good_for) && !self.list(node, chain)? {
            return Ok(Turn::Elsewhere);
        }
        if self.asked.is_none_or(|asked| asked.elapsed() >= INFO) {
            self.ask_about_it(node)?;
        }
        let height = chain.tip().map_or(Height::GENESIS, |tip| tip.height);
        let now = now();
        let wanted: Vec<_> = self.wanted.drain(..self.wanted.len().min(TURN)).collect();
        for incoming in Incoming::fetch(node, wanted, now)? {
            self.take_in(chain, height, incoming, now)?;
        }
        self.say_how_far();
        if !self.wanted.is_empty() {
            return Ok(Turn::Unfinished);
        }
        if self.let_go(now) {
            return Ok(Turn::Held);
        }
        if !self.caught_up {
            self.caught_up = true;
            info!(transactions = self.mempool.len(), waiting = self.waiting.len(), "the mempool is the node's");
        }
        Ok(Turn::Settled)
    }

    /// Notes what comes and what goes.
    fn hear(&mut self, signals: Vec<NodeSignal>) {
        for signal in signals {
            match signal {
                NodeSignal::Added { txid, mempool_sequence } if mempool_sequence >= self.listed_up_to => {
                    self.leaving.retain(|(leaving, _)| *leaving != txid);
                    if self.mempool.get(&txid).is_none() {
                        self.wanted.push_back((txid, Cause::New));
                    }
                }
                NodeSignal::Removed { txid, mempool_sequence } if mempool_sequence >= self.listed_up_to => {
                    self.wanted.retain(|(wanted, _)| *wanted != txid);
                    self.forget_waiting(&txid);
                    if self.mempool.get(&txid).is_some() {
                        self.leaving.push((txid, Instant::now()));
                    }
                }
                NodeSignal::Lost => {
                    self.lost = true;
                    self.doubt();
                }
                // the loop above looks for blocks itself
                _ => {}
            }
        }
    }

    fn forget_waiting(&mut self, txid: &Txid) {
        self.waiting.retain(|_, waiting| {
            waiting.retain(|incoming| incoming.txid != *txid);
            !waiting.is_empty()
        });
    }

    /// Asks for the whole list and notes the difference. False if the node stands on another block by now: what is not
    /// in its list may be in that block, and what stands on it must not leave with it.
    fn list(&mut self, node: &Node, chain: &Snapshot) -> Result<bool, SyncError> {
        let (listed, sequence) = node.mempool_txids()?;
        let stands_on = node.chain_info()?.best_block_hash;
        if chain.tip().is_none_or(|tip| tip.hash != stands_on) {
            return Ok(false);
        }
        let there: HashSet<_> = listed.iter().collect();
        let now = Instant::now();
        // what is gone since the list before did so long ago
        let gone = self.mempool.snapshot();
        let gone = gone.by_arrival(..).map(|entry| entry.txid).filter(|txid| !there.contains(txid));
        self.leaving = gone.map(|txid| (txid, now.checked_sub(HOLD).unwrap_or(now))).collect();
        let cause = if self.caught_up { Cause::New } else { Cause::Loaded };
        self.wanted =
            listed.iter().filter(|txid| self.mempool.get(txid).is_none()).map(|txid| (*txid, cause)).collect();
        self.waiting.clear();
        self.listed_up_to = sequence;
        self.listed = Some(if std::mem::take(&mut self.lost) {
            now.checked_sub(RECONCILE.saturating_sub(SOON)).unwrap_or(now)
        } else {
            now
        });
        debug!(listed = listed.len(), wanted = self.wanted.len(), leaving = self.leaving.len(), "listed the mempool");
        if self.wanted.len() > TURN {
            self.load = Some(Load { total: self.wanted.len(), started: now, last_line: now });
        }
        Ok(true)
    }

    fn ask_about_it(&mut self, node: &Node) -> Result<(), SyncError> {
        let info = node.mempool_info()?;
        self.asked = Some(Instant::now());
        let said = said_by(&info);
        if self.mempool.snapshot().node() != said {
            self.mempool.set_node(said);
        }
        Ok(())
    }

    /// Adds a transaction, and what waited for it.
    fn take_in(&mut self, chain: &Snapshot, height: Height, incoming: Incoming, now: u64) -> Result<(), IndexError> {
        let mut next = vec![incoming];
        while let Some(incoming) = next.pop() {
            let txid = incoming.txid;
            match incoming.add(self.mempool, chain, height, now)? {
                Outcome::Added => next.extend(self.waiting.remove(&txid).unwrap_or_default()),
                Outcome::Known => {}
                Outcome::WaitsFor(parent) => self.waiting.entry(parent).or_default().push(incoming),
            }
        }
        Ok(())
    }

    /// Removes what left the node's mempool. True if some of it is kept for a moment, for what it may have left for.
    fn let_go(&mut self, now: u64) -> bool {
        let full = self.mempool.snapshot().node();
        let full = full.min_fee_rate > full.min_relay_fee_rate;
        let (leaving, held): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.leaving).into_iter().partition(|(_, since)| since.elapsed() >= HOLD);
        for (txid, _) in leaving {
            let Some(entry) = self.mempool.get(&txid) else { continue };
            let departure = if now.saturating_sub(entry.first_seen) >= EXPIRY.as_secs() {
                Departure::Expired
            } else if full {
                Departure::Evicted
            } else {
                Departure::Unknown
            };
            self.mempool.remove(&txid, departure, now);
        }
        self.leaving = held;
        !self.leaving.is_empty()
    }

    fn say_how_far(&mut self) {
        let Some(load) = &mut self.load else { return };
        let done = load.total.saturating_sub(self.wanted.len());
        if self.wanted.is_empty() {
            let seconds = load.started.elapsed().as_secs_f64();
            info!(transactions = done, seconds = format_args!("{seconds:.1}"), "loaded the mempool");
            self.load = None;
        } else if load.last_line.elapsed() >= LINE {
            load.last_line = Instant::now();
            info!(transactions = done, of = load.total, "loading the mempool");
        }
    }
}

/// What the node says of its own mempool, in this server's units.
fn said_by(info: &MempoolInfo) -> NodeMempool {
    NodeMempool {
        min_fee_rate: info.min_fee.to_sat_per_vb(),
        min_relay_fee_rate: info.min_relay.to_sat_per_vb(),
        incremental_fee_rate: info.incremental.to_sat_per_vb(),
        max_memory: info.max_usage,
        memory_usage: info.usage,
        loaded: info.loaded,
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
