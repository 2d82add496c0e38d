//! Reads of the rows about scripts: their history, their unspent outputs, the coinbases that pay them.
//!
//! Every list can be read from either end, and from any position in between at the cost of one seek.

use std::ops::Range;
use std::sync::Arc;

use bitcoin::hashes::{hash160, sha256};

use super::error::IndexError;
use super::hot::tables::history::HistoryRow;
use super::hot::tables::unspent::{FoundOutput, UnspentKey, UnspentRow};
use super::hot::tables::{history, p2pk, payouts, tx_point, unspent};
use super::hot::union::Union;
use super::keys::{OutputPosition, Position, ScriptKey, TxNum};
use super::snapshot::Snapshot;
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
        let mut live = self.history.range::<&history::HistoryKey>(
            &history::key(script, self.generations.end())..&history::key(script, before.max(self.generations.end())),
        )?;
        if let Some(row) = live.next_back().transpose()? {
            return Ok(Some((history::split_key(row.0.value()).1, HistoryRow::decode(row.1.value())?)));
        }
        self.generations.totals(script, before)
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
        let start = txnums.start.max(self.generations.end());
        let (from, to) = (history::key(script, start), history::key(script, txnums.end.max(start)));
        let live = self.history.range::<&history::HistoryKey>(&from..&to)?.map(|row| {
            let (key, row) = row?;
            Ok((history::split_key(key.value()).1, HistoryRow::decode(row.value())?))
        });
        Ok(self.generations.history(script, &txnums)?.chain(live))
    }

    /// Unspent outputs of a script at these positions, oldest first.
    pub fn unspent(
        &self,
        script: ScriptKey,
        positions: Range<OutputPosition>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(UnspentKey, UnspentRow), IndexError>> + use<>, IndexError> {
        let rows = self.unspent_rows(script, positions)?;
        Ok(rows.filter_map(|row| row.map(|(output, row)| row.map(|row| (output, row))).transpose()))
    }

    /// The same with the rows that are read on the way: `None` for an output that was unspent when its block was frozen, and
    /// is not any more.
    pub fn unspent_rows(
        &self,
        script: ScriptKey,
        positions: Range<OutputPosition>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<FoundOutput, IndexError>> + use<>, IndexError> {
        let frozen = self.generations.unspent(script, &positions)?;
        let (spends, overwritten) = (Arc::clone(&self.spends), Arc::clone(&self.overwritten));
        let is_gone = move |output: UnspentKey| -> Result<bool, IndexError> {
            let Some(vout) = Position::new(output.vout) else { return Ok(false) };
            let outpoint = tx_point(output.txnum, vout);
            Ok(spends.get(&outpoint)?.is_some() || overwritten.get(&outpoint)?.is_some())
        };
        let frozen = frozen.map(move |row| {
            let (output, row) = row?;
            let is_gone = row.is_none() || is_gone(output)?;
            Ok((output, row.filter(|_| !is_gone)))
        });
        let live = unspent::read(&self.unspent, script, positions)?;
        Ok(Union::new(live.map(|row| row.map(|(output, row)| (output, Some(row)))), frozen))
    }

    /// Whether an output is in the UTXO set.
    pub fn is_unspent(&self, output: UnspentKey) -> Result<bool, IndexError> {
        let Some(vout) = Position::new(output.vout) else { return Ok(false) };
        if self.unspent.get(&unspent::key(output.script, output.txnum, vout))?.is_some() {
            return Ok(true);
        }
        let outpoint = tx_point(output.txnum, vout);
        let is_gone = self.spends.get(&outpoint)?.is_some() || self.overwritten.get(&outpoint)?.is_some();
        Ok(!is_gone && self.generations.is_unspent(output)?)
    }

    /// Heights of the blocks whose coinbase pays a script, within `heights`, lowest first.
    pub fn payouts(
        &self,
        script: ScriptKey,
        heights: Range<Height>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Height, IndexError>> + use<>, IndexError> {
        let frozen = self.generations.payouts(script, &heights)?;
        let first = self.generations.last().map_or(heights.start, |last| heights.start.max(last.height.next()));
        Ok(frozen.chain(payouts::read(&self.payouts, script, first..heights.end)?))
    }

    /// The P2PK scripts whose public key has this HASH160, each with the first transaction that paid it.
    pub fn p2pk_scripts(&self, key_hash: hash160::Hash) -> Result<Vec<(ScriptKey, TxNum)>, IndexError> {
        let mut found = self.generations.p2pk_scripts(key_hash)?;
        for (script, txnum) in p2pk::read(&self.p2pk, key_hash)? {
            if found.iter().all(|(known, _)| *known != script) {
                found.push((script, txnum));
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}
