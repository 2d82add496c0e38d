//! Merges generations that follow each other into one: reads their entries in the order of each packed table. The rows are
//! those that packing the same blocks at once makes.
//!
//! Of a generation that a reorganisation shortened only what lies below its end is read, and the outputs that are unspent again
//! are read from the bytes of its blocks (`shortened.rs`). So it becomes whole when it is built again, alone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::error::IndexError;
use super::super::files::{remove_directory_if_exists, remove_if_exists};
use super::super::hot::tables::block_hashes::BlockPlace;
use super::super::hot::tables::history::split_key as split_history_key;
use super::super::hot::tables::{
    block_hashes, block_starts, overwritten, p2pk, payouts, spends as live_spends, unspent,
};
use super::super::keys::{Position, TxNum};
use super::super::optional::{OptionalTable, RowContext};
use super::super::sorter::Sorter;
use super::builder::{GenerationBuilder, sorted_rows};
use super::derive::{BuildProgress, DueTable, with_block};
use super::derived::DerivedName;
use super::facts::{GenerationRange, generation_facts};
use super::generation::Generation;
use super::generation::scan::PackedEntries;
use super::generations::Generations;
use super::in_force::{InForce, is_removed};
use super::merged_entries::MergedEntries;
use super::pack::difference;
use super::page::PackedRow;
use super::shortened::{RowSources, state_at_end, unspent_again};
use super::spenders::Spenders;
use super::tables::filters::{FilterPacker, Filtered};
use super::tables::spends::OutputState;
use super::tables::txid_prefixes::{CutBits, CutHash};
use super::tables::{blocks, history, late_spends, positions, spends, txid_prefixes, txids};
use crate::chain::Height;

/// Memory for sorting the hashes of txids.
const SORT: usize = 64 << 20;
/// Bytes of the temporary file for these hashes that a transaction takes.
const SORT_BYTES: u64 = 14;

/// Generations that are to be merged, or one that a reorganisation shortened and that is to be built again.
pub struct DueMerge {
    /// All in force.
    pub(in crate::index) generations: Arc<Generations>,
    /// The places of those that are merged.
    pub(in crate::index) run: Range<usize>,
    /// The blocks and transactions of all of these.
    pub(in crate::index) range: GenerationRange,
    /// Where the new one is built.
    pub(in crate::index) path: PathBuf,
    /// The name that its file gets.
    pub(in crate::index) name: String,
    /// The optional tables that are on.
    pub(in crate::index) tables: Vec<OptionalTable>,
    /// Where files of generations are, and those of builds.
    pub(in crate::index) directories: (PathBuf, PathBuf),
    pub(in crate::index) context: RowContext,
}

impl DueMerge {
    /// The blocks and transactions of all of them.
    #[must_use]
    pub fn range(&self) -> GenerationRange {
        self.range
    }

    /// How many generations are merged; 1 if a shortened one is built again.
    #[must_use]
    pub fn count(&self) -> usize {
        self.run.len()
    }

