//! The optional table `block_filters`: the headers of the basic compact filters of all blocks (BIP157, BIP158). The filters
//! themselves are computed when they are requested.
//!
//! ```text
//!   connect ── complete up to the block before ──► its row            disconnect ──► its row is deleted
//!   Index::tend_filters ── switched off, or of another version ──► rows are deleted, a few at a time
//!                       └─ incomplete ──► filters of the lowest missing blocks, on several threads ──► their rows
//!   Snapshot::basic_filter ── transactions of the block, and those with the outputs that it spends ──► filter
//! ```
//!
//! Rows are complete up to a height that `meta` has, so lookups know whether they miss any.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bitcoin::bip158::{FilterHash, FilterHeader};
use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Txid};
use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata};

use super::super::block::ParsedBlock;
use super::super::damage::catch_damage;
use super::super::error::IndexError;
use super::super::keys::TxNum;
use super::super::open::Index;
use super::super::partial::Patience;
use super::super::snapshot::{Snapshot, WantedTransaction};
use super::live_tables::Tables;
use super::resolve::{BlockRun, parse};
use super::tables::block_filters::{self, FiltersState, NAME, read_state};
use super::tables::blocks::BlockRow;
use super::tables::meta;
use super::tip_record::read_tip;
use crate::chain::Height;
use crate::chain::compact_filter::{BasicFilter, before_genesis, spent_outpoints};
use crate::chain::raw::{RawTransaction, split_transactions};

/// Threads that compute filters at a time.
const THREADS: NonZeroUsize = NonZeroUsize::new(4).unwrap();
/// The most transactions with spent outputs that are read together.
const AT_ONCE: usize = 128;

/// Counts bytes that are read, and returns how many more may be.
pub type CountBytes<'c, E> = &'c mut dyn FnMut(usize) -> Result<usize, E>;

impl Snapshot {
    /// The filter header (BIP157) of the block of the active chain at a height.
    ///
    /// Errors: [`IndexError::FiltersOff`], `FiltersNotReady` unless the table is on and has the block; storage errors.
    pub fn filter_header(&self, height: Height) -> Result<FilterHeader, IndexError> {
        let next = match self.filters_state {
            FiltersState::Off | FiltersState::Dropping { then_on: false } => return Err(IndexError::FiltersOff),
            FiltersState::Dropping { then_on: true } => Height::GENESIS,
            FiltersState::On { next } => next,
        };
        if height >= next {
            let blocks = self.tip().map_or(0, |tip| tip.height.next().to_u32());
            return Err(IndexError::FiltersNotReady { built: next.to_u32(), blocks });
        }
        let row = self.block_filters.as_ref().map(|table| table.get(&block_filters::key(height))).transpose()?;
        let row = row.flatten().ok_or_else(|| missing(height))?;
        Ok(FilterHeader::from_byte_array(*row.value()))
    }

    /// The basic filter (BIP158) of the block of the active chain at a height, whose row is given. `count` receives the bytes of
    /// what is read: the block, and the transactions with the outputs that it spends.
    ///
    /// Errors: as [`Snapshot::filter_header`]; [`IndexError::RawUnavailable`] if the bytes of frozen transactions cannot be read;
    /// `Corrupt` if the stored header is not that of the filter; those of `count`.
    pub fn basic_filter<E: From<IndexError>>(
        &self,
        (height, row): (Height, &BlockRow),
        count: CountBytes<'_, E>,
    ) -> Result<BasicFilter, E> {
        let stored = self.filter_header(height)?;
        let previous = height.previous().map_or_else(|| Ok(before_genesis()), |below| self.filter_header(below))?;
        let filter = self.compute_filter((height, row), count)?;
        if filter.header(&previous) == stored { Ok(filter) } else { Err(differs(height).into()) }
    }

