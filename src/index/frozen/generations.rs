//! The generations in force, read as one.
//!
//! Each generation counts up to its own end, which a reorganisation lowers: rows, spenders, late spends and later copies
//! at or above it do not exist. Blocks above the newest end are in the live tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bitcoin::hashes::hash160;
use bitcoin::{BlockHash, Wtxid};

use super::super::error::IndexError;
use super::super::hot::tables::block_hashes::BlockPlace;
use super::super::hot::tables::block_starts::{BlockStart, Occurrence};
use super::super::hot::tables::blocks::BlockRow;
use super::super::hot::tables::history::HistoryRow;
use super::super::hot::tables::spends::{SpendingInput, TxPoint, split_tx_point};
use super::super::hot::tables::unspent::{FoundOutput, UnspentKey};
use super::super::hot::tip::Tip;
use super::super::keys::{OutputPosition, ScriptKey, TxNum};
use super::super::optional::OptionalTable;
use super::super::raw::RawSources;
use super::super::table_rows::TableRows;
use super::derived::{DerivedFile, DerivedName};
use super::in_force::{InForce, is_removed};
use super::in_force_record::InForceRecord;
use super::parallel::Readers;
use super::recent::RecentTransactions;
use super::tables::spends::KeptRow;
use crate::chain::Height;

/// All of them, the oldest first. They follow each other without a gap from the genesis block on.
#[derive(Clone, Default)]
pub(in crate::index) struct Generations {
    in_force: Vec<InForce>,
    /// Where the bytes of their blocks are read.
    raw: Arc<RawSources>,
    /// The threads that read for connecting blocks.
    pub(super) readers: Arc<Readers>,
    /// The threads that read for answers, for which connecting does not wait.
    pub(super) answer_readers: Arc<Readers>,
    /// Transactions of theirs that were read lately.
    pub(super) recent: Arc<RecentTransactions>,
    /// The transactions that each optional table has so far that is under construction.
    building: Arc<[AtomicU64; OptionalTable::ALL.len()]>,
}

impl Generations {
    pub(in crate::index) fn new(in_force: Vec<InForce>, raw: RawSources) -> Self {
        let of_files = Self { in_force, raw: Arc::new(raw), ..Self::default() }.with_nothing_recent();
        if of_files.are_partial() {
            let readers = || Arc::new(Readers::of_partial_files());
            return Self { readers: readers(), answer_readers: readers(), ..of_files };
        }
        of_files
    }

    /// Whether they follow each other from the genesis block up to the tip of the index or below it.
    ///
    /// Errors: [`IndexError::Corrupt`] if not; storage errors.
    pub(in crate::index) fn check(&self, tip: Option<Tip>) -> Result<(), IndexError> {
        let (mut height, mut txnum) = (Height::GENESIS, TxNum(0));
        for InForce { generation, name, last, end, .. } in &self.in_force {
            let range = generation.range();
            let follows = (range.first, range.txnums.0) == (height, txnum);
            let has_last = last.height <= range.last.height && generation.block_hash(last.height)? == Some(last.hash);
            // the block behind its end begins there
            let behind = generation.starts(*end..range.txnums.1)?.next().transpose()?;
            let (after, expected) = (behind.map(|start| (start.height, start.first)), (last.height.next(), *end));
            let ends = if *end == range.txnums.1 { *last == range.last } else { after == Some(expected) };
            if !(follows && has_last && ends) {
                let what = format!("the index names blocks that generation {name} does not have");
                return Err(IndexError::corrupt("meta", what));
            }
            (height, txnum) = (last.height.next(), *end);
        }
        if self.last().is_some_and(|last| tip.is_none_or(|tip| tip.height < last.height)) {
            return Err(IndexError::corrupt("meta", "the tip of the index is below its generations"));
        }
        Ok(())
    }

    /// The same with one more at the end.
    pub(in crate::index) fn with(&self, newest: InForce) -> Self {
        let mut generations = self.clone();
        generations.in_force.push(newest);
        // it may repeat what was the newest with its txid
        generations.with_nothing_recent()
    }

    /// The same with no transactions in memory. Older snapshots keep theirs until they are dropped.
    fn with_nothing_recent(self) -> Self {
        let bytes = self.in_force.iter().map(|in_force| in_force.generation.recent_bytes).sum();
        Self { recent: Arc::new(RecentTransactions::new(bytes)), ..self }
    }

    /// The same without the highest block, on top of `previous`, which ends before the transaction `end`.
    pub(in crate::index) fn without_last(&self, previous: Option<Tip>, end: TxNum) -> Self {
        let mut generations = self.clone();
        match (generations.in_force.last_mut(), previous) {
            (Some(newest), Some(previous)) if newest.first() < end => (newest.last, newest.end) = (previous, end),
            _ => {
                generations.in_force.pop();
            }
        }
        // an earlier copy may be the newest with its txid again
        generations.with_nothing_recent()
    }

