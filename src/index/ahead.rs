//! Pages read before they are needed.
//!
//! A block changes thousands of pages all over the file, and on a disk each that is not in memory is a wait. Which they are
//! can be known before: those of the transactions that wait for a block.

use bitcoin::{OutPoint, Script, Txid};

use super::error::IndexError;
use super::keys::{Position, TxNum};
use super::snapshot::Snapshot;
use super::tables::{history, spends, unspent};
use crate::chain::script::never_spendable;

impl Snapshot {
    /// Reads the pages that will change when a block holds this transaction, which spends these outputs and pays these
    /// scripts, so that they are in the cache by then. Answers nothing.
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

    fn read_history_ahead(&self, script: &Script) -> Result<(), IndexError> {
        let last = history::key(self.script_key(script.as_bytes()), TxNum(u32::MAX));
        self.history.range::<&history::Key>(..=&last)?.next_back().transpose()?;
        Ok(())
    }
}