    /// About the bytes that the merge takes on the disk of the index, temporary files included.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let files = self.members().iter().filter_map(|in_force| in_force.generation.file_bytes()).sum::<u64>();
        let transactions = u64::from(self.range.transactions());
        let tables = self.tables.iter().map(|table| table.build_bytes_per_transaction()).sum();
        files.saturating_add(transactions.saturating_mul(SORT_BYTES.saturating_add(tables)))
    }

    pub(in crate::index) fn members(&self) -> &[InForce] {
        self.generations.places(&self.run)
    }

    /// Builds the generation, and its files of the optional tables that are on, of which `watch` gets the name of each with its
    /// progress. Nothing reads them before [`Index::replace_merged`](super::super::Index::replace_merged). After an error
    /// nothing of it is left.
    ///
    /// Errors: [`IndexError::Corrupt`] if rows are missing or contradict each other; [`IndexError::RawUnavailable`] if a block
    /// cannot be read for an optional table or a shortened generation; `Interrupted` once `stop` is raised; `File`; storage errors.
    pub fn build(&self, stop: &Arc<AtomicBool>, watch: &mut dyn FnMut(&str, BuildProgress)) -> Result<(), IndexError> {
        self.build_files(stop, watch).inspect_err(|_| self.discard())
    }

    /// Removes what was built, as far as it can be removed: the rest is removed at the next start.
    pub(in crate::index) fn discard(&self) {
        let (directory, temporary) = &self.directories;
        let _ = remove_if_exists(&self.path);
        for table in &self.tables {
            let name = DerivedName::newest(*table, &self.name);
            let _ = remove_directory_if_exists(&temporary.join(name.to_string()));
            let _ = remove_if_exists(&directory.join(name.file()));
        }
    }

    fn build_files(
        &self,
        stop: &Arc<AtomicBool>,
        watch: &mut dyn FnMut(&str, BuildProgress),
    ) -> Result<(), IndexError> {
        remove_if_exists(&self.path)?;
        if !self.tables.is_empty() {
            self.check_blocks()?;
        }
        self.merge(stop)?;
        let generation = Generation::open(&self.path, self.context.network, self.context.salt, 0)?;
        let (last, end) = (generation.range().last, generation.range().txnums.1);
        let (name, generation, derived) = (self.name.clone(), Arc::new(generation), BTreeMap::new());
        let merged = InForce { generation, name, last, end, derived };
        // lookups of the tables that are in force count what other builds have
        let generations = Arc::new(self.generations.counting_apart());
        for table in &self.tables {
            let (directory, temporary) = &self.directories;
            let name = DerivedName::newest(*table, &self.name);
            let directories = (directory.clone(), temporary.as_path());
            let due =
                DueTable::new(Arc::clone(&generations), merged.clone(), (*table, name), directories, self.context);
            due.build(stop, &mut |progress| watch(due.table(), progress))?;
        }
        Ok(())
    }

    /// Checks that the blocks can be read from which optional tables are built, by the first and the last: a node deletes the
    /// lowest. Without them the merge would be in vain.
    fn check_blocks(&self) -> Result<(), IndexError> {
        let members = self.members();
        let Some((first, last)) = members.first().zip(members.last()) else { return Ok(()) };
        with_block(&first.generation, self.generations.raw(), self.range.first, |_| {})?;
        with_block(&last.generation, self.generations.raw(), self.range.last.height, |_| {})
    }

    /// Builds the generation alone.
    fn merge(&self, stop: &Arc<AtomicBool>) -> Result<(), IndexError> {
        let (range, context) = (self.range, self.context);
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let sources = RowSources { raw: self.generations.raw(), salt: context.salt, directory, stop };
        // first of all, because blocks that cannot be read make the rest vain
        let unspent_again = self.members().iter().map(|in_force| unspent_again(in_force, sources));
        let unspent_again = unspent_again.collect::<Result<_, _>>()?;
        let mut merging = Merging {
            members: self.members(),
            unspent_again,
            range,
            cut_bits: range.cut_bits(),
            context,
            builder: GenerationBuilder::create(&self.path)?.stopped_by(Arc::clone(stop)),
        };
        merging.blocks()?;
        merging.transactions(directory)?;
        merging.spends()?;
        merging.outputs()?;
        merging.history()?;
        merging.scripts()?;
        let facts = generation_facts(&range, context.network, context.salt, merging.builder.counts());
        merging.builder.finish(&facts)
    }
}

/// Generations on their way into one.
struct Merging<'a> {
    members: &'a [InForce],
    /// The rows of `unspent` that each of them lacks, if it is shortened.
    unspent_again: Vec<Option<PackedEntries<unspent::UnspentKeyBytes, unspent::UnspentValue>>>,
    range: GenerationRange,
    cut_bits: CutBits,
    context: RowContext,
    builder: GenerationBuilder,
}

