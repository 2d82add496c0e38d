//! Transactions, looked up in the active chain, then in the mempool, then in stale blocks and the journal of departures.
//!
//! For a txid that the chain contains twice (BIP30) the latest copy counts.

use std::ops::Range;
use std::sync::Arc;

use bitcoin::{BlockHash, Txid, Wtxid};

use super::block::Block;
use super::transaction::{ConfirmedPlace, Transaction};
use super::{BudgetExceeded, View};
use crate::chain::{Height, TransactionParts};
use crate::index::{IndexError, Occurrence, StoredTransaction, TxNum};
use crate::mempool::Entry;

/// Lock times below this are heights, from it on Unix seconds (`LOCKTIME_THRESHOLD`, Core `script/script.h`).
const LOCK_TIME_THRESHOLD: u32 = 500_000_000;

/// A sequence number that disables the lock time (`CTxIn::SEQUENCE_FINAL`, Core `primitives/transaction.h`).
const SEQUENCE_FINAL: u32 = u32::MAX;

impl View {
    /// The transaction with this txid; `None` if the index does not know it.
    pub fn transaction(&self, txid: &Txid) -> Result<Option<Transaction>, IndexError> {
        if let Some(stored) = self.head.chain.newest(txid)? {
            return Ok(Some(Self::newest_placed(stored)));
        }
        if let Some(entry) = self.head.mempool.get(txid) {
            return Ok(self.unconfirmed(entry));
        }
        let departed = self.head.mempool.departed(txid).cloned();
        for (hash, index) in self.head.chain.stale_occurrences(txid)? {
            let Some(block) = self.block(hash)? else { continue };
            // both the search above and this read the whole block
            let bytes_read = usize::try_from(block.row.size).unwrap_or(usize::MAX);
            let found = self.stale_transaction(&block, index)?;
            return Ok(found.map(|found| Transaction { departed, bytes_read, ..found }));
        }
        Ok(departed.and_then(|departed| {
            let entry = departed.entry.clone()?;
            let found = self.unconfirmed(&entry)?;
            Some(Transaction { unconfirmed: None, departed: Some(departed), ..found })
        }))
    }

    /// The transaction with this wtxid, in the mempool or, as the newest copy, in the active chain.
    ///
    /// Errors: [`IndexError::TableOff`], `TableNotReady` unless it is in the mempool; those of the index.
    pub fn transaction_by_wtxid(&self, wtxid: &Wtxid) -> Result<Option<Transaction>, IndexError> {
        if let Some(entry) = self.head.mempool.by_wtxid(wtxid) {
            return Ok(self.unconfirmed(entry));
        }
        let Some(stored) = self.head.chain.find_wtxid(wtxid)? else { return Ok(None) };
        let txnum = stored.txnum;
        self.marked_if_replaced(Self::placed(stored), txnum).map(Some)
    }

    /// A transaction of the mempool.
    #[must_use]
    pub fn unconfirmed(&self, entry: &Arc<Entry>) -> Option<Transaction> {
        Some(Transaction {
            txid: entry.txid,
            // every entry of the mempool was parsed there
            parts: Arc::new(TransactionParts::of(entry.raw.to_vec()).ok()?),
            place: None,
            unconfirmed: Some(Arc::clone(entry)),
            departed: None,
            replaced_in: None,
            is_newest: false,
            is_foreign: false,
            submitted_as: None,
            bytes_read: entry.raw.len(),
        })
    }

    /// The transaction at exactly this position, even if a later one has its txid; `None` after the last.
    pub fn transaction_by_index(&self, txnum: TxNum) -> Result<Option<Transaction>, IndexError> {
        if txnum >= self.tip_block()?.end_txnum()? {
            return Ok(None);
        }
        self.marked_if_replaced(self.transaction_at(txnum)?, txnum).map(Some)
    }

    /// The copy of a transaction at a position, and whether a later one replaced it (BIP30).
    fn marked_if_replaced(&self, copy: Transaction, txnum: TxNum) -> Result<Transaction, IndexError> {
        if self.latest_position(&copy.txid)? == Some(txnum) {
            return Ok(Transaction { is_newest: true, ..copy });
        }
        Ok(Transaction { replaced_in: Some(self.block_hash_of(txnum)?), ..copy })
    }

