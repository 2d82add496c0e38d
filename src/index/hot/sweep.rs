//! Deletes live rows that a generation has. A generation is put into force in one small commit; the live rows of its
//! blocks are shadowed from then on: no read returns them. They are deleted afterwards in small commits, between blocks.

use std::sync::Arc;

use redb::{ReadableDatabase, ReadableTable, Table, Value};

use super::super::error::IndexError;
use super::super::frozen::Generations;
use super::super::keys::TxNum;
use super::super::open::Index;
use super::super::optional::{OptionalTable, txnum_of};
use super::live_tables::Tables;
use super::sweep_cursor::SweepCursor;
use super::tables::block_hashes::{BlockPlace, ChainMembership};
use super::tables::{history, meta, payouts, spends, txids, unspent};

impl Index {
    /// Deletes shadowed rows in one commit that is not durable, for which it looks at so many rows. Returns whether any may
    /// be left.
    ///
    /// Errors: storage errors.
    pub fn sweep(&mut self, rows: usize) -> Result<bool, IndexError> {
        if !self.has_shadowed_rows()? {
            return Ok(false);
        }
        let mut cursor = std::mem::take(&mut self.sweep_cursor);
        let mut update = self.update()?;
        let is_done = update.with_tables(|tables, _| sweep(tables, &mut cursor, rows))?;
        update.commit_non_durable()?;
        if !is_done {
            self.sweep_cursor = cursor;
        }
        Ok(!is_done)
    }

    /// Whether live rows may be shadowed by a generation.
    ///
    /// Errors: storage errors.
    pub fn has_shadowed_rows(&self) -> Result<bool, IndexError> {
        Ok(self.database.begin_read()?.open_table(meta::TABLE)?.get(meta::SHADOWED)?.is_some())
    }
}

/// Deletes all shadowed rows.
pub(in crate::index) fn sweep_all(tables: &mut Tables<'_>) -> Result<(), IndexError> {
    /// Rows whose keys are held at a time.
    const STEP: usize = 10_000;
    if tables.meta.get(meta::SHADOWED)?.is_none() {
        return Ok(());
    }
    let mut cursor = SweepCursor::default();
    while !sweep(tables, &mut cursor, STEP)? {}
    Ok(())
}

/// Looks at so many rows from the cursor on, and deletes those that are shadowed. Returns whether it was the last.
fn sweep(tables: &mut Tables<'_>, cursor: &mut SweepCursor, mut rows: usize) -> Result<bool, IndexError> {
    let generations = Arc::clone(&tables.generations);
    while rows > 0 {
        let (looked_at, next) = sweep_table(tables, &generations, cursor, rows)?;
        rows = rows.saturating_sub(looked_at);
        match next {
            Some(key) => cursor.key = key,
            None if cursor.table == LAST_TABLE => {
                tables.meta.remove(meta::SHADOWED)?;
                return Ok(true);
            }
            None => *cursor = SweepCursor { table: cursor.table + 1, key: Vec::new() },
        }
    }
    Ok(false)
}

/// The number of the last table in [`sweep_table`].
const LAST_TABLE: usize = 13;

/// Looks at the next rows of one table. Returns how many, and the key after them unless the table ends before.
fn sweep_table(
    tables: &mut Tables<'_>,
    generations: &Generations,
    SweepCursor { table, key }: &SweepCursor,
    rows: usize,
) -> Result<(usize, Option<Vec<u8>>), IndexError> {
    let Some(last) = generations.last() else { return Ok((0, None)) };
    let end = generations.end();
    match table {
        0 => step(&mut tables.spends, key, rows, |_, spender| Ok(spends::split_tx_point(spender).0 < end)),
        1 => step(&mut tables.overwritten, key, rows, |_, later| Ok(TxNum::from_key(*later) < end)),
        2 => step(&mut tables.history, key, rows, |key, _| Ok(history::split_key(key).1 < end)),
        3 => step(&mut tables.unspent, key, rows, |key, _| {
            let output = unspent::split_key(key);
            // an output that was spent in a block that left the chain has a live row alone
            Ok(output.txnum < end && generations.has_unspent_row(output)?)
        }),
        4 => step(&mut tables.txids, key, rows, |key, ()| Ok(txids::split_key(key).1 < end)),
        5 => step(&mut tables.transactions, key, rows, |key, _| Ok(TxNum::from_key(*key) < end)),
        6 => step(&mut tables.payouts, key, rows, |key, ()| Ok(payouts::split_key(key).1 <= last.height)),
        7 => step(&mut tables.p2pk, key, rows, |_, first| Ok(TxNum::from_key(*first) < end)),
        8 => step(&mut tables.blocks, key, rows, |key, _| Ok(u32::from_be_bytes(*key) <= last.height.to_u32())),
        9 => step(&mut tables.block_starts, key, rows, |key, _| Ok(TxNum::from_key(*key) < end)),
        10 => step(&mut tables.wtxids, key, rows, |key, ()| Ok(is_in_file(generations, OptionalTable::Wtxids, key))),
        11 => step(&mut tables.address_prefixes, key, rows, |key, ()| {
            Ok(is_in_file(generations, OptionalTable::AddressPrefixes, key))
        }),
        12 => step(&mut tables.op_returns, key, rows, |key, ()| {
            Ok(is_in_file(generations, OptionalTable::OpReturns, key))
        }),
        // those of stale blocks stay
        _ => step(&mut tables.block_hashes, key, rows, |_, place| {
            let BlockPlace { height, membership } = BlockPlace::decode(place)?;
            Ok(membership == ChainMembership::Main && height <= last.height)
        }),
    }
}

/// Whether the file of its generation has a row of an optional table. It is built after the generation is in force.
fn is_in_file(generations: &Generations, table: OptionalTable, key: &[u8]) -> bool {
    generations.of(txnum_of(table, key)).is_some_and(|of| of.derived(table).is_some())
}

/// Looks at rows from a key on, and deletes those that are shadowed.
fn step<const KEY: usize, V: Value + 'static>(
    table: &mut Table<'_, &'static [u8; KEY], V>,
    from: &[u8],
    rows: usize,
    mut is_shadowed: impl for<'v> FnMut(&[u8; KEY], V::SelfType<'v>) -> Result<bool, IndexError>,
) -> Result<(usize, Option<Vec<u8>>), IndexError> {
    let from = <[u8; KEY]>::try_from(from).unwrap_or([0; KEY]);
    let (mut shadowed, mut looked_at, mut next) = (Vec::new(), 0, None);
    for row in table.range::<&[u8; KEY]>(&from..)? {
        let (key, value) = row?;
        if looked_at == rows {
            next = Some(key.value().to_vec());
            break;
        }
        looked_at += 1;
        if is_shadowed(key.value(), value.value())? {
            shadowed.push(*key.value());
        }
    }
    for key in shadowed {
        table.remove(&key)?;
    }
    Ok((looked_at, next))
}