impl Merging<'_> {
    fn blocks(&mut self) -> Result<(), IndexError> {
        for in_force in self.members {
            let generation = &in_force.generation;
            let heights = generation.range().first.to_u32()..=in_force.last.height.to_u32();
            let rows = heights.map(Height::from).map(|height| {
                let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
                let row = generation.block(height)?.ok_or_else(missing)?;
                Ok((super::super::hot::tables::blocks::key(height), blocks::encode(&row)))
            });
            self.builder.append_all(blocks::TABLE, rows, Vec::as_slice)?;
            let starts = counting(in_force, generation.scan_block_starts()?, |of, key, _| is_below(of, *key));
            self.builder.append_all(block_starts::TABLE, starts, |row| row)?;
        }
        let hashes = self.merged(Generation::scan_block_hashes, |of, _, place| {
            BlockPlace::decode(place).map_or(true, |place| place.height <= of.last.height)
        })?;
        self.builder.append_all(block_hashes::TABLE, rows(hashes), |row| row)
    }

    /// What there is of each transaction: its txid, its cut hash and where its bytes are.
    fn transactions(&mut self, directory: &Path) -> Result<(), IndexError> {
        let first = self.range.txnums.0;
        let mut hashes = Sorter::new(directory, SORT);
        let (mut packer, mut ready) = (txids::TxidPacker::new(first), Vec::new());
        let (salt, cut_bits) = (self.context.salt, self.cut_bits);
        for in_force in self.members {
            for row in counting(in_force, in_force.generation.scan_txids()?, |of, key, _| is_below(of, *key)) {
                let (txnum, txid) = row?;
                let hash = cut_bits.cut(salt.txid_prefix(&txid)).to_key();
                hashes.push(&[&hash, &txnum]).map_err(IndexError::Sorting)?;
                ready.extend(packer.push(&txid));
                self.builder.append_if_full(txids::TABLE, &mut ready, Vec::as_slice)?;
            }
        }
        ready.extend(packer.finish());
        self.builder.append(txids::TABLE, &ready, Vec::as_slice)?;

        let mut filter = FilterPacker::new(Filtered::Txids, &self.range, self.context.salt);
        let (mut packer, mut ready) = (txid_prefixes::TxidPrefixPacker::default(), Vec::new());
        for row in sorted_rows(hashes)? {
            let (hash, txnum) = row?;
            let hash = CutHash::from_key(hash);
            filter.push(hash, &mut self.builder)?;
            ready.extend(packer.push(hash, TxNum::from_key(txnum)));
            self.builder.append_if_full(txid_prefixes::TABLE, &mut ready, Vec::as_slice)?;
        }
        ready.extend(packer.finish());
        self.builder.append(txid_prefixes::TABLE, &ready, Vec::as_slice)?;
        filter.finish(&mut self.builder)?;

        let (mut packer, mut ready) = (positions::PositionPacker::new(first), Vec::new());
        for in_force in self.members {
            for row in counting(in_force, in_force.generation.scan_positions()?, |of, key, _| is_below(of, *key)) {
                ready.extend(packer.push(&row?.1));
                self.builder.append_if_full(positions::TABLE, &mut ready, Vec::as_slice)?;
            }
        }
        ready.extend(packer.finish());
        self.builder.append(positions::TABLE, &ready, Vec::as_slice)
    }

    /// What became of the outputs, and the spends of outputs of older generations.
    fn spends(&mut self) -> Result<(), IndexError> {
        let late = self.merged(Generation::scan_late_spends, |of, _, spender| is_point_below(of, spender))?;
        let mut late = Spenders::new("late_spends", rows(late));
        let first = live_spends::tx_point(self.range.txnums.0, Position::ZERO);
        let mut filter = FilterPacker::new(Filtered::LateSpends, &self.range, self.context.salt);
        let mut older = Vec::new();
        while let Some(row) = late.next_before(&first) {
            let row = row?;
            filter.push(row.0, &mut self.builder)?;
            older.push(row);
            self.builder.append_if_full(late_spends::TABLE, &mut older, |row| row)?;
        }
        self.builder.append(late_spends::TABLE, &older, |row| row)?;
        filter.finish(&mut self.builder)?;

        let (mut packer, mut ready) = (spends::SpendPacker::default(), Vec::new());
        let (mut current, mut states) = (None, Vec::new());
        for in_force in self.members {
            for row in counting(in_force, in_force.generation.scan_spends()?, |of, key, _| is_point_below(of, key)) {
                let (outpoint, state) = row?;
                let state = state_at_end(in_force, state);
                let txnum = live_spends::split_tx_point(&outpoint).0;
                if let Some(before) = current.replace(txnum).filter(|before| *before != txnum) {
                    push_states(&mut packer, before, &mut states, &mut ready)?;
                    self.builder.append_if_full(spends::TABLE, &mut ready, Vec::as_slice)?;
                }
                states.push(late.of(&outpoint)?.map_or(state, OutputState::Spent));
            }
        }
        if let Some(last) = current {
            push_states(&mut packer, last, &mut states, &mut ready)?;
        }
        ready.extend(packer.finish());
        self.builder.append(spends::TABLE, &ready, Vec::as_slice)?;
        late.finish()
    }

    /// The outputs that are unspent behind all of them, and those that were overwritten (BIP30).
    fn outputs(&mut self) -> Result<(), IndexError> {
        let (members, again) = (self.members, std::mem::take(&mut self.unspent_again));
        // each with the place of its member, of which a shortened one has two
        let mut sources = Vec::with_capacity(members.len() + 1);
        for (place, (in_force, again)) in members.iter().zip(again).enumerate() {
            let own = counting(in_force, in_force.generation.scan_unspent()?, |of, key, _| {
                is_point_below(of, &unspent::outpoint(key))
            });
            sources.push((place, own));
            sources.extend(again.map(|again| (place, again)));
        }
        let (places, sources): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
        let unspent = MergedEntries::new(sources).filter_map(|row| {
            row.and_then(|(at, key, value)| {
                let is_gone = is_removed(&members[places[at] + 1..], unspent::split_key(&key))?;
                Ok((!is_gone).then_some((key, value)))
            })
            .transpose()
        });
        self.builder.append_all(unspent::TABLE, unspent, |row| row)?;
        let overwritten = self.merged(Generation::scan_overwritten, |of, _, later| is_below(of, *later))?;
        self.builder.append_all(overwritten::TABLE, rows(overwritten), |row| row)
    }

    fn history(&mut self) -> Result<(), IndexError> {
        let (mut packer, mut ready) = (history::HistoryPacker::default(), Vec::new());
        let mut begun = None;
        let mut filter = FilterPacker::new(Filtered::Scripts, &self.range, self.context.salt);
        for entry in self.merged(Generation::scan_history_steps, |of, key, _| split_history_key(key).1 < of.end)? {
            let (_, key, [before, after]) = entry?;
            let (script, txnum) = split_history_key(&key);
            if begun.replace(script) != Some(script) {
                filter.push(script, &mut self.builder)?;
                // what older generations have of it stands before its first entry
                packer.script(script, before);
            }
            let change = difference(&before, &after);
            let change = change.ok_or_else(|| IndexError::corrupt("history", "totals of a script fall"))?;
            ready.extend(packer.push(txnum, &change)?);
            self.builder.append_if_full(history::TABLE, &mut ready, Vec::as_slice)?;
        }
        ready.extend(packer.finish());
        self.builder.append(history::TABLE, &ready, Vec::as_slice)?;
        filter.finish(&mut self.builder)
    }

    /// Coinbases that pay scripts, and P2PK scripts.
    fn scripts(&mut self) -> Result<(), IndexError> {
        let found = self.merged(Generation::scan_payouts, |of, key, ()| payouts::split_key(key).1 <= of.last.height)?;
        self.builder.append_all(payouts::TABLE, rows(found), |()| ())?;
        let found = self.merged(Generation::scan_p2pk, |of, _, first| is_below(of, *first))?;
        let mut before = None;
        // the earliest transaction that paid the script counts
        let first = rows(found).filter(|row| match row {
            Ok((key, _)) => before.replace(*key) != Some(*key),
            Err(_) => true,
        });
        self.builder.append_all(p2pk::TABLE, first, |row| row)
    }

    /// The entries of one table of all members, as far as they count.
    fn merged<K: Ord + 'static, V: 'static>(
        &self,
        scan: impl Fn(&Generation) -> Result<PackedEntries<K, V>, IndexError>,
        counts: fn(&InForce, &K, &V) -> bool,
    ) -> Result<MergedEntries<K, V>, IndexError> {
        let scanned = self.members.iter().map(|of| Ok(counting(of, scan(&of.generation)?, counts)));
        Ok(MergedEntries::new(scanned.collect::<Result<_, IndexError>>()?))
    }
}

