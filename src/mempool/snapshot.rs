//! One state of the mempool, and what can be asked of it.

use std::ops::{Range, RangeBounds};
use std::sync::{Arc, OnceLock};

use bitcoin::{OutPoint, Txid, Wtxid};

use super::arrivals::ArrivalRate;
use super::departed::Departed;
use super::entry::Entry;
use super::events::MempoolEvent;
use super::feerate::{FeeFraction, Rank};
use super::graph::Relatives;
use super::histogram::{FeeBin, FeeBins, FeerateKind};
use super::limits::NodeMempool;
use super::projection::{ProjectedBlock, ProjectedPlace, Projection, Remainder};
use super::scripts::ScriptTotals;
use super::state::{MempoolTotals, State};

/// One state of the mempool: immutable, and a pointer to clone. It keeps what it speaks of in memory.
#[derive(Clone, Default)]
pub struct MempoolSnapshot {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: State,
    projection: OnceLock<Projection>,
    /// Of the first [`NEAREST`] blocks, if nobody has asked for all.
    nearest: OnceLock<Projection>,
}

/// So many projected blocks are worked out alone where nothing behind them is asked for: of a full mempool they are a tenth.
const NEAREST: usize = 8;

impl MempoolSnapshot {
    pub(super) fn new(state: State) -> Self {
        Self { shared: Arc::new(Shared { state, projection: OnceLock::new(), nearest: OnceLock::new() }) }
    }

