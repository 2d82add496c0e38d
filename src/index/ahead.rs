//! Pages read before they are needed.
//!
//! A block changes thousands of pages all over the file, and on a disk each that is not in memory is a wait. Which they are
//! can be known before: those of the transactions that wait for a block. And after a start nothing is in memory at all.

use bitcoin::{OutPoint, Script, Txid};
use redb::{Key, ReadOnlyTable, ReadableTable, Value};

use super::error::IndexError;
use super::keys::{Position, TxNum};
use super::snapshot::Snapshot;
use super::tables::{history, spends, unspent};
use crate::chain::script::never_spendable;

impl Snapshot {
    /// Reads the pages that will change when a block holds this transaction, which spends these outputs and pays these
    /// scripts, so that they are in the cache by then. Answers nothing.
    ///
    /// Errors: the index cannot be read.
    pub fn read_ahead<'s>(
        &self,
        txid: &Txid,
        spent: impl Iterator<Item = (OutPoint, &'s Script)>,
        paid: impl Iterator<Item = &'s Script>,
    ) -> Result<(), IndexError> {
        self.newest(txid)?;
        for (outpoint, script) in spent {
            self.read_history_ahead(script)?;
            // an output of the mempool has no rows yet
            let (Some(funding), Some(vout)) = (self.newest(&outpoint.txid)?, Position::new(outpoint.vout)) else {
                continue;
            };
            let key = unspent::key(self.script_key(script.as_bytes()), funding.txnum, vout);
            self.unspent.get(&key)?;
            // the row will stand where the one behind it stands now
            self.spends.range::<&spends::Place>(&spends::place(funding.txnum, vout)..)?.next().transpose()?;
        }
        for script in paid.filter(|script| !never_spendable(script)) {
            self.read_history_ahead(script)?;
            let key = unspent::key(self.script_key(script.as_bytes()), TxNum(u32::MAX), Position::ZERO);
            self.unspent.range::<&unspent::Key>(..&key)?.next_back().transpose()?;
        }
        Ok(())
    }

    /// Reads about so many bytes of pages into the cache, as far as there are as many and `goes_on` says so from time to time:
    /// as much of each table that blocks change as of the others, but half of it of the newest transactions, which are asked
    /// for most. Tells how many bytes of rows it were.
    ///
    /// Errors: the index cannot be read.
    pub fn warm_up(&self, bytes: u64, mut goes_on: impl FnMut() -> bool) -> Result<u64, IndexError> {
        // what a small table leaves is for those behind it; pages are filled to two thirds and more
        let rows = bytes / 3 * 2;
        let share = |left: u64, tables: u64| left.saturating_sub(rows / 2) / tables;
        let mut left = rows;
        left -= touch(&self.txids, share(left, 4), &mut goes_on)?.min(left);
        left -= touch(&self.spends, share(left, 3), &mut goes_on)?.min(left);
        left -= touch(&self.unspent, share(left, 2), &mut goes_on)?.min(left);
        left -= touch(&self.history, share(left, 1), &mut goes_on)?.min(left);
        left -= touch(&self.transactions, left, &mut goes_on)?.min(left);
        Ok(rows - left)
    }

    fn read_history_ahead(&self, script: &Script) -> Result<(), IndexError> {
        let last = history::key(self.script_key(script.as_bytes()), TxNum(u32::MAX));
        self.history.range::<&history::Key>(..=&last)?.next_back().transpose()?;
        Ok(())
    }
}

/// Bytes of rows between two looks at whether to go on.
const STEP: u64 = 256 << 10;

/// Reads rows from the last one on, so many bytes of them about.
fn touch<K: Key + 'static, V: Value + 'static>(
    table: &ReadOnlyTable<K, V>,
    bytes: u64,
    goes_on: &mut impl FnMut() -> bool,
) -> Result<u64, IndexError> {
    let (mut read, mut looked) = (0_u64, 0);
    for row in table.iter()?.rev() {
        if read >= looked {
            if !goes_on() {
                break;
            }
            looked = read.saturating_add(STEP);
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