    /// The same with one in place of those at these places.
    pub(in crate::index) fn with_merged(&self, run: &Range<usize>, merged: InForce) -> Self {
        let mut generations = self.clone();
        generations.in_force.splice(run.clone(), [merged]);
        generations
    }

    /// Those at these places, counted from the oldest; none if there are fewer.
    pub(in crate::index) fn places(&self, run: &Range<usize>) -> &[InForce] {
        self.in_force.get(run.clone()).unwrap_or_default()
    }

    /// Where the bytes of their blocks are read.
    pub(in crate::index) fn raw(&self) -> &Arc<RawSources> {
        &self.raw
    }

    /// These generations, with this file of an optional table for the one of this name.
    pub(in crate::index) fn with_derived(&self, name: &str, file: &Arc<DerivedFile>) -> Self {
        let mut generations = self.clone();
        for in_force in generations.in_force.iter_mut().filter(|in_force| in_force.name == name) {
            in_force.derived.insert(file.optional(), Arc::clone(file));
        }
        generations
    }

    /// These generations without an optional table.
    pub(in crate::index) fn without_derived(&self, table: OptionalTable) -> Self {
        let mut generations = self.clone();
        for in_force in &mut generations.in_force {
            in_force.derived.remove(&table);
        }
        generations
    }

    /// The files of their optional tables.
    fn files(&self) -> impl Iterator<Item = &DerivedFile> {
        self.in_force.iter().flat_map(|in_force| in_force.derived.values()).map(Arc::as_ref)
    }

    /// These generations, counting the tables that are under construction apart from others.
    pub(super) fn counting_apart(&self) -> Self {
        Self { building: Arc::default(), ..self.clone() }
    }

    /// The names of the files that have one of their tables.
    pub(in crate::index) fn derived_names(&self) -> impl Iterator<Item = &DerivedName> {
        self.files().map(|file| &file.name)
    }

    /// The transactions that an optional table has so far that is under construction.
    pub(in crate::index) fn building(&self, table: OptionalTable) -> u64 {
        self.building_counter(table).load(Ordering::Relaxed)
    }

    pub(super) fn building_counter(&self, table: OptionalTable) -> &AtomicU64 {
        &self.building[table.place()]
    }

    /// The transactions of theirs that may have this wtxid, as their files of `wtxids` say, oldest first.
    pub(in crate::index) fn wtxid_candidates(&self, wtxid: &Wtxid) -> Result<Vec<TxNum>, IndexError> {
        let mut found = Vec::new();
        for in_force in &self.in_force {
            let file = in_force.derived(OptionalTable::Wtxids);
            let candidates = file.map(|file| file.wtxid_candidates(wtxid)).transpose()?;
            found.extend(candidates.into_iter().flatten().filter(|txnum| in_force.has(*txnum)));
        }
        Ok(found)
    }

    pub(in crate::index) fn is_empty(&self) -> bool {
        self.in_force.is_empty()
    }

    pub(in crate::index) fn iter(&self) -> impl DoubleEndedIterator<Item = &InForce> {
        self.in_force.iter()
    }

