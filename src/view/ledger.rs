//! What a script received and spent, and how much of it has yet to mature.

use bitcoin::{Script, Txid};

use super::chain::first_immature;
use super::{View, corrupt};
use crate::chain::Height;
use crate::index::{HistoryRow, IndexError, ScriptKey, TxNum};

/// A script's totals over the active chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What it received and spent; zeros for a script that never appeared.
    pub row: HistoryRow,
    /// The newest transaction that paid or spent it.
    pub last_seen: Option<TxNum>,
}

impl Totals {
    /// Value of its unspent outputs in sat, immature ones included.
    pub fn balance(&self) -> Result<u64, IndexError> {
        let balance = self.row.received.checked_sub(self.row.spent);
        balance
            .and_then(|balance| u64::try_from(balance).ok())
            .ok_or_else(|| corrupt("history", "a script has spent more than it received"))
    }

    /// How many unspent outputs it has.
    pub fn utxo_count(&self) -> Result<u32, IndexError> {
        let count = self.row.outputs_received.checked_sub(self.row.outputs_spent);
        count.ok_or_else(|| corrupt("history", "a script has spent more outputs than it received"))
    }
}

impl View {
    /// The key under which the rows of a script stand.
    #[must_use]
    pub fn script_key(&self, script_pubkey: &Script) -> ScriptKey {
        self.head.chain.script_key(script_pubkey.as_bytes())
    }

    /// The totals of a script.
    pub fn totals(&self, script: ScriptKey) -> Result<Totals, IndexError> {
        let last = self.head.chain.totals(script, TxNum(u32::MAX))?;
        Ok(last.map_or_else(Totals::default, |(txnum, row)| Totals { row, last_seen: Some(txnum) }))
    }

    /// The first transaction that paid a script.
    pub fn first_seen(&self, script: ScriptKey) -> Result<Option<TxNum>, IndexError> {
        self.head.chain.first_seen(script)
    }

    /// The height of the block that holds the transaction at this position.
    pub fn height_of(&self, txnum: TxNum) -> Result<Height, IndexError> {
        Ok(self.head.chain.occurrence(txnum)?.height)
    }

    /// Value in sat of a script's coinbase outputs that the next block may not spend yet.
    ///
    /// A coinbase of height c may be spent from height c + 100 on, so with the tip at h those above h − 99 are
    /// immature. None of them can be spent, so it is what coinbases paid in these 99 blocks; only an output that a
    /// duplicate has overwritten meanwhile (BIP30) must not be counted with its successor.
    pub fn immature(&self, script_pubkey: &Script) -> Result<u64, IndexError> {
        let script = self.script_key(script_pubkey);
        let tip = self.tip_block()?;
        let first = first_immature(tip.height);
        let (before, overwritten_before) = match first.previous() {
            Some(height) => {
                let row = self.main_block(height)?.row;
                (row.running.transactions, row.running.unspendable.bip30)
            }
            None => (0, 0),
        };
        if tip.row.running.unspendable.bip30 != overwritten_before {
            return self.immature_one_by_one(script_pubkey, first);
        }
        let before =
            u32::try_from(before).map_err(|_| corrupt("blocks", "the chain has more transactions than fit"))?;
        let earlier = self.head.chain.totals(script, TxNum(before))?.map_or(0, |(_, row)| row.coinbase_received);
        let now = self.totals(script)?.row.coinbase_received;
        now.checked_sub(earlier).ok_or_else(|| corrupt("history", "what a script received from coinbases has fallen"))
    }

    fn immature_one_by_one(&self, script_pubkey: &Script, first: Height) -> Result<u64, IndexError> {
        let script = self.script_key(script_pubkey);
        let mut sum = 0_u64;
        for height in self.head.chain.payouts(script, first..=self.tip().height)? {
            let txnum = self.main_block(height)?.first_txnum()?;
            let coinbase = self.transaction_at(txnum)?;
            if self.is_overwritten(&coinbase.txid, txnum)? {
                continue;
            }
            let paid = coinbase.parts.output.iter().filter(|output| output.script_pubkey.as_script() == script_pubkey);
            sum = paid.fold(sum, |sum, output| sum.saturating_add(output.value.to_sat()));
        }
        Ok(sum)
    }

    fn is_overwritten(&self, txid: &Txid, txnum: TxNum) -> Result<bool, IndexError> {
        Ok(self.latest_position(txid)?.is_some_and(|latest| latest > txnum))
    }
}