    /// The copy of a transaction in this block of the active chain, if a later one replaced it (BIP30).
    pub fn replaced_transaction(&self, txid: &Txid, block: BlockHash) -> Result<Option<Transaction>, IndexError> {
        for txnum in self.positions(txid)? {
            let found = self.transaction_by_index(txnum)?;
            if let Some(found) = found.filter(|found| found.replaced_in == Some(block)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// All blocks that contain a transaction with this txid, with its index in each: those of the active chain, oldest
    /// first, then stale ones.
    pub fn occurrences(&self, txid: &Txid) -> Result<Vec<(Block, u32)>, IndexError> {
        let mut found = Vec::new();
        for txnum in self.positions(txid)? {
            let at = self.head.chain.occurrence(txnum)?;
            found.push((self.main_block(at.height)?, at.index));
        }
        for (hash, index) in self.head.chain.stale_occurrences(txid)? {
            let block = self.block(hash)?;
            found.push((
                block.ok_or_else(|| IndexError::corrupt("stale_transactions", format!("there is no block {hash}")))?,
                index,
            ));
        }
        Ok(found)
    }

    /// The transaction with this index in a block as it is now, as [`transaction`](Self::transaction) finds it: the newest copy if
    /// the chain contains its txid elsewhere, too, and that of the mempool if only a stale block contains it. `None` after the last.
    pub fn block_transaction(&self, block: &Block, index: u32) -> Result<Option<Transaction>, IndexError> {
        if !block.is_main() {
            let Some(stale) = self.stale_transaction(block, index)? else { return Ok(None) };
            if let Some(txnum) = self.latest_position(&stale.txid)? {
                return self.newest_at(txnum).map(Some);
            }
            if let Some(entry) = self.head.mempool.get(&stale.txid) {
                return Ok(self.unconfirmed(entry));
            }
            let departed = self.head.mempool.departed(&stale.txid).cloned();
            return Ok(Some(Transaction { departed, ..stale }));
        }
        if index >= block.row.transactions {
            return Ok(None);
        }
        self.newest_copy(TxNum(block.first_txnum()?.0.saturating_add(index))).map(Some)
    }

    /// The transactions with these indices in a block, each as [`block_transaction`](Self::block_transaction) finds it. Those of a
    /// block of the active chain are read at once.
    ///
    /// Errors: those of the index, and the byte budget.
    pub fn block_transactions<E>(&self, block: &Block, indices: Range<u32>) -> Result<Vec<Transaction>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let end = indices.end.min(block.row.transactions);
        let mut found = Vec::with_capacity(indices.len());
        if !block.is_main() {
            for index in indices.start..end {
                self.count(0)?;
                let transaction = self.block_transaction(block, index)?;
                self.count(transaction.as_ref().map_or(0, |transaction| transaction.bytes_read))?;
                found.extend(transaction);
            }
            return Ok(found);
        }
        self.count(0)?;
        let first = TxNum(block.first_txnum()?.0.saturating_add(indices.start));
        let at = Occurrence { height: block.height, index: indices.start };
        for stored in self.head.chain.newest_of_block(first, at, end.saturating_sub(indices.start))? {
            self.count(stored.parts.raw().len())?;
            found.push(Self::newest_placed(stored));
        }
        Ok(found)
    }

    /// The transaction at an existing position, or a later one with the same txid (BIP30).
    pub fn newest_copy(&self, txnum: TxNum) -> Result<Transaction, IndexError> {
        let transaction = self.transaction_at(txnum)?;
        match self.latest_position(&transaction.txid)? {
            Some(latest) if latest != txnum => self.newest_at(latest),
            _ => Ok(Transaction { is_newest: true, ..transaction }),
        }
    }

    /// The fee in sat; `None` for a coinbase, and for a stale transaction with a prevout that the index does not know.
    ///
    /// Errors: those of the index, and the byte budget: no row has the fee of a stale transaction, so a transaction is
    /// read for each of its inputs.
    pub fn fee<E>(&self, transaction: &Transaction) -> Result<Option<u64>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        if let Some(place) = transaction.place {
            return Ok(place.fee);
        }
        if let Some(entry) = &transaction.unconfirmed {
            return Ok(Some(entry.fee));
        }
        if let Some(fee) = transaction.departed.as_ref().and_then(|departed| departed.fee) {
            return Ok(Some(fee));
        }
        if transaction.parts.is_coinbase() {
            return Ok(None);
        }
        let mut input_value = 0_u64;
        for input in &transaction.parts.input {
            let outpoint = input.previous_output;
            self.count(0)?;
            let Some(funding) = self.transaction(&outpoint.txid)? else { return Ok(None) };
            self.count(funding.bytes_read)?;
            let Some(prevout) = funding.output(outpoint.vout) else { return Ok(None) };
            input_value = input_value.saturating_add(prevout.value.to_sat());
        }
        Ok(input_value.checked_sub(transaction.output_value()))
    }

    /// Whether the lock time allows the transaction in the next block (Core `IsFinalTx`, with the median time past of
    /// the tip as BIP113 says). Ignores relative locks of its inputs.
    pub fn is_final_at_next_block(&self, transaction: &Transaction) -> Result<bool, IndexError> {
        let lock_time = transaction.parts.lock_time.to_consensus_u32();
        if transaction.parts.input.iter().all(|input| input.sequence.0 == SEQUENCE_FINAL) {
            return Ok(true);
        }
        if lock_time < LOCK_TIME_THRESHOLD {
            return Ok(lock_time < self.tip().height.next().to_u32());
        }
        Ok(lock_time < self.tip_block()?.row.median_time)
    }

    /// The newest copy of this txid on the active chain.
    pub(super) fn latest_position(&self, txid: &Txid) -> Result<Option<TxNum>, IndexError> {
        Ok(self.positions(txid)?.last().copied())
    }

    /// All copies of this txid on the active chain, oldest first.
    pub(super) fn positions(&self, txid: &Txid) -> Result<Vec<TxNum>, IndexError> {
        self.head.chain.positions(txid)
    }

    /// The height of the block with the transaction at this position.
    pub fn height_of(&self, txnum: TxNum) -> Result<Height, IndexError> {
        Ok(self.head.chain.occurrence(txnum)?.height)
    }

    /// The hash of the block with the transaction at this position.
    pub fn block_hash_of(&self, txnum: TxNum) -> Result<BlockHash, IndexError> {
        self.block_hash(self.height_of(txnum)?)
    }

    /// The txid of the transaction at an existing position.
    pub fn txid_at(&self, txnum: TxNum) -> Result<Txid, IndexError> {
        let txid = self.head.chain.txid(txnum)?;
        txid.ok_or_else(|| IndexError::corrupt("transactions", format!("row {txnum} is missing")))
    }

    /// The transaction at an existing position.
    pub fn transaction_at(&self, txnum: TxNum) -> Result<Transaction, IndexError> {
        let stored = self.head.chain.transaction(txnum)?;
        stored.map(Self::placed).ok_or_else(|| IndexError::corrupt("transactions", format!("row {txnum} is missing")))
    }

    /// The transaction at the position of the newest copy of its txid.
    pub(super) fn newest_at(&self, txnum: TxNum) -> Result<Transaction, IndexError> {
        Ok(Transaction { is_newest: true, ..self.transaction_at(txnum)? })
    }

    /// A transaction of the active chain that was found as the newest copy of its txid.
    pub(super) fn newest_placed(stored: StoredTransaction) -> Transaction {
        Transaction { is_newest: true, ..Self::placed(stored) }
    }

    pub(super) fn placed(stored: StoredTransaction) -> Transaction {
        let Occurrence { height, index } = stored.at;
        let place = ConfirmedPlace { txnum: stored.txnum, height, index, fee: stored.fee };
        Transaction::on_chain(stored.txid, stored.parts, place)
    }

    /// A transaction from the bytes of a stale block.
    fn stale_transaction(&self, block: &Block, index: u32) -> Result<Option<Transaction>, IndexError> {
        let Some(raw) = self.raw_stale_transaction(block, index)? else { return Ok(None) };
        let parts = TransactionParts::of(raw.to_vec())
            .map_err(|error| IndexError::corrupt("stale_blocks", format!("a row is not a transaction: {error}")))?;
        Ok(Some(Transaction {
            txid: parts.compute_txid(),
            parts: Arc::new(parts),
            place: None,
            unconfirmed: None,
            departed: None,
            replaced_in: None,
            is_newest: false,
            is_foreign: false,
            submitted_as: None,
            bytes_read: raw.len(),
        }))
    }
}
