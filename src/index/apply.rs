//! Writes the effects of blocks into the tables, and reverts them.

use std::thread;

use bitcoin::hashes::Hash;
use redb::{ReadableTable, Table};

use super::effects::Effects;
use super::error::IndexError;
use super::keys::TxNum;
use super::resolve::BlockRun;
use super::tables::block_hashes::{BlockPlace, ChainMembership};
use super::tables::history::{self, HistoryRow};
use super::tables::transactions::TransactionRow;
use super::tables::{blocks, p2pk, payouts, spends, stale_blocks, stale_transactions, txids, unspent};
use super::update::Tables;

/// From this number of rows on, tables are written in parallel.
const WORTH_THREADS: u64 = 1_000;

impl Effects {
    /// Writes the rows of the blocks.
    ///
    /// Errors: [`IndexError::Unresolved`] if an output they spend is not unspent; [`IndexError::Threads`]; storage
    /// errors.
    pub(super) fn apply(
        &self,
        run: &BlockRun<'_>,
        prevouts: &[super::resolve::ResolvedPrevout],
        tables: &mut Tables<'_>,
    ) -> Result<(), IndexError> {
        let Tables { history, unspent, spends, txids, transactions, payouts, p2pk, .. } = tables;
        if self.scattered_rows() < WORTH_THREADS {
            self.apply_history(history)?;
            self.apply_outputs(run, prevouts, unspent, spends)?;
            self.apply_transactions(run, transactions, txids)?;
        } else {
            // each table is written by one thread; the history takes about as long as all others
            thread::scope(|scope| {
                let begin = || thread::Builder::new().name("write".into());
                let scripts = begin().spawn_scoped(scope, || self.apply_history(history));
                let outputs = begin().spawn_scoped(scope, || self.apply_outputs(run, prevouts, unspent, spends));
                let others = self.apply_transactions(run, transactions, txids);
                for thread in [scripts, outputs] {
                    thread.map_err(IndexError::Threads)?.join().unwrap_or(Err(IndexError::Broken))?;
                }
                others
            })?;
        }
        self.apply_payouts(payouts, p2pk)?;
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
        unspent: &mut Table<'_, &'static unspent::UnspentKeyBytes, &'static unspent::UnspentValue>,
        spends: &mut Table<'_, &'static spends::TxPoint, &'static spends::TxPoint>,
    ) -> Result<(), IndexError> {
        for (outpoint, input) in &self.spends {
            spends.insert(outpoint, input)?;
        }
        for (key, _) in &self.consumed {
            // `get_mut` copies the whole page, as in `apply_history`
            if unspent.get_mut(key)?.is_none() {
                return Err(not_unspent(run, prevouts, key));
            }
            unspent.remove(key)?;
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
    ) -> Result<(), IndexError> {
        for key in &self.payouts {
            payouts.insert(key, ())?;
        }
        for (key, txnum) in &self.p2pk {
            if p2pk.get(key)?.is_none() {
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
    ) -> Result<(), IndexError> {
        // reads all totals first and then writes all rows: a cursor that does both at each key takes twice as long
        let (mut added, mut pages) = (Vec::with_capacity(self.history.len()), Vec::new());
        for rows in self.history.chunk_by(|one, other| history::split_key(&one.0).0 == history::split_key(&other.0).0) {
            let (script, _) = history::split_key(&rows[0].0);
            let last = history::key(script, TxNum(u32::MAX));
            let before = table.range::<&history::HistoryKey>(..=&last)?.next_back().transpose()?;
            let before = before.map(|(key, row)| (*key.value(), *row.value()));
            let mut running = match &before {
                Some((key, row)) if history::split_key(key).0 == script => HistoryRow::decode(row)?,
                _ => HistoryRow::default(),
            };
            let first = added.len();
            for (key, change) in rows {
                running = running.plus(change).ok_or_else(|| {
                    IndexError::corrupt("history", "the totals of a script overflow with a new block")
                })?;
                added.push((key, running.encode()));
            }
            pages.push((before.map(|(key, _)| key), first..added.len()));
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

    /// Reverts the one block of the run, and stores it as stale.
    pub(super) fn revert(&self, run: &BlockRun<'_>, tables: &mut Tables<'_>) -> Result<(), IndexError> {
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
        for (key, row) in &self.consumed {
            tables.unspent.insert(key, row)?;
        }
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
        for (block, start) in run.blocks.iter().zip(run.own_starts()) {
            let stored = tables.blocks.remove(&blocks::key(start.height))?;
            let row = stored.map(|row| blocks::BlockRow::decode(row.value())).transpose()?;
            let row = row.filter(|row| Some(row) == self.blocks.first());
            let row = row.ok_or_else(|| {
                IndexError::corrupt(
                    "blocks",
                    format!("the row at height {} differs from the statistics of its block", start.height),
                )
            })?;
            tables.block_starts.remove(&start.key())?;
            let place = BlockPlace { height: start.height, membership: ChainMembership::Stale };
            tables.block_hashes.insert(block.hash.as_byte_array(), &place.value())?;
            let stale = stale_blocks::StaleBlock { row, raw: block.bytes.clone() };
            tables.stale_blocks.insert(&stale_blocks::key(start.height, block.hash), stale.encode().as_slice())?;
            for (transaction, index) in block.transactions.iter().zip(0..) {
                tables
                    .stale_transactions
                    .insert(&stale_transactions::key(transaction.prefix, block.hash, index), ())?;
            }
        }
        Ok(())
    }
}

fn expect(table: &'static str, was_there: bool) -> Result<(), IndexError> {
    if was_there { Ok(()) } else { Err(IndexError::corrupt(table, "a row of the block to be disconnected is missing")) }
}

/// Deletes the rows of a stale block: it is part of the active chain again, or too old.
pub(super) fn forget_stale(
    tables: &mut Tables<'_>,
    height: crate::chain::Height,
    block: &super::block::ParsedBlock,
) -> Result<(), IndexError> {
    tables.stale_blocks.remove(&stale_blocks::key(height, block.hash))?;
    for (transaction, index) in block.transactions.iter().zip(0..) {
        tables.stale_transactions.remove(&stale_transactions::key(transaction.prefix, block.hash, index))?;
    }
    Ok(())
}

/// The error that names the input which spends this output.
fn not_unspent(
    run: &BlockRun<'_>,
    prevouts: &[super::resolve::ResolvedPrevout],
    key: &unspent::UnspentKeyBytes,
) -> IndexError {
    let unspent::UnspentKey { txnum, vout, .. } = unspent::split_key(key);
    // of two inputs that spend one output the later is invalid
    match prevouts.iter().rposition(|prevout| prevout.txnum == txnum && prevout.vout.to_u32() == vout) {
        Some(input) => run.unresolved(input, "is spent already, or can never be spent"),
        None => IndexError::corrupt("unspent", format!("output {vout} of {txnum} is missing")),
    }
}