    /// The rows of each packed table of all of them.
    pub(in crate::index) fn tables(&self) -> impl Iterator<Item = TableRows> {
        let mut tables = BTreeMap::new();
        let of_files = self.files().flat_map(DerivedFile::rows);
        let own = self.in_force.iter().flat_map(|in_force| in_force.generation.tables());
        for TableRows { name, rows, bytes } in own.chain(of_files) {
            let (all_rows, all_bytes) = tables.entry(name).or_insert((0_u64, Some(0_u64)));
            *all_rows += rows;
            *all_bytes = all_bytes.zip(bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
        }
        tables.into_iter().map(|(name, (rows, bytes))| TableRows { name: format!("frozen.{name}"), rows, bytes })
    }

    /// The bytes of their files, `None` if the file system does not report them.
    pub(in crate::index) fn file_bytes(&self) -> Option<u64> {
        let of_tables = self.files().map(DerivedFile::file_bytes);
        self.in_force.iter().map(|in_force| in_force.generation.file_bytes()).chain(of_tables).sum()
    }

    /// The highest block.
    pub(in crate::index) fn last(&self) -> Option<Tip> {
        self.in_force.last().map(|newest| newest.last)
    }

    /// The number of the first transaction above them.
    pub(in crate::index) fn end(&self) -> TxNum {
        self.in_force.last().map_or(TxNum(0), |newest| newest.end)
    }

    pub(in crate::index) fn records(&self) -> Vec<InForceRecord> {
        let record =
            |InForce { name, last, end, .. }: &InForce| InForceRecord { name: name.clone(), last: *last, end: *end };
        self.in_force.iter().map(record).collect()
    }

    /// Those that end above a transaction, of which the first has it.
    pub(super) fn from(&self, txnum: TxNum) -> &[InForce] {
        &self.in_force[self.in_force.partition_point(|in_force| in_force.end <= txnum)..]
    }

    pub(in crate::index) fn of(&self, txnum: TxNum) -> Option<&InForce> {
        self.from(txnum).first().filter(|in_force| in_force.has(txnum))
    }

    fn of_height(&self, height: Height) -> Option<&InForce> {
        self.in_force.get(self.in_force.partition_point(|in_force| in_force.last.height < height))
    }

    /// The block at a height, `None` above them.
    pub(in crate::index) fn block(&self, height: Height) -> Result<Option<BlockRow>, IndexError> {
        let Some(in_force) = self.of_height(height) else { return Ok(None) };
        let row = in_force.generation.block(height)?;
        row.map(Some).ok_or_else(|| IndexError::corrupt("blocks", format!("the row at height {height} is missing")))
    }

    /// The hash of the block at a height, `None` above them.
    pub(in crate::index) fn block_hash(&self, height: Height) -> Result<Option<BlockHash>, IndexError> {
        self.of_height(height).map_or(Ok(None), |in_force| in_force.generation.block_hash(height))
    }

    /// The first of these heights, upwards or downwards, whose block may have so many transactions: blocks that are not frozen
    /// may. `None` if there is none.
    pub(in crate::index) fn next_large_block(
        &self,
        heights: Range<Height>,
        transactions: u32,
        upwards: bool,
    ) -> Result<Option<Height>, IndexError> {
        let mut at = if upwards { Some(heights.start) } else { heights.end.previous() };
        if transactions <= 1 {
            // each block has its coinbase
            return Ok(at.filter(|height| heights.contains(height)));
        }
        while let Some(height) = at.filter(|height| heights.contains(height)) {
            let Some(in_force) = self.of_height(height) else { return Ok(Some(height)) };
            let found = in_force.generation.next_in_large_group(height, transactions, upwards)?;
            // it may have blocks that are not of this chain any more
            if let Some(found) = found.filter(|found| *found <= in_force.last.height) {
                return Ok(heights.contains(&found).then_some(found));
            }
            at = if upwards { Some(in_force.last.height.next()) } else { in_force.generation.range().first.previous() };
        }
        Ok(None)
    }

    /// The median time past of the block at a height, `None` above them.
    pub(in crate::index) fn median_time(&self, height: Height) -> Result<Option<u32>, IndexError> {
        self.of_height(height).map_or(Ok(None), |in_force| in_force.generation.median_time(height))
    }

    pub(in crate::index) fn block_place(&self, hash: BlockHash) -> Result<Option<BlockPlace>, IndexError> {
        for in_force in self.in_force.iter().rev() {
            let place = in_force.generation.block_place(hash)?;
            if let Some(place) = place.filter(|place| place.height <= in_force.last.height) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The starts of the blocks that begin within `txnums`, the lowest first, read lazily.
    pub(in crate::index) fn starts(
        &self,
        txnums: Range<TxNum>,
    ) -> Result<impl Iterator<Item = Result<BlockStart, IndexError>> + use<>, IndexError> {
        let starts = |in_force: &InForce| in_force.generation.starts(txnums.start..txnums.end.min(in_force.end));
        let starts = self.in_force.iter().map(starts).collect::<Result<Vec<_>, _>>()?;
        Ok(starts.into_iter().flatten())
    }

    pub(in crate::index) fn occurrence(&self, txnum: TxNum) -> Result<Option<Occurrence>, IndexError> {
        self.of(txnum).map_or(Ok(None), |in_force| in_force.generation.occurrence(txnum))
    }

    /// The results of an answer's look-ups, in the order of the items; several are made at a time, in these generations and
    /// beside them.
    ///
    /// Errors: those of `look_up`; [`IndexError::Threads`].
    pub(in crate::index) fn look_up_several<T: Sync, R: Send>(
        &self,
        items: &[T],
        look_up: impl Fn(&T) -> Result<R, IndexError> + Sync + Send,
    ) -> Result<Vec<R>, IndexError> {
        self.answer_readers.read(items, look_up)
    }

    /// The input that spends an output of theirs, if a transaction of theirs does.
    pub(in crate::index) fn spender(&self, txnum: TxNum, vout: u32) -> Result<Option<SpendingInput>, IndexError> {
        self.from(txnum).iter().find_map(|in_force| in_force.spender(txnum, vout).transpose()).transpose()
    }

    /// Returns what [`Generations::spender`] does. `kept` has the row of the output that was asked for before.
    pub(in crate::index) fn spender_near(
        &self,
        kept: &mut Option<KeptRow>,
        outpoint: TxPoint,
    ) -> Result<Option<SpendingInput>, IndexError> {
        let (txnum, vout) = split_tx_point(&outpoint);
        let Some((own, later)) = self.from(txnum).split_first() else { return Ok(None) };
        let found = own.generation.spender_near(kept, outpoint, own.end)?.filter(|spender| spender.txnum < own.end);
        if found.is_some() {
            return Ok(found);
        }
        later.iter().find_map(|in_force| in_force.spender(txnum, vout.to_u32()).transpose()).transpose()
    }

    /// Whether the generation of an output has a row of it in `unspent`. It may be spent since.
    pub(in crate::index) fn has_unspent_row(&self, output: UnspentKey) -> Result<bool, IndexError> {
        let Some(in_force) = self.of(output.txnum) else { return Ok(false) };
        in_force.generation.has_unspent_row(output)
    }

    /// Whether an output is unspent right above them.
    pub(in crate::index) fn is_unspent(&self, output: UnspentKey) -> Result<bool, IndexError> {
        let [_, later @ ..] = self.from(output.txnum) else { return Ok(false) };
        Ok(self.has_unspent_row(output)? && !is_removed(later, output)?)
    }

    /// Whether an output of theirs is spent or overwritten (BIP30) by a transaction of theirs.
    pub(in crate::index) fn is_gone(&self, output: UnspentKey) -> Result<bool, IndexError> {
        is_removed(self.from(output.txnum), output)
    }

    /// The last of their transactions of a script before `before`, with the totals of the script after it.
    pub(in crate::index) fn totals(
        &self,
        script: ScriptKey,
        before: TxNum,
    ) -> Result<Option<(TxNum, HistoryRow)>, IndexError> {
        for in_force in self.in_force.iter().rev().filter(|in_force| in_force.first() < before) {
            let totals = in_force.generation.totals(script, before.min(in_force.end))?;
            if totals.is_some() {
                return Ok(totals);
            }
        }
        Ok(None)
    }

    /// Those of their transactions within `txnums` that paid or spent a script, oldest first.
    pub(in crate::index) fn history(
        &self,
        script: ScriptKey,
        txnums: &Range<TxNum>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(TxNum, HistoryRow), IndexError>> + use<>, IndexError> {
        let overlapping =
            self.in_force.iter().filter(|in_force| in_force.first() < txnums.end && txnums.start < in_force.end);
        let rows = overlapping
            .map(|in_force| in_force.generation.history(script, txnums.start..txnums.end.min(in_force.end)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(rows.into_iter().flatten())
    }

    /// Those of their outputs at these positions that pay a script and are unspent at the end of their generation, oldest
    /// first, with their row if they are unspent right above all of them.
    pub(in crate::index) fn unspent(
        self: &Arc<Self>,
        script: ScriptKey,
        positions: &Range<OutputPosition>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<FoundOutput, IndexError>> + use<>, IndexError> {
        let mut rows = Vec::new();
        for (at, in_force) in self.in_force.iter().enumerate() {
            let end = positions.end.min(OutputPosition::first_of(in_force.end));
            if positions.start < end && OutputPosition::first_of(in_force.first()) < end {
                let (generations, found) =
                    (Arc::clone(self), in_force.generation.unspent(script, positions.start..end)?);
                rows.push(found.map(move |row| {
                    let (output, row) = row?;
                    let is_gone = is_removed(&generations.in_force[at + 1..], output)?;
                    Ok((output, (!is_gone).then_some(row)))
                }));
            }
        }
        Ok(rows.into_iter().flatten())
    }

    /// Heights of those of their blocks whose coinbase pays a script, within `heights`, lowest first.
    pub(in crate::index) fn payouts(
        &self,
        script: ScriptKey,
        heights: &Range<Height>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Height, IndexError>> + use<>, IndexError> {
        let rows = self.in_force.iter().map(|in_force| {
            in_force.generation.payouts(script, heights.start..heights.end.min(in_force.last.height.next()))
        });
        Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten())
    }

    /// The P2PK scripts whose public key has this HASH160 and that one of their transactions paid, with the first that did.
    pub(in crate::index) fn p2pk_scripts(
        &self,
        key_hash: hash160::Hash,
    ) -> Result<Vec<(ScriptKey, TxNum)>, IndexError> {
        let mut found: Vec<(ScriptKey, TxNum)> = Vec::new();
        for in_force in &self.in_force {
            for (script, txnum) in in_force.generation.p2pk_scripts(key_hash)? {
                if txnum < in_force.end && found.iter().all(|(known, _)| *known != script) {
                    found.push((script, txnum));
                }
            }
        }
        Ok(found)
    }
}
