//! The live rows of the optional tables: stored with each block, added for the blocks before, and read by snapshots.

use redb::{ReadableTable, ReadableTableMetadata, Table};

use super::super::error::IndexError;
use super::super::frozen::{Generations, InForce};
use super::super::hot::live_tables::Tables;
use super::super::hot::resolve::{BlockRun, parse};
use super::super::hot::tables::blocks::next_txnum;
use super::super::hot::tables::transactions::TransactionRow;
use super::super::keys::TxNum;
use super::super::snapshot::Snapshot;
use super::state::write_state;
use super::{OptionalTable, RowContext, TableState, read_state};

/// The live rows of a table, which are keys without values.
pub(in crate::index) trait LiveRows {
    fn insert_key(&mut self, key: &[u8]) -> Result<(), IndexError>;

    fn remove_key(&mut self, key: &[u8]) -> Result<(), IndexError>;

    /// Removes the first. Returns whether there was one.
    fn pop_key(&mut self) -> Result<bool, IndexError>;

    fn has_no_rows(&self) -> Result<bool, IndexError>;
}

impl<const KEY: usize> LiveRows for Table<'_, &'static [u8; KEY], ()> {
    fn insert_key(&mut self, key: &[u8]) -> Result<(), IndexError> {
        self.insert(&sized(key)?, ())?;
        Ok(())
    }

    fn remove_key(&mut self, key: &[u8]) -> Result<(), IndexError> {
        self.remove(&sized(key)?)?;
        Ok(())
    }

    fn pop_key(&mut self) -> Result<bool, IndexError> {
        Ok(self.pop_first()?.is_some())
    }

    fn has_no_rows(&self) -> Result<bool, IndexError> {
        Ok(self.is_empty()?)
    }
}

fn sized<const KEY: usize>(key: &[u8]) -> Result<[u8; KEY], IndexError> {
    key.try_into().map_err(|_| IndexError::corrupt("meta", "a key of an optional table has another size"))
}

impl Tables<'_> {
    /// The live rows of an optional table.
    pub(in crate::index) fn optional(&mut self, table: OptionalTable) -> &mut dyn LiveRows {
        match table {
            OptionalTable::Wtxids => &mut self.wtxids,
            OptionalTable::AddressPrefixes => &mut self.address_prefixes,
            OptionalTable::OpReturns => &mut self.op_returns,
        }
    }
}

impl Snapshot {
    /// Checks that every transaction is in the file of its generation or has a live row.
    ///
    /// Errors: [`IndexError::TableOff`], `TableNotReady` unless the table is on and complete; storage errors.
    pub(in crate::index) fn check_complete(&self, table: OptionalTable) -> Result<(), IndexError> {
        let from = match self.optional.state(table) {
            TableState::On { from } => from,
            TableState::Dropping { then_on: true } => TxNum(u32::MAX),
            _ => return Err(IndexError::TableOff { table }),
        };
        let lacks = |of: &&InForce| of.derived(table).is_none() && of.first() < from;
        if from <= self.generations.end() && !self.generations.iter().any(|of| lacks(&of)) {
            return Ok(());
        }
        let transactions = match self.tip() {
            Some(tip) => self.block(tip.height)?.map(|row| next_txnum(&row.running)).transpose()?.unwrap_or_default(),
            None => TxNum(0),
        };
        let of_generation = |of: &InForce| if lacks(&of) { 0 } else { of.end.0 - of.first().0 };
        let frozen: u32 = self.generations.iter().map(of_generation).sum();
        let live = transactions.0.saturating_sub(from.max(self.generations.end()).0);
        let building = self.generations.building(table);
        let transactions = u64::from(transactions.0);
        let built = u64::from(frozen).saturating_add(live.into()).saturating_add(building).min(transactions);
        Err(IndexError::TableNotReady { table, built, transactions })
    }
}

/// Adds the rows of live transactions before `from`, and records that those from `lower` on are there.
pub(super) fn fill(
    tables: &mut Tables<'_>,
    table: OptionalTable,
    context: RowContext,
    (lower, from): (TxNum, TxNum),
) -> Result<(), IndexError> {
    let mut keys = Vec::new();
    for row in tables.transactions.range::<&[u8; 4]>(&lower.to_key()..&from.to_key())? {
        let (key, row) = row?;
        let txnum = TxNum::from_key(*key.value());
        let transaction = parse(txnum, TransactionRow::decode(row.value())?.raw)?;
        table.each_key(context, txnum, &transaction, &mut |key| keys.push(key.to_vec()));
    }
    keys.sort_unstable();
    let rows = tables.optional(table);
    keys.iter().try_for_each(|key| rows.insert_key(key))?;
    write_state(tables, table, TableState::On { from: lower })
}

/// Deletes so many rows. Returns whether none is left.
pub(super) fn drop_rows(tables: &mut Tables<'_>, table: OptionalTable, rows: u32) -> Result<bool, IndexError> {
    let live = tables.optional(table);
    for _ in 0..rows {
        if !live.pop_key()? {
            return Ok(true);
        }
    }
    live.has_no_rows()
}

/// The keys of the transactions of a run, in their order.
fn keys_of(run: &BlockRun<'_>, table: OptionalTable, context: RowContext) -> Result<Vec<Vec<u8>>, IndexError> {
    let mut keys = Vec::new();
    for (txnum, block, transaction) in run.transactions() {
        if table.is_possible(transaction.facts.has_witness) {
            let transaction = parse(txnum, block.raw(transaction))?;
            table.each_key(context, txnum, &transaction, &mut |key| keys.push(key.to_vec()));
        }
    }
    keys.sort_unstable();
    Ok(keys)
}

/// Writes the rows of blocks that are connected into the tables that are on.
pub(in crate::index) fn connect_optional(
    run: &BlockRun<'_>,
    context: RowContext,
    tables: &mut Tables<'_>,
) -> Result<(), IndexError> {
    for table in OptionalTable::ALL {
        if let TableState::On { .. } = read_state(&tables.meta, table)? {
            let rows = tables.optional(table);
            keys_of(run, table, context)?.iter().try_for_each(|key| rows.insert_key(key))?;
        }
    }
    Ok(())
}

/// Deletes the rows of a block that is disconnected.
pub(in crate::index) fn disconnect_optional(
    run: &BlockRun<'_>,
    context: RowContext,
    tables: &mut Tables<'_>,
) -> Result<(), IndexError> {
    for table in OptionalTable::ALL {
        if let TableState::On { from } = read_state(&tables.meta, table)? {
            let rows = tables.optional(table);
            // of a frozen block, and of one before `from`, there may be none
            keys_of(run, table, context)?.iter().try_for_each(|key| rows.remove_key(key))?;
            if run.first < from {
                write_state(tables, table, TableState::On { from: run.first })?;
            }
        }
    }
    Ok(())
}

/// Records that the transactions of a generation that is put on top of the tip have no live rows.
pub(in crate::index) fn skip_optional(tables: &mut Tables<'_>, generations: &Generations) -> Result<(), IndexError> {
    for table in OptionalTable::ALL {
        if let TableState::On { .. } = read_state(&tables.meta, table)? {
            write_state(tables, table, TableState::On { from: generations.end() })?;
        }
    }
    Ok(())
}
