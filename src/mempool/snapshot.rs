//! One state of the mempool, and the queries on it.

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
use super::state::{MempoolState, MempoolTotals};

/// One immutable state of the mempool; a clone copies a pointer. Its transactions stay in memory as long as it does.
#[derive(Clone, Default)]
pub struct MempoolSnapshot {
    data: Arc<SnapshotData>,
}

#[derive(Default)]
struct SnapshotData {
    state: MempoolState,
    projection: OnceLock<Projection>,
    /// The projection of the first [`NEAREST`] blocks, computed while no query needs all.
    nearest: OnceLock<Projection>,
}

/// The number of blocks that are projected alone when no later one is requested: a tenth of a full mempool.
const NEAREST: usize = 8;

impl MempoolSnapshot {
    pub(super) fn new(state: MempoolState) -> Self {
        Self { data: Arc::new(SnapshotData { state, projection: OnceLock::new(), nearest: OnceLock::new() }) }
    }

    /// Whether both are the same snapshot. Different snapshots may still have equal content.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.data, &other.data)
    }

    pub(super) fn state(&self) -> &MempoolState {
        &self.data.state
    }

    fn projection(&self) -> &Projection {
        self.data.projection.get_or_init(|| Projection::of(self.state()))
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

    /// The input that spends an output: its transaction and its index there.
    #[must_use]
    pub fn spender(&self, outpoint: &OutPoint) -> Option<(Txid, u32)> {
        self.state().spender(outpoint).map(|(entry, vin)| (entry.txid, vin))
    }

    /// The inputs that spend outputs of a transaction, which may be outside the mempool: (vout, transaction, vin) by vout.
    #[must_use]
    pub fn spenders(&self, txid: &Txid) -> Vec<(u32, &Arc<Entry>, u32)> {
        self.state().spenders(txid)
    }

    /// The parents of a transaction in the mempool, each once, in the order of arrival.
    #[must_use]
    pub fn parents(&self, txid: &Txid) -> Vec<Arc<Entry>> {
        self.get(txid).map(|entry| self.state().parents_of(entry).into_values().collect()).unwrap_or_default()
    }

    /// The children in the mempool of a transaction, which may be outside it; each once, in the order of arrival.
    #[must_use]
    pub fn children(&self, txid: &Txid) -> Vec<Arc<Entry>> {
        self.state().children_of(txid).into_values().collect()
    }

    /// The ancestors of a transaction in the mempool.
    #[must_use]
    pub fn ancestors(&self, txid: &Txid) -> Relatives {
        self.get(txid).map(|entry| self.state().ancestors_of(entry).into()).unwrap_or_default()
    }

    /// The descendants of a transaction in the mempool.
    #[must_use]
    pub fn descendants(&self, txid: &Txid) -> Relatives {
        self.get(txid).map(|entry| self.state().descendants_of(entry).into()).unwrap_or_default()
    }

    /// The effective feerate of a transaction: that of the chunk that a miner includes it with.
    #[must_use]
    pub fn effective_feerate(&self, txid: &Txid) -> Option<FeeFraction> {
        self.get(txid).map(|entry| self.state().effective_feerate(entry))
    }

    /// The chunk of a transaction: those that a miner includes together, itself among them, each after its ancestors.
    #[must_use]
    pub fn chunk(&self, txid: &Txid) -> Vec<Arc<Entry>> {
        let Some(entry) = self.get(txid) else { return Vec::new() };
        match self.state().chunks.get(&entry.sequence) {
            Some(chunk) => chunk.sequences.iter().filter_map(|sequence| self.entry(*sequence)).cloned().collect(),
            None => vec![Arc::clone(entry)],
        }
    }

    // All transactions -----------------------------------------------------------------------------------------------

    /// The number of transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Whether there are no transactions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state().entries.is_empty()
    }

    /// The totals over all transactions.
    #[must_use]
    pub fn totals(&self) -> MempoolTotals {
        self.state().totals
    }

    /// The transactions whose numbers of arrival are in a range, the oldest first.
    pub fn by_arrival(&self, range: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.state().entries.range(range).map(|(_, entry)| entry)
    }

    /// The transactions whose ranks by their own feerate are in a range, the highest first.
    pub fn by_feerate(
        &self,
        range: impl RangeBounds<Rank<FeeFraction>>,
    ) -> impl DoubleEndedIterator<Item = (Rank<FeeFraction>, &Arc<Entry>)> {
        let ranks = self.state().by_feerate.range(range);
        ranks.filter_map(|rank| Some((*rank, self.entry(rank.sequence)?)))
    }

    /// The transactions whose ranks by their effective feerate are in a range, the highest first.
    pub fn by_effective_feerate(
        &self,
        range: impl RangeBounds<Rank<FeeFraction>>,
    ) -> impl DoubleEndedIterator<Item = (Rank<FeeFraction>, &Arc<Entry>)> {
        let ranks = self.state().by_effective.range(range);
        ranks.filter_map(|(rank, _)| Some((*rank, self.entry(rank.sequence)?)))
    }

    /// The transactions whose ranks by the value of their outputs, in sat, are in a range, the highest first.
    pub fn by_value(
        &self,
        range: impl RangeBounds<Rank<u64>>,
    ) -> impl DoubleEndedIterator<Item = (Rank<u64>, &Arc<Entry>)> {
        let ranks = self.state().by_value.range(range);
        ranks.filter_map(|rank| Some((*rank, self.entry(rank.sequence)?)))
    }

    /// The fee histogram, the highest bin first.
    #[must_use]
    pub fn fee_histogram(&self, kind: FeerateKind, bins: &FeeBins) -> Vec<FeeBin> {
        self.state().histogram(kind, bins)
    }

    /// The rate of arrivals in the seconds up to `now`, in seconds since 1970.
    #[must_use]
    pub fn arrival_rate(&self, now: u64) -> ArrivalRate {
        self.state().arrivals.rate(now)
    }

    /// The node's report of its mempool.
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

    /// The totals of a script, given by the SHA-256 of the scriptPubKey. They are stored, unless the script appears in one
    /// transaction only, from which they are computed.
    #[must_use]
    pub fn script_totals(&self, script_hash: &[u8; 32]) -> ScriptTotals {
        self.state().scripts.totals(script_hash, &self.state().entries)
    }

    // Blocks to come -------------------------------------------------------------------------------------------------

    /// The first `limit` blocks that miners would make of this state. Computed by the first call.
    #[must_use]
    pub fn projected_blocks(&self, limit: usize, remainder: Remainder) -> Vec<Arc<ProjectedBlock>> {
        if remainder == Remainder::Left && limit <= NEAREST && self.data.projection.get().is_none() {
            let nearest = self.data.nearest.get_or_init(|| Projection::of_first(self.state(), NEAREST));
            return nearest.blocks(limit, remainder);
        }
        self.projection().blocks(limit, remainder)
    }

    /// The maximum weight of the transactions of a projected block, in weight units.
    #[must_use]
    pub fn block_weight(&self) -> u64 {
        self.state().limits.block_weight
    }

    /// Computes all projected blocks in advance of the first query.
    pub fn project(&self) {
        self.projection();
    }

    /// The position of a transaction in the projected blocks, of which there may be any number.
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

    /// The events after this number. `None` if some of them were evicted, or if no event has this number yet.
    #[must_use]
    pub fn events_after(&self, sequence: u64) -> Option<impl Iterator<Item = MempoolEvent>> {
        self.state().events.after(sequence)
    }

    /// A transaction that left without being mined, while the journal has it.
    #[must_use]
    pub fn departed(&self, txid: &Txid) -> Option<&Arc<Departed>> {
        self.state().journal.get(txid)
    }

    /// The number of transactions in the journal.
    #[must_use]
    pub fn departed_len(&self) -> usize {
        self.state().journal.len()
    }

    /// The departures with numbers below `before`, the newest first. `u64::MAX` for all.
    #[must_use]
    pub fn newest_departed(&self, before: u64) -> impl DoubleEndedIterator<Item = &Arc<Departed>> {
        self.state().journal.newest(before)
    }

    /// The number of departure from which on transactions have their bytes.
    #[must_use]
    pub fn departed_whole_from(&self) -> u64 {
        self.state().journal.whole_from()
    }

    /// The transactions that this one replaced by spending the same output, in the order of departure, without their
    /// descendants.
    #[must_use]
    pub fn replaces(&self, txid: &Txid) -> impl DoubleEndedIterator<Item = &Arc<Departed>> {
        self.state().journal.replaced(txid)
    }

    /// The transaction that replaced this one.
    #[must_use]
    pub fn replaced_by(&self, txid: &Txid) -> Option<Txid> {
        self.departed(txid)?.replaced_by()
    }

    /// The transactions that replaced others, wherever they are now and whether they were replaced themselves or not; each
    /// with the number of the first departure that it caused, the newest first, and only numbers in this range.
    /// [`replaces`](Self::replaces) returns those that each replaced.
    #[must_use]
    pub fn replacing(&self, within: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = (u64, Txid)> {
        self.state().journal.replacing(within)
    }
}
