//! Live transactions, found by their position or their txid.

use bitcoin::Txid;

use super::super::error::IndexError;
use super::super::hot::tables::block_starts::Occurrence;
use super::super::keys::TxNum;
use super::super::snapshot::{Snapshot, StoredTransaction, parts_of};
use super::tables::block_starts::BlockStart;
use super::tables::transactions::TransactionRow;
use super::tables::txids;

impl Snapshot {
    /// The transaction at this position of the live tables, if its txid is wanted.
    pub(in crate::index) fn live_transaction(
        &self,
        txnum: TxNum,
        is_wanted: impl FnOnce(&Txid) -> bool,
    ) -> Result<Option<StoredTransaction>, IndexError> {
        let Some(row) = self.transactions.get(&txnum.to_key())? else { return Ok(None) };
        let row = TransactionRow::decode(row.value())?;
        if !is_wanted(&row.txid) {
            return Ok(None);
        }
        StoredTransaction::of_row(txnum, self.live_occurrence(txnum)?, row).map(Some)
    }

    /// The newest live transaction with this txid.
    pub(in crate::index) fn newest_live(&self, txid: &Txid) -> Result<Option<StoredTransaction>, IndexError> {
        for txnum in self.live_candidates(txid)?.rev() {
            let found = self.live_transaction(txnum?, |own| own == txid)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The live transactions with this txid, oldest first.
    pub(in crate::index) fn live_positions(&self, txid: &Txid) -> Result<Vec<TxNum>, IndexError> {
        let mut found = Vec::new();
        for txnum in self.live_candidates(txid)? {
            let txnum = txnum?;
            if self.txid(txnum)? == Some(*txid) {
                found.push(txnum);
            }
        }
        Ok(found)
    }

    /// The live transactions that may have this txid, oldest first: others may have the same prefix.
    fn live_candidates(
        &self,
        txid: &Txid,
    ) -> Result<impl DoubleEndedIterator<Item = Result<TxNum, IndexError>> + use<>, IndexError> {
        let prefix = self.salt().txid_prefix(txid);
        let (from, to) = (txids::key(prefix, self.generations.end()), txids::key(prefix, TxNum(u32::MAX)));
        let rows = self.txids.range::<&txids::TxidKey>(&from..=&to)?;
        Ok(rows.map(|row| Ok(txids::split_key(row?.0.value()).1)))
    }

    /// The block of a live transaction.
    pub(in crate::index) fn live_occurrence(&self, txnum: TxNum) -> Result<Occurrence, IndexError> {
        let row = self.block_starts.range::<&[u8; 4]>(..=&txnum.to_key())?.next_back().transpose()?;
        let (key, value) = row.ok_or_else(|| IndexError::corrupt("block_starts", "the genesis row is missing"))?;
        let start = BlockStart::decode(key.value(), value.value());
        Ok(Occurrence { height: start.height, index: txnum.0 - start.first.0 })
    }
}

impl StoredTransaction {
    /// A transaction of the live tables.
    pub(in crate::index) fn of_row(txnum: TxNum, at: Occurrence, row: TransactionRow<'_>) -> Result<Self, IndexError> {
        Ok(Self { txnum, txid: row.txid, at, fee: row.paid_fee(), parts: parts_of(txnum, row.raw.to_vec())? })
    }
}
