//! Writes the effects of blocks into the tables, and reverts them.

use std::thread;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use redb::{ReadableTable, Table};

use super::super::error::IndexError;
use super::super::frozen::Generations;
use super::super::partial::Patience;
use super::effects::Effects;
use super::live_tables::Tables;
use super::prefetch::{LastTotals, PrefetchedRows};
use super::resolve::BlockRun;
use super::tables::block_hashes::{BlockPlace, ChainMembership};
use super::tables::blocks::BlockRow;
use super::tables::history;
use super::tables::transactions::TransactionRow;
use super::tables::{blocks, p2pk, payouts, spends, stale_blocks, stale_transactions, txids, unspent};
use crate::chain::Height;

/// From this number of rows on, several threads write the tables.
const WORTH_THREADS: u64 = 1_000;

impl Effects {
    /// Writes the rows of the blocks. What was `prefetched`, and is true of the tables, is not looked up there.
    ///
    /// Errors: [`IndexError::Unresolved`] if an output they spend is not unspent; [`IndexError::Threads`]; storage
    /// errors.
    pub(in crate::index) fn apply(
        &self,
        run: &BlockRun<'_>,
        prevouts: &[super::resolve::ResolvedPrevout],
        prefetched: Option<&PrefetchedRows>,
        tables: &mut Tables<'_>,
    ) -> Result<(), IndexError> {
        let Tables { generations, history, unspent, spends, overwritten, txids, transactions, payouts, p2pk, .. } =
            tables;
        let generations = &**generations;
        let mut outputs = OutputTables { generations, prefetched, unspent, spends, overwritten };
        if self.scattered_rows() < WORTH_THREADS {
            self.apply_history(history, prefetched, generations)?;
            self.apply_outputs(run, prevouts, &mut outputs)?;
            self.apply_transactions(run, transactions, txids)?;
        } else {
            // one thread writes each table; the history takes about as long as all others
            thread::scope(|scope| {
                let begin = || thread::Builder::new().name("write".into());
                // what is read of generations may have to be waited for
                let patience = Patience::current();
                let write_history = move || patience.scope(|| self.apply_history(history, prefetched, generations));
                let scripts = begin().spawn_scoped(scope, write_history);
                let outputs = &mut outputs;
                let write_outputs = move || patience.scope(|| self.apply_outputs(run, prevouts, outputs));
                let outputs = begin().spawn_scoped(scope, write_outputs);
                let others = self.apply_transactions(run, transactions, txids);
                for thread in [scripts, outputs] {
                    thread.map_err(IndexError::Threads)?.join().unwrap_or(Err(IndexError::Broken))?;
                }
                others
            })?;
        }
        self.apply_payouts(payouts, p2pk, generations)?;
        self.apply_blocks(run, tables)
    }

    fn apply_transactions(
        &self,
        run: &BlockRun<'_>,
        transactions: &mut Table<'_, &'static [u8; 4], &'static [u8]>,
        txids: &mut Table<'_, &'static txids::TxidKey, ()>,
    ) -> Result<(), IndexError> {
        for ((txnum, block, transaction), fee) in run.transactions().zip(&self.fees) {
            let is_coinbase = transaction.inputs.is_empty();
            let row = TransactionRow { txid: transaction.txid, fee: *fee, is_coinbase, raw: block.raw(transaction) };
            transactions.insert(&txnum.to_key(), row.encode().as_slice())?;
        }
        for key in &self.txids {
            txids.insert(key, ())?;
        }
        Ok(())
    }

    fn apply_outputs(
        &self,
        run: &BlockRun<'_>,
        prevouts: &[super::resolve::ResolvedPrevout],
        OutputTables { generations, prefetched, unspent, spends, overwritten }: &mut OutputTables<'_, '_>,
    ) -> Result<(), IndexError> {
        // first of all, because it alone finds that a frozen output is spent a second time
        for (outpoint, input) in &self.spends {
            if spends.insert(outpoint, input)?.is_some() {
                return Err(not_unspent(run, prevouts, outpoint));
            }
        }
        for (key, _) in &self.consumed {
            if prefetched.is_some_and(|rows| rows.is_frozen_output(key)) {
                continue;
            }
            // `get_mut` copies the whole page, as in `apply_history`
            if unspent.get_mut(key)?.is_some() {
                unspent.remove(key)?;
                continue;
            }
            let output = unspent::split_key(key);
            let outpoint = unspent::outpoint(key);
            if overwritten.get(&outpoint)?.is_some() || !generations.is_unspent(output)? {
                return Err(not_unspent(run, prevouts, &outpoint));
            }
        }
        for (outpoint, later) in &self.overwritten {
            overwritten.insert(outpoint, later)?;
        }
        for (key, row) in &self.created {
            unspent.insert(key, row)?;
        }
        Ok(())
    }

