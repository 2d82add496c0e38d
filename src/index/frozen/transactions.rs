//! Reads the transactions of generations: a generation has where they are, and the bytes are read from there and checked.

use std::ops::Range;
use std::sync::Arc;

use bitcoin::Txid;

use super::super::codec::small;
use super::super::error::IndexError;
use super::super::hot::tables::block_starts::Occurrence;
use super::super::hot::tip::Tip;
use super::super::keys::TxNum;
use super::super::snapshot::{StoredTransaction, parts_of};
use super::generations::Generations;
use super::recent::TransactionCopy;
use crate::chain::TransactionParts;
use crate::chain::raw::RawTransaction;

/// The most bytes of transactions that are held at a time, if each is smaller.
const HELD: usize = 16 << 20;

impl Generations {
    /// A transaction, `None` above them.
    ///
    /// Errors: [`IndexError::RawUnavailable`] if its bytes cannot be read; storage errors.
    pub(in crate::index) fn transaction(&self, txnum: TxNum) -> Result<Option<StoredTransaction>, IndexError> {
        if self.of(txnum).is_none() {
            return Ok(None);
        }
        let found = self.find(txnum)?;
        self.read_and_keep(&found, false).map(Some)
    }

    /// The newest transaction with this txid.
    ///
    /// Errors: as [`Generations::transaction`].
    pub(in crate::index) fn newest_transaction(&self, txid: &Txid) -> Result<Option<StoredTransaction>, IndexError> {
        self.locate(*txid)?.map(|found| self.read_newest(&found)).transpose()
    }

    fn read(&self, found: &Located) -> Result<StoredTransaction, IndexError> {
        let check = |raw| TransactionParts::with_txid(raw, &found.txid).map_err(|_| foreign(found.offset, &found.txid));
        let parts = Arc::new(self.raw().read(found.block, found.offset, found.length, check)?);
        let at = Occurrence { height: found.block.height, index: found.index };
        Ok(StoredTransaction { txnum: found.txnum, txid: found.txid, at, fee: found.fee, parts })
    }

    /// A transaction that was located as their newest with its txid.
    ///
    /// Errors: as [`Generations::transaction`].
    pub(in crate::index) fn read_newest(&self, found: &FrozenTransaction) -> Result<StoredTransaction, IndexError> {
        self.read_and_keep(found, true)
    }

    fn read_and_keep(&self, found: &FrozenTransaction, is_newest: bool) -> Result<StoredTransaction, IndexError> {
        let stored = self.read_found(found)?;
        if let FrozenTransaction::Located(_) = found {
            self.recent.insert(TransactionCopy { stored: stored.clone(), is_newest });
        }
        Ok(stored)
    }

    /// Transactions of theirs in a block. `at` is the place of the first.
    ///
    /// Errors: as [`Generations::transaction`].
    pub(in crate::index) fn of_block(
        &self,
        txnums: Range<TxNum>,
        at: Occurrence,
    ) -> Result<Vec<TransactionCopy>, IndexError> {
        let numbers = || (txnums.start.0..txnums.end.0).map(TxNum);
        let txids = self.txids(txnums.clone())?;
        let recent = txids.iter().zip(numbers()).map(|(txid, txnum)| self.recent(txid, txnum));
        let recent: Vec<_> = recent.collect();
        if recent.iter().all(Option::is_some) {
            return Ok(recent.into_iter().flatten().collect());
        }
        let (mut raw, mut found) = (Vec::new(), Vec::with_capacity(txids.len()));
        self.append_raw_transactions(txnums.clone(), &mut raw, |txid, fee| found.push((txid, fee)))?;
        let mut rest = raw.as_slice();
        let numbered = found.into_iter().zip(numbers()).zip(at.index..).zip(recent);
        let transactions = numbered.map(|((((txid, fee), txnum), index), recent)| {
            let length = RawTransaction::parse(rest).map_or(0, |transaction| transaction.size());
            let (raw, behind) = rest.split_at(length);
            rest = behind;
            if let Some(recent) = recent {
                return Ok(recent);
            }
            let at = Occurrence { height: at.height, index };
            let stored = StoredTransaction { txnum, txid, at, fee, parts: parts_of(txnum, raw.to_vec())? };
            Ok(TransactionCopy { stored, is_newest: false })
        });
        transactions.collect()
    }

    /// Keeps a transaction of theirs for a while, if it is one.
    pub(in crate::index) fn keep(&self, copy: TransactionCopy) {
        if copy.stored.txnum < self.end() {
            self.recent.insert(copy);
        }
    }

