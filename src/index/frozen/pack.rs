//! Packs blocks that were connected one by one: reads the live rows of one snapshot in the order of each packed table.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bitcoin::Script;

use super::super::block::BlockOutput;
use super::super::codec::small;
use super::super::error::IndexError;
use super::super::hot::resolve::parse;
use super::super::hot::tables::block_hashes::{BlockPlace, ChainMembership};
use super::super::hot::tables::block_starts::BlockStart;
use super::super::hot::tables::blocks::BlockRow;
use super::super::hot::tables::blocks::next_txnum;
use super::super::hot::tables::history::{HistoryChange, HistoryRow};
use super::super::hot::tables::transactions::TransactionRow;
use super::super::hot::tables::{
    block_hashes, block_starts, history as live_history, overwritten, p2pk, payouts, spends as live_spends,
    txids as live_txids, unspent,
};
use super::super::hot::tip::Tip;
use super::super::keys::{Position, TxNum};
use super::super::snapshot::Snapshot;
use super::super::sorter::Sorter;
use super::builder::GenerationBuilder;
use super::facts::{GenerationRange, generation_facts};
use super::page::PackedRow;
use super::spenders::Spenders;
use super::tables::filters::{FilterPacker, Filtered};
use super::tables::positions::BlockOffset;
use super::tables::spends::OutputState;
use super::tables::txid_prefixes::CutBits;
use super::tables::{blocks, history, late_spends, positions, spends, txid_prefixes, txids};
use crate::chain::Height;

/// Memory for sorting the unspent outputs.
const SORT: usize = 64 << 20;

impl Snapshot {
    /// Builds the generation of these blocks of the active chain in a new file. Nothing that happens after the last of
    /// them is in it. The totals of scripts go on from what this snapshot has below the first of them, live or in older
    /// generations. The blocks themselves must be live.
    ///
    /// Errors: [`IndexError::Corrupt`] if rows are missing or contradict each other; storage errors; a file that exists.
    pub fn pack(&self, heights: RangeInclusive<Height>, path: &Path) -> Result<GenerationRange, IndexError> {
        self.pack_until(heights, path, &Arc::default())
    }

    /// The same, which ends with [`IndexError::Interrupted`] once `stop` is raised.
    pub fn pack_until(
        &self,
        heights: RangeInclusive<Height>,
        path: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Result<GenerationRange, IndexError> {
        let range = self.range_of(heights)?;
        let mut packing = Packing {
            snapshot: self,
            range,
            cut_bits: range.cut_bits(),
            overwritten: self.overwritten_below(range.txnums.1)?,
            builder: GenerationBuilder::create(path)?.stopped_by(Arc::clone(stop)),
        };
        packing.blocks()?;
        packing.txids()?;
        packing.transactions(path.parent().unwrap_or(Path::new(".")))?;
        packing.late_spends()?;
        packing.history()?;
        packing.scripts()?;
        packing.finish()?;
        Ok(range)
    }

    /// The overwritten outputs whose later copy is below `end`. There are few: BIP34 makes repetitions impossible.
    fn overwritten_below(&self, end: TxNum) -> Result<BTreeMap<live_spends::TxPoint, TxNum>, IndexError> {
        let mut found = BTreeMap::new();
        for row in self.overwritten.range::<&live_spends::TxPoint>(..)? {
            let (outpoint, later) = row?;
            let later = TxNum::from_key(*later.value());
            if later < end {
                found.insert(*outpoint.value(), later);
            }
        }
        Ok(found)
    }

    /// The generation that these live blocks make.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is missing, or a block is frozen.
    pub(in crate::index) fn range_of(&self, heights: RangeInclusive<Height>) -> Result<GenerationRange, IndexError> {
        let (first, last) = (*heights.start(), *heights.end());
        let block = |height| {
            let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
            self.block(height)?.ok_or_else(missing)
        };
        if let Some(frozen) = self.generations.last().filter(|frozen| first <= frozen.height) {
            let what =
                format!("the block at height {first} is in a generation already, up to height {}", frozen.height);
            return Err(IndexError::corrupt("blocks", what));
        }
        let end = |row: &BlockRow| next_txnum(&row.running);
        let start = first.previous().map_or(Ok(TxNum(0)), |below| end(&block(below)?))?;
        let newest = block(last)?;
        if end(&newest)? <= start {
            return Err(IndexError::corrupt(
                "blocks",
                format!("there are no transactions from height {first} to {last}"),
            ));
        }
        let last = Tip { height: last, hash: newest.hash };
        Ok(GenerationRange { first, last, txnums: (start, end(&newest)?) })
    }
}

/// A generation on its way from live rows into its file.
struct Packing<'a> {
    snapshot: &'a Snapshot,
    range: GenerationRange,
    cut_bits: CutBits,
    /// Outputs of earlier copies → the later copy that overwrites them, which is below the end (BIP30).
    overwritten: BTreeMap<live_spends::TxPoint, TxNum>,
    builder: GenerationBuilder,
}