    fn apply_payouts(
        &self,
        payouts: &mut Table<'_, &'static payouts::PayoutKey, ()>,
        p2pk: &mut Table<'_, &'static p2pk::P2pkKey, &'static [u8; 4]>,
        generations: &Generations,
    ) -> Result<(), IndexError> {
        for key in &self.payouts {
            payouts.insert(key, ())?;
        }
        for (key, txnum) in &self.p2pk {
            let (key_hash, script) = p2pk::split_key(key);
            let is_frozen =
                || Ok::<_, IndexError>(generations.p2pk_scripts(key_hash)?.iter().any(|(known, _)| *known == script));
            if p2pk.get(key)?.is_none() && !is_frozen()? {
                p2pk.insert(key, &txnum.to_key())?;
            }
        }
        Ok(())
    }

    fn apply_blocks(&self, run: &BlockRun<'_>, tables: &mut Tables<'_>) -> Result<(), IndexError> {
        let starts = run.own_starts();
        for ((row, start), block) in self.blocks.iter().zip(starts).zip(run.blocks) {
            tables.blocks.insert(&blocks::key(start.height), row.encode().as_slice())?;
            tables.block_starts.insert(&start.key(), &start.value())?;
            let place = BlockPlace { height: start.height, membership: ChainMembership::Main };
            let hash = block.hash.as_byte_array();
            let was_stale = tables.block_hashes.insert(hash, &place.value())?.is_some();
            if was_stale {
                forget_stale(tables, start.height, block)?;
            }
        }
        Ok(())
    }

    /// Writes the history. The new rows of each script continue the totals of its last row.
    fn apply_history(
        &self,
        table: &mut Table<'_, &'static history::HistoryKey, &'static history::HistoryValue>,
        prefetched: Option<&PrefetchedRows>,
        generations: &Generations,
    ) -> Result<(), IndexError> {
        // reads all totals first and then writes all rows: a cursor that does both at each key takes twice as long
        let (mut added, mut pages) = (Vec::with_capacity(self.history.len()), Vec::new());
        for rows in self.history.chunk_by(|one, other| history::split_key(&one.0).0 == history::split_key(&other.0).0) {
            let (script, _) = history::split_key(&rows[0].0);
            let LastTotals { before, totals: mut running } = match prefetched.and_then(|known| known.totals(script)) {
                Some(known) => *known,
                None => LastTotals::read(table, generations, script)?,
            };
            let first = added.len();
            for (key, change) in rows {
                running = running.plus(change).ok_or_else(|| {
                    IndexError::corrupt("history", "the totals of a script overflow with a new block")
                })?;
                added.push((key, running.encode()));
            }
            pages.push((before, first..added.len()));
        }
        for (before, rows) in pages {
            // `get_mut` copies the whole page at once; an insert into a page that is not copied yet moves it row by row
            if let Some(before) = before {
                table.get_mut(&before)?;
            }
            for (key, row) in &added[rows] {
                table.insert(key, row)?;
            }
        }
        Ok(())
    }

    /// Reverts the one block of the run, which has this row, and stores it as stale.
    pub(in crate::index) fn revert(
        &self,
        run: &BlockRun<'_>,
        row: &BlockRow,
        tables: &mut Tables<'_>,
    ) -> Result<(), IndexError> {
        for (txnum, _, _) in run.transactions() {
            tables.transactions.remove(&txnum.to_key())?;
            tables.first_seen.remove(&txnum.to_key())?;
        }
        for key in &self.txids {
            expect("txids", tables.txids.remove(key)?.is_some())?;
        }
        for (outpoint, _) in &self.spends {
            expect("spends", tables.spends.remove(outpoint)?.is_some())?;
        }
        for (key, _) in &self.created {
            expect("unspent", tables.unspent.remove(key)?.is_some())?;
        }
        for (outpoint, _) in &self.overwritten {
            expect("overwritten", tables.overwritten.remove(outpoint)?.is_some())?;
        }
        self.restore_unspent(&tables.generations.clone(), tables)?;
        for (key, _) in &self.history {
            expect("history", tables.history.remove(key)?.is_some())?;
        }
        for key in &self.payouts {
            expect("payouts", tables.payouts.remove(key)?.is_some())?;
        }
        for (key, txnum) in &self.p2pk {
            let first_here = tables.p2pk.get(key)?.is_some_and(|first| *first.value() == txnum.to_key());
            if first_here {
                tables.p2pk.remove(key)?;
            }
        }
        for start in run.own_starts() {
            tables.blocks.remove(&blocks::key(start.height))?;
            tables.block_starts.remove(&start.key())?;
        }
        self.store_stale(run, row, tables)
    }