    /// The basic filter of a block, whether or not the table has its header.
    fn compute_filter<E: From<IndexError>>(
        &self,
        (height, row): (Height, &BlockRow),
        count: CountBytes<'_, E>,
    ) -> Result<BasicFilter, E> {
        let size = usize::try_from(row.size).unwrap_or_default();
        count(size)?;
        let mut raw = Vec::with_capacity(size);
        let rows = self.read_transactions(row.first_txnum(height)?, row.transactions, &mut raw)?;
        let transactions = split_transactions(rows.len(), &raw)
            .map_err(|error| IndexError::corrupt("transactions", format!("block {}: {error}", row.hash)))?;
        let own: HashSet<Txid> = rows.into_iter().map(|(txid, _)| txid).collect();
        // the script of an output that is created and spent in the block is an element already
        let spent = spent_outpoints(&transactions).filter(|outpoint| !own.contains(&outpoint.txid)).collect();
        let spent = self.scripts_of(spent, count)?;
        let paid = transactions.iter().flat_map(RawTransaction::outputs).map(|output| output.script_pubkey);
        Ok(BasicFilter::new(row.hash, paid, spent.iter().map(AsRef::as_ref)))
    }

    /// The scriptPubKeys of outputs of the active chain, in no particular order.
    fn scripts_of<E: From<IndexError>>(
        &self,
        mut outpoints: Vec<OutPoint>,
        count: CountBytes<'_, E>,
    ) -> Result<Vec<Box<[u8]>>, E> {
        outpoints.sort_unstable();
        let of_each: Vec<_> = outpoints.chunk_by(|one, other| one.txid == other.txid).collect();
        let mut scripts = Vec::with_capacity(outpoints.len());
        for together in of_each.chunks(AT_ONCE) {
            let wanted: Vec<_> = together.iter().map(|same| WantedTransaction::Newest(same[0].txid)).collect();
            let read = self.read_several(&wanted, count(0)?, |stored| stored.parts)?;
            for (same, read) in together.iter().zip(read) {
                let parts = match read {
                    Some(parts) => parts,
                    // every copy of a repeated transaction (BIP30) has the same outputs
                    None => self.newest(&same[0].txid)?.ok_or_else(|| unknown(&same[0]))?.parts,
                };
                count(parts.raw().len())?;
                append_scripts(same, parts.raw(), &mut scripts)?;
            }
        }
        Ok(scripts)
    }

    /// The hashes of the filters of blocks from a height on, which have so many transactions together or one more block.
    fn filter_hashes(&self, from: Height, transactions: u64) -> Result<Vec<FilterHash>, IndexError> {
        let end = self.tip().map_or(Height::GENESIS, |tip| tip.height.next());
        let (mut blocks, mut height, mut counted) = (Vec::new(), from, 0);
        while height < end && counted < transactions {
            let absent = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
            let row = self.block(height)?.ok_or_else(absent)?;
            counted += u64::from(row.transactions);
            blocks.push((height, row));
            height = height.next();
        }
        on_threads(&blocks, |(height, row)| {
            Ok(self.compute_filter::<IndexError>((*height, row), &mut |_| Ok(usize::MAX))?.hash())
        })
    }
}

impl FiltersState {
    /// The state after the setting says whether the table is to be on.
    pub(in crate::index) fn switched(self, on: bool) -> Self {
        match self {
            Self::Off if on => Self::EMPTY,
            Self::Off => Self::Off,
            Self::On { .. } if on => self,
            Self::On { .. } | Self::Dropping { .. } => Self::Dropping { then_on: on },
        }
    }
}

impl Index {
    /// Adds rows that `block_filters` lacks, or deletes rows that are of no use, in one commit that is not durable. Returns whether
    /// any may be left. A commit deletes this number of rows, or adds those of blocks that have [`THREADS`] times as many
    /// transactions: a row follows from all transactions of its block.
    ///
    /// Errors: as [`Snapshot::basic_filter`]; [`IndexError::Threads`]; storage errors.
    pub(in crate::index) fn tend_filters(&mut self, rows: u32) -> Result<bool, IndexError> {
        let state = self.filters_state()?;
        let added = match state {
            FiltersState::Off => return Ok(false),
            FiltersState::Dropping { .. } => Vec::new(),
            FiltersState::On { next } => {
                let transactions = u64::from(rows.max(1)).saturating_mul(THREADS.get().try_into().unwrap_or(1));
                let added = self.snapshot()?.filter_hashes(next, transactions)?;
                if added.is_empty() {
                    return Ok(false);
                }
                added
            }
        };
        let mut update = self.update()?;
        update.with_tables(|tables, _| match state {
            FiltersState::On { next } => append(tables, next, added),
            FiltersState::Dropping { then_on } if drop_rows(tables, rows)? => {
                write_state(tables, if then_on { FiltersState::EMPTY } else { FiltersState::Off })
            }
            _ => Ok(()),
        })?;
        update.commit_non_durable()?;
        Ok(true)
    }