impl Packing<'_> {
    fn blocks(&mut self) -> Result<(), IndexError> {
        let (mut rows, mut starts) = (Vec::new(), Vec::new());
        let mut next = self.range.txnums.0;
        for height in self.heights() {
            let row = self.block(height)?;
            let start = BlockStart { first: next, height, median_time: row.median_time };
            starts.push((start.key(), start.value()));
            rows.push((super::super::hot::tables::blocks::key(height), blocks::encode(&row)));
            next = next_txnum(&row.running)?;
            self.builder.append_if_full(blocks::TABLE, &mut rows, Vec::as_slice)?;
            self.builder.append_if_full(block_starts::TABLE, &mut starts, |row| row)?;
        }
        self.builder.append(blocks::TABLE, &rows, Vec::as_slice)?;
        self.builder.append(block_starts::TABLE, &starts, |row| row)?;

        let mut rows = Vec::new();
        for row in self.snapshot.block_hashes.range::<&[u8; 32]>(..)? {
            let (hash, value) = row?;
            let place = BlockPlace::decode(value.value())?;
            let is_in_range = (self.range.first..=self.range.last.height).contains(&place.height);
            if place.membership == ChainMembership::Main && is_in_range {
                rows.push((*hash.value(), *value.value()));
                self.builder.append_if_full(block_hashes::TABLE, &mut rows, |row| row)?;
            }
        }
        self.builder.append(block_hashes::TABLE, &rows, |row| row)?;
        Ok(())
    }

    fn heights(&self) -> impl Iterator<Item = Height> + use<> {
        (self.range.first.to_u32()..=self.range.last.height.to_u32()).map(Height::from)
    }

    fn block(&self, height: Height) -> Result<BlockRow, IndexError> {
        let row = self.snapshot.block(height)?;
        row.ok_or_else(|| IndexError::corrupt("blocks", format!("the row at height {height} is missing")))
    }

    /// Packs the hashes of txids.
    fn txids(&mut self) -> Result<(), IndexError> {
        let (mut packer, mut rows) = (txid_prefixes::TxidPrefixPacker::default(), Vec::new());
        // transactions with one cut hash
        let mut equal = Vec::new();
        let mut filter = FilterPacker::new(Filtered::Txids, &self.range, self.snapshot.salt());
        let snapshot = self.snapshot;
        for row in snapshot.txids.range::<&live_txids::TxidKey>(..)? {
            let (prefix, txnum) = live_txids::split_key(row?.0.value());
            if self.range.contains(txnum) {
                let hash = self.cut_bits.cut(prefix);
                filter.push(hash, &mut self.builder)?;
                if equal.first().is_some_and(|(first, _)| *first != hash) {
                    rows.extend(pack_equal(&mut equal, &mut packer));
                    self.builder.append_if_full(txid_prefixes::TABLE, &mut rows, Vec::as_slice)?;
                }
                equal.push((hash, txnum));
            }
        }
        rows.extend(pack_equal(&mut equal, &mut packer));
        rows.extend(packer.finish());
        self.builder.append(txid_prefixes::TABLE, &rows, Vec::as_slice)?;
        filter.finish(&mut self.builder)
    }

    /// Packs what the transactions themselves say, in their order, and with it what became of their outputs.
    fn transactions(&mut self, directory: &Path) -> Result<(), IndexError> {
        let snapshot = self.snapshot;
        let (from, to) = (self.range.txnums.0, self.range.txnums.1);
        let mut transactions = snapshot.transactions.range::<&[u8; 4]>(&from.to_key()..&to.to_key())?;
        let first = live_spends::tx_point(from, Position::ZERO);
        let spends = snapshot.spends.range::<&live_spends::TxPoint>(&first..)?.map(|row| {
            let (outpoint, spender) = row?;
            Ok((*outpoint.value(), *spender.value()))
        });
        let mut spent = Spenders::new("spends", spends);
        let mut packers =
            (txids::TxidPacker::new(from), positions::PositionPacker::new(from), spends::SpendPacker::default());
        let mut rows = (Vec::new(), Vec::new(), Vec::new());
        let mut unspent_outputs = Sorter::new(directory, SORT);
        let (mut txnum, mut states) = (from, Vec::new());
        for height in self.heights() {
            let block = self.block(height)?;
            let mut offset = positions::first_offset(block.transactions);
            for index in 0..block.transactions {
                let missing = || IndexError::corrupt("transactions", format!("row {txnum} is missing"));
                let (key, row) = transactions.next().transpose()?.ok_or_else(missing)?;
                if *key.value() != txnum.to_key() {
                    return Err(missing());
                }
                let row = TransactionRow::decode(row.value())?;
                let length = small(row.raw.len());
                rows.0.extend(packers.0.push(&row.txid));
                let fee = (index > 0).then_some(row.fee);
                rows.1.extend(packers.1.push(&BlockOffset { offset, length, fee }));
                offset = offset.saturating_add(length);

                states.clear();
                let raw = parse(txnum, row.raw)?;
                for (vout, output) in (0..).map_while(Position::new).zip(raw.outputs()) {
                    let outpoint = live_spends::tx_point(txnum, vout);
                    let output =
                        BlockOutput::of(snapshot.salt(), vout, output.value, Script::from_bytes(output.script_pubkey));
                    let spender = spent.of(&outpoint)?.filter(|spender| spender.txnum < to);
                    states.push(match spender {
                        Some(spender) => OutputState::Spent(spender),
                        None if output.never_spendable || height == Height::GENESIS => OutputState::Unspendable,
                        None => OutputState::Unspent,
                    });
                    if states.last() == Some(&OutputState::Unspent) && !self.overwritten.contains_key(&outpoint) {
                        let row = unspent::UnspentRow { value: output.value, is_coinbase: row.is_coinbase };
                        let parts = (unspent::key(output.script, txnum, vout), row.encode());
                        unspent_outputs.push(&[&parts.0, &parts.1]).map_err(IndexError::Sorting)?;
                    }
                }
                packers.2.push(txnum, &states, &mut rows.2)?;
                txnum = TxNum(txnum.0.saturating_add(1));
                self.builder.append_if_full(txids::TABLE, &mut rows.0, Vec::as_slice)?;
                self.builder.append_if_full(positions::TABLE, &mut rows.1, Vec::as_slice)?;
                self.builder.append_if_full(spends::TABLE, &mut rows.2, Vec::as_slice)?;
            }
        }
        rows.0.extend(packers.0.finish());
        rows.1.extend(packers.1.finish());
        rows.2.extend(packers.2.finish());
        self.builder.append(txids::TABLE, &rows.0, Vec::as_slice)?;
        self.builder.append(positions::TABLE, &rows.1, Vec::as_slice)?;
        self.builder.append(spends::TABLE, &rows.2, Vec::as_slice)?;
        let by_this = self.overwritten.iter().filter(|(_, later)| self.range.contains(**later));
        let rows: Vec<_> = by_this.map(|(outpoint, later)| (*outpoint, later.to_key())).collect();
        self.builder.append(overwritten::TABLE, &rows, |row| row)?;
        self.builder.append_sorted(unspent::TABLE, unspent_outputs)
    }

    /// The spends of outputs of older generations.
    fn late_spends(&mut self) -> Result<(), IndexError> {
        let mut rows = Vec::new();
        let mut filter = FilterPacker::new(Filtered::LateSpends, &self.range, self.snapshot.salt());
        let end = live_spends::tx_point(self.range.txnums.0, Position::ZERO);
        let snapshot = self.snapshot;
        for row in snapshot.spends.range::<&live_spends::TxPoint>(..&end)? {
            let (outpoint, spender) = row?;
            if self.range.contains(live_spends::split_tx_point(spender.value()).0) {
                filter.push(*outpoint.value(), &mut self.builder)?;
                rows.push((*outpoint.value(), *spender.value()));
                self.builder.append_if_full(late_spends::TABLE, &mut rows, |row| row)?;
            }
        }
        self.builder.append(late_spends::TABLE, &rows, |row| row)?;
        filter.finish(&mut self.builder)
    }

    fn history(&mut self) -> Result<(), IndexError> {
        let (mut packer, mut rows) = (history::HistoryPacker::default(), Vec::new());
        let mut before = None;
        let mut begun = None;
        let mut filter = FilterPacker::new(Filtered::Scripts, &self.range, self.snapshot.salt());
        let snapshot = self.snapshot;
        for row in snapshot.history.range::<&live_history::HistoryKey>(..)? {
            let (key, row) = row?;
            let ((script, txnum), totals) = (live_history::split_key(key.value()), HistoryRow::decode(row.value())?);
            let older = match before.replace((script, totals)) {
                Some((other, older)) if other == script => older,
                _ => snapshot.generations.totals(script, txnum)?.map(|(_, older)| older).unwrap_or_default(),
            };
            if self.range.contains(txnum) {
                if begun != Some(script) {
                    filter.push(script, &mut self.builder)?;
                    packer.script(script, older);
                    begun = Some(script);
                }
                let change = difference(&older, &totals);
                let change = change.ok_or_else(|| IndexError::corrupt("history", "totals of a script fall"))?;
                rows.extend(packer.push(txnum, &change)?);
                self.builder.append_if_full(history::TABLE, &mut rows, Vec::as_slice)?;
            }
        }
        rows.extend(packer.finish());
        self.builder.append(history::TABLE, &rows, Vec::as_slice)?;
        filter.finish(&mut self.builder)
    }

    /// Coinbases that pay scripts, and P2PK scripts.
    fn scripts(&mut self) -> Result<(), IndexError> {
        let (snapshot, range) = (self.snapshot, self.range);
        let mut rows = Vec::new();
        for row in snapshot.payouts.range::<&payouts::PayoutKey>(..)? {
            let key = *row?.0.value();
            if (range.first..=range.last.height).contains(&payouts::split_key(&key).1) {
                rows.push((key, ()));
                self.builder.append_if_full(payouts::TABLE, &mut rows, |()| ())?;
            }
        }
        self.builder.append(payouts::TABLE, &rows, |()| ())?;
        let mut rows = Vec::new();
        for row in snapshot.p2pk.range::<&p2pk::P2pkKey>(..)? {
            let (key, txnum) = row?;
            if range.contains(TxNum::from_key(*txnum.value())) {
                rows.push((*key.value(), *txnum.value()));
                self.builder.append_if_full(p2pk::TABLE, &mut rows, |row| row)?;
            }
        }
        self.builder.append(p2pk::TABLE, &rows, |row| row)?;
        Ok(())
    }

    fn finish(mut self) -> Result<(), IndexError> {
        let facts = generation_facts(&self.range, self.snapshot.network(), self.snapshot.salt(), self.builder.counts());
        self.builder.finish(&facts)
    }
}

/// Packs transactions with one cut hash in their order.
fn pack_equal(
    equal: &mut Vec<(txid_prefixes::CutHash, TxNum)>,
    packer: &mut txid_prefixes::TxidPrefixPacker,
) -> Vec<PackedRow<6>> {
    equal.sort_unstable();
    equal.drain(..).filter_map(|(hash, txnum)| packer.push(hash, txnum)).collect()
}

/// What one transaction adds to the totals of a script, `None` if one of them falls.
pub(super) fn difference(before: &HistoryRow, after: &HistoryRow) -> Option<HistoryChange> {
    Some(HistoryChange {
        received: after.received.checked_sub(before.received)?,
        overwritten: 0,
        spent: after.spent.checked_sub(before.spent)?,
        coinbase_received: after.coinbase_received.checked_sub(before.coinbase_received)?,
        outputs_received: after.outputs_received.checked_sub(before.outputs_received)?,
        outputs_overwritten: 0,
        outputs_spent: after.outputs_spent.checked_sub(before.outputs_spent)?,
        is_coinbase_payment: after.coinbase_transactions > before.coinbase_transactions,
    })
}