    /// Reverts the one block of the run, which has this row and is in no generation once their end is `lowered`, and
    /// stores it as stale.
    pub(in crate::index) fn revert_frozen(
        &self,
        run: &BlockRun<'_>,
        row: &BlockRow,
        lowered: &Generations,
        tables: &mut Tables<'_>,
    ) -> Result<(), IndexError> {
        for (txnum, _, _) in run.transactions() {
            tables.first_seen.remove(&txnum.to_key())?;
        }
        for (key, _) in &self.created {
            // disconnecting a block above inserted it, or it is in the generation
            tables.unspent.remove(key)?;
        }
        self.restore_unspent(lowered, tables)?;
        self.store_stale(run, row, tables)
    }

    /// Inserts the outputs that are unspent again, but those that a generation has.
    fn restore_unspent(&self, generations: &Generations, tables: &mut Tables<'_>) -> Result<(), IndexError> {
        for (key, row) in &self.consumed {
            if !generations.has_unspent_row(unspent::split_key(key))? {
                tables.unspent.insert(key, row)?;
            }
        }
        Ok(())
    }

    fn store_stale(&self, run: &BlockRun<'_>, row: &BlockRow, tables: &mut Tables<'_>) -> Result<(), IndexError> {
        for (block, start) in run.blocks.iter().zip(run.own_starts()) {
            if Some(row) != self.blocks.first() {
                return Err(IndexError::corrupt(
                    "blocks",
                    format!("the row at height {} differs from the statistics of its block", start.height),
                ));
            }
            insert_stale(tables, start.height, block, row)?;
        }
        Ok(())
    }
}

/// The tables about outputs, which one thread writes.
struct OutputTables<'t, 'txn> {
    generations: &'t Generations,
    prefetched: Option<&'t PrefetchedRows>,
    unspent: &'t mut Table<'txn, &'static unspent::UnspentKeyBytes, &'static unspent::UnspentValue>,
    spends: &'t mut Table<'txn, &'static spends::TxPoint, &'static spends::TxPoint>,
    overwritten: &'t mut Table<'txn, &'static spends::TxPoint, &'static [u8; 4]>,
}

fn expect(table: &'static str, was_there: bool) -> Result<(), IndexError> {
    if was_there { Ok(()) } else { Err(IndexError::corrupt(table, "a row of the block to be disconnected is missing")) }
}

/// Writes the rows of a stale block.
pub(in crate::index) fn insert_stale(
    tables: &mut Tables<'_>,
    height: Height,
    block: &super::super::block::ParsedBlock,
    row: &BlockRow,
) -> Result<(), IndexError> {
    let place = BlockPlace { height, membership: ChainMembership::Stale };
    tables.block_hashes.insert(block.hash.as_byte_array(), &place.value())?;
    let stale = stale_blocks::StaleBlock { row: row.clone(), raw: block.bytes.clone() };
    let key = stale_blocks::key(height, block.hash);
    tables.stale_blocks.insert(&key, stale.encode_row()?.as_slice())?;
    tables.stale_raw_blocks.insert(&key, stale.raw.as_slice())?;
    for (transaction, index) in block.transactions.iter().zip(0..) {
        tables.stale_transactions.insert(&stale_transactions::key(transaction.prefix, block.hash, index), ())?;
    }
    Ok(())
}

/// Deletes the rows of a stale block: it is part of the active chain again, or too old.
pub(in crate::index) fn forget_stale(
    tables: &mut Tables<'_>,
    height: Height,
    block: &super::super::block::ParsedBlock,
) -> Result<(), IndexError> {
    let key = stale_blocks::key(height, block.hash);
    tables.stale_blocks.remove(&key)?;
    tables.stale_raw_blocks.remove(&key)?;
    for (transaction, index) in block.transactions.iter().zip(0..) {
        tables.stale_transactions.remove(&stale_transactions::key(transaction.prefix, block.hash, index))?;
    }
    Ok(())
}

/// The error that names the input which spends this output.
fn not_unspent(
    run: &BlockRun<'_>,
    prevouts: &[super::resolve::ResolvedPrevout],
    outpoint: &spends::TxPoint,
) -> IndexError {
    let (txnum, vout) = spends::split_tx_point(outpoint);
    // of two inputs that spend one output the later is invalid
    match prevouts.iter().rposition(|prevout| prevout.txnum == txnum && prevout.vout == vout) {
        Some(input) => run.unresolved(input, "is spent already, or can never be spent"),
        None => IndexError::corrupt("unspent", format!("output {} of {txnum} is missing", vout.to_u32())),
    }
}

/// The lowest stale block that is stored.
pub(in crate::index) fn lowest_stale(
    tables: &Tables<'_>,
) -> Result<Option<(Height, BlockHash, stale_blocks::StaleBlock)>, IndexError> {
    let Some(key) = tables.stale_blocks.first()?.map(|(key, _)| *key.value()) else { return Ok(None) };
    let (height, hash) = stale_blocks::split_key(&key);
    let stale = stale_blocks::StaleBlock::read(&tables.stale_blocks, &tables.stale_raw_blocks, &key)?;
    Ok(stale.map(|stale| (height, hash, stale)))
}