    /// How many blocks have a row of `block_filters`, and how many there are. `None` if the table is off or complete.
    ///
    /// Errors: storage errors.
    pub fn incomplete_filters(&self) -> Result<Option<(u32, u32)>, IndexError> {
        let meta = self.database.begin_read()?.open_table(meta::TABLE)?;
        let blocks = read_tip(&meta)?.map_or(Height::GENESIS, |tip| tip.height.next());
        let next = match read_state(&meta)? {
            FiltersState::Off => return Ok(None),
            FiltersState::Dropping { .. } => Height::GENESIS,
            FiltersState::On { next } if next >= blocks => return Ok(None),
            FiltersState::On { next } => next,
        };
        Ok(Some((next.to_u32(), blocks.to_u32())))
    }

    pub(in crate::index) fn filters_state(&self) -> Result<FiltersState, IndexError> {
        read_state(&self.database.begin_read()?.open_table(meta::TABLE)?)
    }
}

pub(in crate::index) fn write_state(tables: &mut Tables<'_>, state: FiltersState) -> Result<(), IndexError> {
    match state.encode() {
        Some(row) => tables.meta.insert(NAME, row.as_slice())?,
        None => tables.meta.remove(NAME)?,
    };
    Ok(())
}

/// Writes the rows of blocks from a height on, of which there are none yet.
fn append(tables: &mut Tables<'_>, next: Height, hashes: Vec<FilterHash>) -> Result<(), IndexError> {
    let mut header = match next.previous() {
        None => before_genesis(),
        Some(below) => {
            let row = tables.block_filters.get(&block_filters::key(below))?.ok_or_else(|| missing(below))?;
            FilterHeader::from_byte_array(*row.value())
        }
    };
    let mut height = next;
    for hash in hashes {
        header = hash.filter_header(&header);
        tables.block_filters.insert(&block_filters::key(height), header.as_byte_array())?;
        height = height.next();
    }
    write_state(tables, FiltersState::On { next: height })
}

/// Deletes so many rows. Returns whether none is left.
fn drop_rows(tables: &mut Tables<'_>, rows: u32) -> Result<bool, IndexError> {
    for _ in 0..rows {
        if tables.block_filters.pop_first()?.is_none() {
            return Ok(true);
        }
    }
    Ok(tables.block_filters.is_empty()?)
}

/// Whether blocks that are connected have rows: the table is on, and no row of a block below them is missing.
pub(in crate::index) fn appends_filters(run: &BlockRun<'_>, tables: &Tables<'_>) -> Result<bool, IndexError> {
    let Some(first) = run.own_starts().first() else { return Ok(false) };
    Ok(read_state(&tables.meta)? == FiltersState::On { next: first.height })
}

/// Writes the rows of blocks that are connected. `spent` has the scriptPubKey of the output that each of their inputs spends,
/// `None` if they have no rows.
pub(in crate::index) fn connect_filters(
    run: &BlockRun<'_>,
    spent: Option<&[Box<[u8]>]>,
    tables: &mut Tables<'_>,
) -> Result<(), IndexError> {
    let starts = run.own_starts();
    let (Some(first), Some(spent)) = (starts.first(), spent) else { return Ok(()) };
    let (mut blocks, mut rest) = (Vec::with_capacity(run.blocks.len()), spent);
    for (block, start) in run.blocks.iter().zip(starts) {
        let (own, behind) = rest.split_at(block.inputs.len());
        blocks.push((block, start.first, own));
        rest = behind;
    }
    let hashes = on_threads(&blocks, |(block, first, spent)| Ok(filter_of(block, *first, spent)?.hash()))?;
    append(tables, first.height, hashes)
}

/// Deletes the row of a block that is disconnected, if there is one.
pub(in crate::index) fn disconnect_filter(height: Height, tables: &mut Tables<'_>) -> Result<(), IndexError> {
    let FiltersState::On { next } = read_state(&tables.meta)? else { return Ok(()) };
    if next <= height {
        return Ok(());
    }
    if tables.block_filters.remove(&block_filters::key(height))?.is_none() {
        return Err(missing(height));
    }
    write_state(tables, FiltersState::On { next: height })
}