    /// Visits transactions of the generations, in the order of these numbers. Several are read at a time, of which
    /// [`HELD`] bytes are held. They do not take the place of those that were read lately.
    ///
    /// Errors: as [`Generations::transaction`]; [`IndexError::Threads`]; what `visit` returns.
    pub(in crate::index) fn each_transaction(
        &self,
        txnums: &[TxNum],
        mut visit: impl FnMut(usize, StoredTransaction) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let found = self.readers.read(txnums, |txnum| self.find(*txnum))?;
        let (mut rest, mut at) = (found.as_slice(), 0);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|found| {
                bytes += found.length().min(HELD);
                bytes <= HELD
            });
            let (held, behind) = rest.split_at(fitting.count().max(1));
            // what a block spends is seldom read again, so it is not kept
            for stored in self.readers.read(held, |found| self.read_found(found))? {
                visit(at, stored)?;
                at += 1;
            }
            rest = behind;
        }
        Ok(())
    }

    /// Appends the serialisations of transactions of theirs to `bytes`, and visits the txid and the fee of each. Those of one
    /// block are read at once.
    ///
    /// Errors: as [`Generations::transaction`].
    pub(in crate::index) fn append_raw_transactions(
        &self,
        txnums: Range<TxNum>,
        bytes: &mut Vec<u8>,
        mut visit: impl FnMut(Txid, Option<u64>),
    ) -> Result<(), IndexError> {
        let mut from = txnums.start;
        while from < txnums.end {
            let in_force = self.of(from).ok_or_else(|| missing("transactions", from))?;
            let found = in_force.generation.consecutive(from, txnums.end.min(in_force.end))?;
            let height = found.first.height;
            let hash = in_force.generation.block_hash(height)?.ok_or_else(|| missing("blocks", from))?;
            let check = |raw: Vec<u8>| {
                let mut rest = raw.as_slice();
                for (txid, at) in found.txids.iter().zip(&found.offsets) {
                    let length = usize::try_from(at.length).unwrap_or(0).min(rest.len());
                    let (transaction, behind) = rest.split_at(length);
                    check(transaction, txid, at.offset)?;
                    rest = behind;
                }
                Ok(raw)
            };
            let offset = found.offsets.first().map_or(0, |first| first.offset);
            let length = found.offsets.iter().fold(0_u32, |length, at| length.saturating_add(at.length));
            bytes.extend(self.raw().read(Tip { height, hash }, offset, length, check)?);
            found.txids.iter().zip(&found.offsets).for_each(|(txid, at)| visit(*txid, at.fee));
            from = found.txnums.end;
        }
        Ok(())
    }

    /// A transaction that was found.
    fn read_found(&self, found: &FrozenTransaction) -> Result<StoredTransaction, IndexError> {
        match found {
            FrozenTransaction::Recent(recent) => Ok(recent.clone()),
            FrozenTransaction::Located(located) => self.read(located),
        }
    }

    /// The txids of transactions of theirs.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if one is missing.
    pub(in crate::index) fn txids(&self, txnums: Range<TxNum>) -> Result<Vec<Txid>, IndexError> {
        let mut txids = Vec::new();
        let mut from = txnums.start;
        while from < txnums.end {
            let in_force = self.of(from).ok_or_else(|| missing("txids", from))?;
            let (end, before) = (txnums.end.min(in_force.end), txids.len());
            in_force.generation.txids(from..end, &mut txids)?;
            let read = small(txids.len() - before);
            if read != end.0 - from.0 {
                return Err(missing("txids", TxNum(from.0.saturating_add(read))));
            }
            from = end;
        }
        Ok(txids)
    }

    pub(in crate::index) fn txid(&self, txnum: TxNum) -> Result<Option<Txid>, IndexError> {
        self.of(txnum).map_or(Ok(None), |in_force| in_force.generation.txid(txnum))
    }

    /// The transactions with this txid, oldest first.
    pub(in crate::index) fn positions(&self, txid: &Txid) -> Result<Vec<TxNum>, IndexError> {
        let mut found = Vec::new();
        for in_force in self.iter() {
            let positions = in_force.generation.positions(txid)?;
            found.extend(positions.into_iter().filter(|txnum| in_force.has(*txnum)));
        }
        Ok(found)
    }

    /// The newest transaction of theirs with this txid behind this one of theirs, if there is one.
    pub(in crate::index) fn later_copy(&self, txid: &Txid, txnum: TxNum) -> Result<Option<TxNum>, IndexError> {
        for in_force in self.from(txnum).iter().rev() {
            let later = in_force.generation.positions_above(txid, Some(txnum))?;
            if let Some(later) = later.into_iter().rfind(|later| in_force.has(*later)) {
                return Ok(Some(later));
            }
        }
        Ok(None)
    }

    /// The newest transaction of theirs before `before` with each of these txids, of which several are looked up at a
    /// time.
    ///
    /// Errors: storage errors; [`IndexError::Threads`].
    pub(in crate::index) fn newest(&self, txids: &[Txid], before: TxNum) -> Result<Vec<Option<TxNum>>, IndexError> {
        if self.is_empty() {
            return Ok(vec![None; txids.len()]);
        }
        self.readers.read(txids, |txid| Ok(self.positions(txid)?.into_iter().rfind(|txnum| *txnum < before)))
    }

    /// A transaction with this txid and number, if it was read lately.
    fn recent(&self, txid: &Txid, txnum: TxNum) -> Option<TransactionCopy> {
        self.recent.get(txid).filter(|recent| recent.stored.txnum == txnum)
    }

    /// Finds a transaction of theirs.
    fn find(&self, txnum: TxNum) -> Result<FrozenTransaction, IndexError> {
        let txid = self.txid(txnum)?.ok_or_else(|| missing("txids", txnum))?;
        match self.recent(&txid, txnum) {
            Some(recent) => Ok(FrozenTransaction::Recent(recent.stored)),
            None => self.located(txnum, txid).map(FrozenTransaction::Located),
        }
    }

    /// Finds their newest transaction with this txid.
    pub(in crate::index) fn locate(&self, txid: Txid) -> Result<Option<FrozenTransaction>, IndexError> {
        let recent = self.recent.get(&txid);
        if let Some(TransactionCopy { stored, is_newest: true }) = recent {
            return Ok(Some(FrozenTransaction::Recent(stored)));
        }
        let Some(newest) = self.positions(&txid)?.pop() else { return Ok(None) };
        let Some(copy) = recent.filter(|recent| recent.stored.txnum == newest) else {
            return self.located(newest, txid).map(|located| Some(FrozenTransaction::Located(located)));
        };
        self.recent.insert(TransactionCopy { is_newest: true, ..copy.clone() });
        Ok(Some(FrozenTransaction::Recent(copy.stored)))
    }

    /// Where the bytes of a transaction of theirs are, of which the txid is known.
    fn located(&self, txnum: TxNum, txid: Txid) -> Result<Located, IndexError> {
        let generation = &self.of(txnum).ok_or_else(|| missing("transactions", txnum))?.generation;
        let (offset, length, fee) = generation.block_offset(txnum)?.ok_or_else(|| missing("positions", txnum))?;
        let Occurrence { height, index } =
            generation.occurrence(txnum)?.ok_or_else(|| missing("block_starts", txnum))?;
        let hash = generation.block_hash(height)?.ok_or_else(|| missing("blocks", txnum))?;
        Ok(Located { txnum, block: Tip { height, hash }, index, txid, offset, length, fee })
    }
}

