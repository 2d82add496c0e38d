//! Reads of the rows about scripts: their history, their unspent outputs, the coinbases that pay them.
//!
//! Every list can be read from either end, and from any position in between at the cost of one seek.

use std::ops::Range;

use bitcoin::hashes::{hash160, sha256};

use super::error::IndexError;
use super::keys::{OutputPosition, Position, ScriptKey, TxNum};
use super::snapshot::Snapshot;
use super::tables::history::HistoryRow;
use super::tables::unspent::{UnspentKey, UnspentRow};
use super::tables::{history, p2pk, payouts, unspent};
use crate::chain::Height;

impl Snapshot {
    /// The key of a script's rows.
    #[must_use]
    pub fn script_key(&self, script_pubkey: &[u8]) -> ScriptKey {
        self.salt().script_key(script_pubkey)
    }

    /// The key of the rows of the script with this SHA-256.
    #[must_use]
    pub fn script_hash_key(&self, script_hash: &sha256::Hash) -> ScriptKey {
        self.salt().script_hash_key(script_hash)
    }

    /// The last transaction of a script before `before`, with the totals of the script after it.
    pub fn totals(&self, script: ScriptKey, before: TxNum) -> Result<Option<(TxNum, HistoryRow)>, IndexError> {
        self.history(script, TxNum(0)..before)?.next_back().transpose()
    }

    /// The first transaction that paid a script.
    pub fn first_seen(&self, script: ScriptKey) -> Result<Option<TxNum>, IndexError> {
        let first = self.history(script, TxNum(0)..TxNum(u32::MAX))?.next().transpose()?;
        Ok(first.map(|(txnum, _)| txnum))
    }

    /// The transactions among these that paid or spent a script, each with the totals after it, oldest first.
    pub fn history(
        &self,
        script: ScriptKey,
        txnums: Range<TxNum>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(TxNum, HistoryRow), IndexError>> + use<>, IndexError> {
        let (from, to) = (history::key(script, txnums.start), history::key(script, txnums.end.max(txnums.start)));
        let rows = self.history.range::<&history::HistoryKey>(&from..&to)?;
        Ok(rows.map(|row| {
            let (key, row) = row?;
            Ok((history::split_key(key.value()).1, HistoryRow::decode(row.value())?))
        }))
    }

    /// Unspent outputs of a script at these positions, oldest first.
    pub fn unspent(
        &self,
        script: ScriptKey,
        positions: Range<OutputPosition>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(UnspentKey, UnspentRow), IndexError>> + use<>, IndexError> {
        unspent::read(&self.unspent, script, positions)
    }

    /// Whether an output is in the UTXO set.
    pub fn is_unspent(&self, output: UnspentKey) -> Result<bool, IndexError> {
        let Some(vout) = Position::new(output.vout) else { return Ok(false) };
        Ok(self.unspent.get(&unspent::key(output.script, output.txnum, vout))?.is_some())
    }

    /// Heights of the blocks whose coinbase pays a script, within `heights`, lowest first.
    pub fn payouts(
        &self,
        script: ScriptKey,
        heights: Range<Height>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Height, IndexError>> + use<>, IndexError> {
        payouts::read(&self.payouts, script, heights)
    }

    /// The P2PK scripts whose public key has this HASH160, each with the first transaction that paid it.
    pub fn p2pk_scripts(&self, key_hash: hash160::Hash) -> Result<Vec<(ScriptKey, TxNum)>, IndexError> {
        p2pk::read(&self.p2pk, key_hash)
    }
}
