//! Reads pages into the cache before they are needed.
//!
//! A block changes thousands of pages all over the file, and each page that is not in memory costs a disk read. Most of
//! these pages are known in advance: they belong to the unconfirmed transactions. After a start the cache is empty.

use bitcoin::{OutPoint, Script, Txid};
use redb::{Key, ReadOnlyTable, ReadableTable, Value};

use super::super::error::IndexError;
use super::super::keys::{Position, TxNum};
use super::super::snapshot::Snapshot;
use super::tables::unspent::UnspentKey;
use super::tables::{spends, unspent};
use crate::chain::script::never_spendable;

impl Snapshot {
    /// Reads the pages that a block with this transaction changes, which spends these outputs and pays these scripts, into the
    /// cache.
    ///
    /// Errors: the index cannot be read.
    pub fn prefetch<'s>(
        &self,
        txid: &Txid,
        spent: impl Iterator<Item = (OutPoint, &'s Script)>,
        paid: impl Iterator<Item = &'s Script>,
    ) -> Result<(), IndexError> {
        self.positions(txid)?;
        for (outpoint, script) in spent {
            self.prefetch_history(script)?;
            // an output of the mempool has no rows yet
            let (Some(funding), Some(vout)) = (self.positions(&outpoint.txid)?.pop(), Position::new(outpoint.vout))
            else {
                continue;
            };
            let script = self.script_key(script.as_bytes());
            if self.unspent.get(&unspent::key(script, funding, vout))?.is_none() {
                self.generations.is_unspent(UnspentKey { script, txnum: funding, vout: outpoint.vout })?;
            }
            // the row will be inserted before the next row by key
            self.spends.range::<&spends::TxPoint>(&spends::tx_point(funding, vout)..)?.next().transpose()?;
        }
        for script in paid.filter(|script| !never_spendable(script)) {
            self.prefetch_history(script)?;
            let key = unspent::key(self.script_key(script.as_bytes()), TxNum(u32::MAX), Position::ZERO);
            self.unspent.range::<&unspent::UnspentKeyBytes>(..&key)?.next_back().transpose()?;
        }
        Ok(())
    }

    /// Reads pages into the cache, about `bytes` or all there are, while `continues`, which is called periodically,
    /// returns true: half of them of the newest transactions, which are requested most, the other half in equal shares
    /// of the tables that blocks change. Returns the bytes of rows read.
    ///
    /// Errors: the index cannot be read.
    pub fn warm_up(&self, bytes: u64, mut continues: impl FnMut() -> bool) -> Result<u64, IndexError> {
        // the unused share of a small table goes to the tables after it; pages are at least two thirds full
        let rows = bytes / 3 * 2;
        let share = |left: u64, tables: u64| left.saturating_sub(rows / 2) / tables;
        let mut left = rows;
        left -= read_backwards(&self.txids, share(left, 4), &mut continues)?.min(left);
        left -= read_backwards(&self.spends, share(left, 3), &mut continues)?.min(left);
        left -= read_backwards(&self.unspent, share(left, 2), &mut continues)?.min(left);
        left -= read_backwards(&self.history, share(left, 1), &mut continues)?.min(left);
        left -= read_backwards(&self.transactions, left, &mut continues)?.min(left);
        Ok(rows - left)
    }

    fn prefetch_history(&self, script: &Script) -> Result<(), IndexError> {
        self.totals(self.script_key(script.as_bytes()), TxNum(u32::MAX))?;
        Ok(())
    }
}

/// Bytes of rows between two calls of `continues`.
const STEP: u64 = 256 << 10;

/// Reads rows from the last one backwards, about this many bytes. Returns the bytes read.
fn read_backwards<K: Key + 'static, V: Value + 'static>(
    table: &ReadOnlyTable<K, V>,
    bytes: u64,
    continues: &mut impl FnMut() -> bool,
) -> Result<u64, IndexError> {
    let (mut read, mut next_check) = (0_u64, 0);
    for row in table.iter()?.rev() {
        if read >= next_check {
            if !continues() {
                break;
            }
            next_check = read.saturating_add(STEP);
        }
        if read >= bytes {
            break;
        }
        let (key, value) = row?;
        let length = K::as_bytes(&key.value()).as_ref().len() + V::as_bytes(&value.value()).as_ref().len();
        read = read.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }
    Ok(read)
}