    /// Whether both are of one and the same state. Two that are not may still hold the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(super) fn state(&self) -> &State {
        &self.shared.state
    }

    fn projection(&self) -> &Projection {
        self.shared.projection.get_or_init(|| Projection::of(self.state()))
    }

    fn entry(&self, sequence: u64) -> Option<&Arc<Entry>> {
        self.state().entries.get(&sequence)
    }

    // One transaction ------------------------------------------------------------------------------------------------

    /// The transaction with this txid.
    #[must_use]
    pub fn get(&self, txid: &Txid) -> Option<&Arc<Entry>> {
        self.state().get(txid)
    }

    /// The transaction with this wtxid.
    #[must_use]
    pub fn by_wtxid(&self, wtxid: &Wtxid) -> Option<&Arc<Entry>> {
        self.state().get_by_wtxid(wtxid)
    }

    /// The transaction whose arrival had this number.
    #[must_use]
    pub fn by_sequence(&self, sequence: u64) -> Option<&Arc<Entry>> {
        self.entry(sequence)
    }

    /// The input that spends an output: its transaction, and its number in that.
    #[must_use]
    pub fn spender(&self, outpoint: &OutPoint) -> Option<(Txid, u32)> {
        self.state().spender(outpoint).map(|(entry, vin)| (entry.txid, vin))
    }

    /// The inputs that spend outputs of a transaction, which itself may be anywhere: (vout, transaction, vin) by vout.
    #[must_use]
    pub fn spenders(&self, txid: &Txid) -> Vec<(u32, &Arc<Entry>, u32)> {
        self.state().spenders(txid)
    }

    /// The transactions of the mempool that this one spends outputs of, each once, in the order of arrival.
    #[must_use]
    pub fn parents(&self, txid: &Txid) -> Vec<Arc<Entry>> {
        self.get(txid).map(|entry| self.state().parents_of(entry).into_values().collect()).unwrap_or_default()
    }

    /// The transactions of the mempool that spend outputs of this one, which itself may be anywhere; each once, in the
    /// order of arrival.
    #[must_use]
    pub fn children(&self, txid: &Txid) -> Vec<Arc<Entry>> {
        self.state().children_of(txid).into_values().collect()
    }

    /// All that a transaction stands on in the mempool, without itself.
    #[must_use]
    pub fn ancestors(&self, txid: &Txid) -> Relatives {
        self.get(txid).map(|entry| self.state().ancestors_of(entry).into()).unwrap_or_default()
    }

    /// All that stands on a transaction in the mempool, without itself.
    #[must_use]
    pub fn descendants(&self, txid: &Txid) -> Relatives {
        self.get(txid).map(|entry| self.state().descendants_of(entry).into()).unwrap_or_default()
    }

    /// What a transaction effectively offers: the feerate of the transactions that a miner takes together with it.
    #[must_use]
    pub fn effective_feerate(&self, txid: &Txid) -> Option<FeeFraction> {
        self.get(txid).map(|entry| self.state().effective_feerate(entry))
    }

    /// The transactions that a miner takes together with this one, itself included, each behind its ancestors.
    #[must_use]
    pub fn chunk(&self, txid: &Txid) -> Vec<Arc<Entry>> {
        let Some(entry) = self.get(txid) else { return Vec::new() };
        match self.state().chunks.get(&entry.sequence) {
            Some(chunk) => chunk.sequences.iter().filter_map(|sequence| self.entry(*sequence)).cloned().collect(),
            None => vec![Arc::clone(entry)],
        }
    }

    // All transactions -----------------------------------------------------------------------------------------------

    /// How many transactions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state().entries.is_empty()
    }

    /// What they add up to.
    #[must_use]
    pub fn totals(&self) -> MempoolTotals {
        self.state().totals
    }

    /// Those whose numbers of arrival are in a range, the oldest first.
    pub fn by_arrival(&self, range: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.state().entries.range(range).map(|(_, entry)| entry)
    }

    /// Those whose ranks by their own feerate are in a range, the highest first.
    pub fn by_feerate(
        &self,
        range: impl RangeBounds<Rank<FeeFraction>>,
    ) -> impl DoubleEndedIterator<Item = (Rank<FeeFraction>, &Arc<Entry>)> {
        let ranks = self.state().by_feerate.range(range);
        ranks.filter_map(|rank| Some((*rank, self.entry(rank.sequence)?)))
    }

    /// Those whose ranks by their effective feerate are in a range, the highest first.
    pub fn by_effective_feerate(
        &self,
        range: impl RangeBounds<Rank<FeeFraction>>,
    ) -> impl DoubleEndedIterator<Item = (Rank<FeeFraction>, &Arc<Entry>)> {
        let ranks = self.state().by_effective.range(range);
        ranks.filter_map(|(rank, _)| Some((*rank, self.entry(rank.sequence)?)))
    }

    /// Those whose ranks by the value of their outputs, in sat, are in a range, the highest first.
    pub fn by_value(
        &self,
        range: impl RangeBounds<Rank<u64>>,
    ) -> impl DoubleEndedIterator<Item = (Rank<u64>, &Arc<Entry>)> {
        let ranks = self.state().by_value.range(range);
        ranks.filter_map(|rank| Some((*rank, self.entry(rank.sequence)?)))
    }

    /// How much of the mempool pays how much, from the highest feerate down.
    #[must_use]
    pub fn fee_histogram(&self, kind: FeerateKind, bins: &FeeBins) -> Vec<FeeBin> {
        self.state().histogram(kind, bins)
    }

    /// How fast transactions arrived in the seconds up to `now`, in seconds since 1970.
    #[must_use]
    pub fn arrival_rate(&self, now: u64) -> ArrivalRate {
        self.state().arrivals.rate(now)
    }

    /// What the node says of its own mempool.
    #[must_use]
    pub fn node(&self) -> NodeMempool {
        self.state().node
    }

    // Scripts --------------------------------------------------------------------------------------------------------

    /// The transactions with an output or a spent output of a script, given by the SHA-256 of the scriptPubKey, that
    /// arrived before the one with number `before`; the newest first. `u64::MAX` for all.
    #[must_use]
    pub fn script(&self, script_hash: &[u8; 32], before: u64) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.script_arrivals(script_hash, 0..before).filter_map(|sequence| self.entry(sequence))
    }

    /// The numbers of arrival within a range of the transactions with an output or a spent output of a script, given by
    /// the SHA-256 of the scriptPubKey; the newest first.
    #[must_use]
    pub fn script_arrivals(
        &self,
        script_hash: &[u8; 32],
        within: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = u64> + use<'_> {
        self.state().scripts.sequences(script_hash, within)
    }

    /// What the mempool does to a script, given by the SHA-256 of the scriptPubKey. It is not added up when asked for,
    /// unless only one transaction touches the script.
    #[must_use]
    pub fn script_totals(&self, script_hash: &[u8; 32]) -> ScriptTotals {
        self.state().scripts.totals(script_hash, &self.state().entries)
    }

    // Blocks to come -------------------------------------------------------------------------------------------------

    /// The first `limit` blocks that miners would make of this state. Worked out when first asked for.
    #[must_use]
    pub fn projected_blocks(&self, limit: usize, remainder: Remainder) -> Vec<Arc<ProjectedBlock>> {
        if remainder == Remainder::Left && limit <= NEAREST && self.shared.projection.get().is_none() {
            let nearest = self.shared.nearest.get_or_init(|| Projection::of_first(self.state(), NEAREST));
            return nearest.blocks(limit, remainder);
        }
        self.projection().blocks(limit, remainder)
    }

    /// Works out all blocks that miners would make of this state now, rather than when they are first asked for.
    pub fn project(&self) {
        self.projection();
    }

    /// Where a transaction stands among the blocks that miners would make, of which there may be any number.
    #[must_use]
    pub fn projected_place(&self, txid: &Txid) -> Option<ProjectedPlace> {
        self.projection().place(self.get(txid)?.sequence)
    }

    // The past -------------------------------------------------------------------------------------------------------

    /// The number of the newest event, 0 before the first.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.state().events.sequence()
    }

    /// The events behind a number. `None` if some of them are forgotten, or if there has been no such number yet.
    #[must_use]
    pub fn events_after(&self, sequence: u64) -> Option<impl Iterator<Item = MempoolEvent>> {
        self.state().events.after(sequence)
    }

    /// A transaction that left without being mined, as long as it is remembered.
    #[must_use]
    pub fn departed(&self, txid: &Txid) -> Option<&Arc<Departed>> {
        self.state().journal.get(txid)
    }

    /// How many such transactions are remembered.
    #[must_use]
    pub fn departed_len(&self) -> usize {
        self.state().journal.len()
    }

    /// Those that left before the departure with number `before`, the newest first. `u64::MAX` for all.
    #[must_use]
    pub fn newest_departed(&self, before: u64) -> impl DoubleEndedIterator<Item = &Arc<Departed>> {
        self.state().journal.newest(before)
    }

    /// From which number of departure on transactions are remembered whole; of earlier ones only the figures are.
    #[must_use]
    pub fn departed_whole_from(&self) -> u64 {
        self.state().journal.whole_from()
    }

    /// What a transaction replaced by spending the same output, in the order of departure; not what stood on that.
    #[must_use]
    pub fn replaces(&self, txid: &Txid) -> impl DoubleEndedIterator<Item = &Arc<Departed>> {
        self.state().journal.replaced(txid)
    }

    /// The transaction that replaced this one.
    #[must_use]
    pub fn replaced_by(&self, txid: &Txid) -> Option<Txid> {
        self.departed(txid)?.replaced_by()
    }

    /// The transactions that replaced others, wherever they are now, whether they were replaced themselves or not; each
    /// with the number of the first departure that it caused, the newest first, and only numbers below `before`.
    /// `u64::MAX` for all. [`replaces`](Self::replaces) leads from each to what it replaced.
    #[must_use]
    pub fn replacing(&self, before: u64) -> impl DoubleEndedIterator<Item = (u64, Txid)> {
        self.state().journal.replacing(before)
    }
}