/// The basic filter of a block that spends outputs with these scriptPubKeys.
pub(in crate::index) fn filter_of<S: AsRef<[u8]>>(
    block: &ParsedBlock,
    first: TxNum,
    spent: &[S],
) -> Result<BasicFilter, IndexError> {
    let transactions = block.transactions.iter().map(|transaction| parse(first, block.raw(transaction)));
    let transactions = transactions.collect::<Result<Vec<_>, _>>()?;
    let paid = transactions.iter().flat_map(RawTransaction::outputs).map(|output| output.script_pubkey);
    Ok(BasicFilter::new(block.hash, paid, spent.iter().map(AsRef::as_ref)))
}

/// The results for items in their order, computed by a few threads if there are several.
fn on_threads<T: Sync, R: Send>(
    items: &[T],
    compute: impl Fn(&T) -> Result<R, IndexError> + Sync,
) -> Result<Vec<R>, IndexError> {
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN).min(THREADS).get().min(items.len());
    if threads < 2 {
        return items.iter().map(compute).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return Ok::<_, IndexError>(done) };
            done.push((at, catch_damage(|| compute(item))?));
        }
    };
    let patience = Patience::current();
    let mut done = thread::scope(|scope| {
        let mut others = Vec::with_capacity(threads);
        for _ in 1..threads {
            let builder = thread::Builder::new().name("filters".into());
            others.push(builder.spawn_scoped(scope, || patience.scope(work)).map_err(IndexError::Threads)?);
        }
        let mut done = work()?;
        for other in others {
            let panicked = |_| IndexError::Damaged { what: "a thread that computes filters failed".to_owned() };
            done.extend(other.join().map_err(panicked)??);
        }
        Ok::<_, IndexError>(done)
    })?;
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Appends the scriptPubKeys of outputs of a transaction, in the order of their vout.
fn append_scripts(outpoints: &[OutPoint], raw: &[u8], scripts: &mut Vec<Box<[u8]>>) -> Result<(), IndexError> {
    let transaction = RawTransaction::parse_whole(raw).map_err(|error| {
        IndexError::corrupt("transactions", format!("{} is not a transaction: {error}", outpoints[0].txid))
    })?;
    let mut outputs = (0..).zip(transaction.outputs()).peekable();
    for outpoint in outpoints {
        while outputs.next_if(|(vout, _)| *vout < outpoint.vout).is_some() {}
        let output = outputs.peek().filter(|(vout, _)| *vout == outpoint.vout);
        scripts.push(output.ok_or_else(|| unknown(outpoint))?.1.script_pubkey.into());
    }
    Ok(())
}

fn unknown(outpoint: &OutPoint) -> IndexError {
    IndexError::corrupt("txids", format!("{outpoint} is spent on the active chain, but not in the index"))
}

fn missing(height: Height) -> IndexError {
    IndexError::corrupt(NAME, format!("the row at height {height} is missing"))
}

fn differs(height: Height) -> IndexError {
    IndexError::corrupt(NAME, format!("the row at height {height} is not the header of the filter of its block"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_and_an_error_is_returned() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(
            on_threads(&items, |item| Ok(item * 2)).unwrap(),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert!(on_threads(&items[..0], |item| Ok(*item)).unwrap().is_empty());
        let failing = |item: &u32| if *item == 57 { Err(IndexError::Broken) } else { Ok(*item) };
        assert!(matches!(on_threads(&items, failing), Err(IndexError::Broken)));
    }

    #[test]
    fn a_table_that_is_switched_keeps_rows_only_while_it_is_on() {
        let on = FiltersState::On { next: Height::from(7) };
        let dropping = |then_on| FiltersState::Dropping { then_on };
        assert_eq!(
            (FiltersState::Off.switched(true), FiltersState::Off.switched(false)),
            (FiltersState::EMPTY, FiltersState::Off)
        );
        assert_eq!((on.switched(true), on.switched(false)), (on, dropping(false)));
        assert_eq!((dropping(false).switched(true), dropping(true).switched(false)), (dropping(true), dropping(false)));
    }
}