/// The entries of a table of a generation of which `counts` says that they lie below its end.
fn counting<K: 'static, V: 'static>(
    in_force: &InForce,
    entries: PackedEntries<K, V>,
    counts: fn(&InForce, &K, &V) -> bool,
) -> PackedEntries<K, V> {
    if in_force.is_whole() {
        return entries;
    }
    let of = in_force.clone();
    Box::new(entries.filter(move |entry| entry.as_ref().map_or(true, |(key, value)| counts(&of, key, value))))
}

/// Whether the transaction of this key counts.
fn is_below(in_force: &InForce, txnum: [u8; 4]) -> bool {
    TxNum::from_key(txnum) < in_force.end
}

/// Whether the transaction of an output or input counts.
fn is_point_below(in_force: &InForce, point: &live_spends::TxPoint) -> bool {
    live_spends::split_tx_point(point).0 < in_force.end
}

/// Entries without their sources.
fn rows<K: Ord, V>(entries: MergedEntries<K, V>) -> impl Iterator<Item = Result<(K, V), IndexError>> {
    entries.map(|entry| entry.map(|(_, key, value)| (key, value)))
}

/// Packs what became of the outputs of a transaction.
fn push_states(
    packer: &mut spends::SpendPacker,
    txnum: TxNum,
    states: &mut Vec<OutputState>,
    ready: &mut Vec<PackedRow<7>>,
) -> Result<(), IndexError> {
    packer.push(txnum, states, ready)?;
    states.clear();
    Ok(())
}