fn missing(table: &'static str, txnum: TxNum) -> IndexError {
    IndexError::corrupt(table, format!("transaction {txnum} is missing"))
}

/// Where a transaction of theirs is found.
pub(in crate::index) enum FrozenTransaction {
    /// In memory.
    Recent(StoredTransaction),
    /// In the files.
    Located(Located),
}

impl FrozenTransaction {
    pub(in crate::index) fn txnum(&self) -> TxNum {
        match self {
            Self::Recent(recent) => recent.txnum,
            Self::Located(located) => located.txnum,
        }
    }

    /// The length of its serialisation in bytes.
    pub(in crate::index) fn length(&self) -> usize {
        match self {
            Self::Recent(recent) => recent.parts.raw().len(),
            Self::Located(located) => usize::try_from(located.length).unwrap_or(usize::MAX),
        }
    }
}

/// Where the bytes of a transaction are, and what they must be.
pub(in crate::index) struct Located {
    txnum: TxNum,
    block: Tip,
    /// Its index in the block.
    index: u32,
    txid: Txid,
    /// Bytes of the block before it.
    offset: u32,
    length: u32,
    /// In sat, `None` for a coinbase.
    fee: Option<u64>,
}

/// Whether bytes from this offset of a block are a transaction. The error says what they are not.
fn check(raw: &[u8], txid: &Txid, offset: u32) -> Result<(), String> {
    if RawTransaction::parse_whole(raw).is_ok_and(|transaction| transaction.txid() == *txid) {
        return Ok(());
    }
    Err(foreign(offset, txid))
}

fn foreign(offset: u32, txid: &Txid) -> String {
    format!("the bytes at offset {offset} are not transaction {txid}")
}
