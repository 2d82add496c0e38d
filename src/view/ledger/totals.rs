//! The amounts that a ledger received and spent up to a block, and the immature part.

use bitcoin::Txid;

use super::Ledger;
use crate::chain::Height;
use crate::chain::script::never_spendable;
use crate::index::{IndexError, ScriptKey, TxNum};
use crate::view::chain::first_immature;
use crate::view::{Block, View};

/// A ledger's totals up to a block of the active chain. Zeros for scripts that never appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerTotals {
    /// Value of all outputs it received, in sat; outputs that a BIP30 duplicate overwrites are deducted.
    pub received: u128,
    /// Value of its outputs that were spent, in sat.
    pub spent: u128,
    /// Outputs it received.
    pub outputs_received: u64,
    /// Outputs of it that were spent.
    pub outputs_spent: u64,
    /// The newest transaction that paid or spent it.
    pub last_seen: Option<TxNum>,
}

impl LedgerTotals {
    /// Value of its unspent outputs in sat, immature ones included.
    pub fn balance(&self) -> Result<u64, IndexError> {
        let balance = self.received.checked_sub(self.spent);
        balance
            .and_then(|balance| u64::try_from(balance).ok())
            .ok_or_else(|| IndexError::corrupt("history", "a script has spent more than it received"))
    }

    /// The number of its unspent outputs.
    pub fn utxo_count(&self) -> Result<u64, IndexError> {
        let count = self.outputs_received.checked_sub(self.outputs_spent);
        count.ok_or_else(|| IndexError::corrupt("history", "a script has spent more outputs than it received"))
    }
}

impl View {
    /// The totals of a ledger right after a block of the active chain.
    pub fn totals(&self, ledger: &Ledger, at: &Block) -> Result<LedgerTotals, IndexError> {
        self.totals_before(ledger, at.end_txnum()?)
    }

    /// The totals of a ledger before a transaction.
    pub(super) fn totals_before(&self, ledger: &Ledger, end: TxNum) -> Result<LedgerTotals, IndexError> {
        let mut totals = LedgerTotals::default();
        for script in ledger.scripts() {
            let Some((txnum, row)) = self.head.chain.totals(*script, end)? else { continue };
            // 80-bit sums of at most as many scripts as fit a request stay far below 128 bits
            totals.received += row.received;
            totals.spent += row.spent;
            totals.outputs_received += u64::from(row.outputs_received);
            totals.outputs_spent += u64::from(row.outputs_spent);
            totals.last_seen = totals.last_seen.max(Some(txnum));
        }
        Ok(totals)
    }

    /// The first transaction that paid a ledger, if it is before the end of a block.
    pub fn first_seen(&self, ledger: &Ledger, at: &Block) -> Result<Option<TxNum>, IndexError> {
        let mut first: Option<TxNum> = None;
        for script in ledger.scripts() {
            let found = self.head.chain.first_seen(*script)?;
            first = match (first, found) {
                (Some(first), Some(found)) => Some(first.min(found)),
                (first, found) => first.or(found),
            };
        }
        let end = at.end_txnum()?;
        Ok(first.filter(|first| *first < end))
    }

    /// Value in sat of a ledger's coinbase outputs that the block after `at` may not spend yet.
    ///
    /// A coinbase of height c may be spent from height c + 100 on, so after the block at height h those above h − 99 are
    /// immature. None of them can be spent, so the value is the coinbase outputs of these 99 blocks; an output that a
    /// duplicate overwrote meanwhile (BIP30) is not counted with its successor.
    pub fn immature(&self, ledger: &Ledger, at: &Block) -> Result<u64, IndexError> {
        let first = first_immature(at.height);
        let (before, overwritten_before) = match first.previous() {
            Some(height) => {
                let block = self.main_block(height)?;
                (block.end_txnum()?, block.row.running.unspendable.bip30)
            }
            None => (TxNum(0), 0),
        };
        if at.row.running.unspendable.bip30 != overwritten_before {
            return self.immature_one_by_one(ledger, first, at);
        }
        let end = at.end_txnum()?;
        let mut sum = 0_u64;
        for script in ledger.scripts() {
            let (earlier, now) = (self.coinbase_received(*script, before)?, self.coinbase_received(*script, end)?);
            let immature = now.checked_sub(earlier).and_then(|immature| sum.checked_add(immature));
            sum = immature
                .ok_or_else(|| IndexError::corrupt("history", "what a script received from coinbases has fallen"))?;
        }
        Ok(sum)
    }

    fn coinbase_received(&self, script: ScriptKey, before: TxNum) -> Result<u64, IndexError> {
        Ok(self.head.chain.totals(script, before)?.map_or(0, |(_, row)| row.coinbase_received))
    }

    fn immature_one_by_one(&self, ledger: &Ledger, first: Height, at: &Block) -> Result<u64, IndexError> {
        let end = at.end_txnum()?;
        let mut sum = 0_u64;
        for height in self.payouts(ledger, &(first..at.height.next()), true)? {
            let txnum = self.main_block(height?)?.first_txnum()?;
            let coinbase = self.transaction_at(txnum)?;
            if self.is_overwritten(&coinbase.txid, txnum, end)? {
                continue;
            }
            for output in &coinbase.parts.output {
                if !never_spendable(&output.script_pubkey) && ledger.contains(self.script_key(&output.script_pubkey)) {
                    sum = sum.saturating_add(output.value.to_sat());
                }
            }
        }
        Ok(sum)
    }

    /// Whether a later transaction before `end` has the same txid as the one at `txnum`.
    pub(in crate::view) fn is_overwritten(&self, txid: &Txid, txnum: TxNum, end: TxNum) -> Result<bool, IndexError> {
        Ok(self.positions(txid)?.iter().any(|copy| (txnum.0.saturating_add(1)..end.0).contains(&copy.0)))
    }
}
