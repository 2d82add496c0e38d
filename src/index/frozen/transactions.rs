//! Reads the transactions of generations: a generation has where they are, and the bytes are read from there and checked.

use std::ops::Range;
use std::sync::Arc;

use bitcoin::Txid;

use super::super::error::IndexError;
use super::super::hot::update::Tip;
use super::super::keys::TxNum;
use super::super::snapshot::{Occurrence, StoredTransaction};
use super::generations::Generations;
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
        self.read_located(&self.find(txnum)?).map(Some)
    }

    /// The newest transaction with this txid.
    ///
    /// Errors: as [`Generations::transaction`].
    pub(in crate::index) fn newest_transaction(&self, txid: &Txid) -> Result<Option<StoredTransaction>, IndexError> {
        self.positions(txid)?.pop().map_or(Ok(None), |newest| self.transaction(newest))
    }

    fn read_and_keep(&self, found: &Located) -> Result<StoredTransaction, IndexError> {
        let read = self.read(found)?;
        if let Some(in_force) = self.of(found.txnum) {
            in_force.generation.recent.insert(Arc::new(read.clone()));
        }
        Ok(read)
    }

    fn read(&self, found: &Located) -> Result<StoredTransaction, IndexError> {
        let check = |raw: Vec<u8>| check(&raw, &found.txid, found.offset).map(|()| raw);
        let raw = self.raw().read(found.block, found.offset, found.length, check)?;
        let at = Occurrence { height: found.block.height, index: found.index };
        Ok(StoredTransaction { txnum: found.txnum, txid: found.txid, at, fee: found.fee, raw })
    }

    /// A transaction that was located.
    ///
    /// Errors: as [`Generations::transaction`].
    pub(in crate::index) fn read_located(&self, found: &FrozenTransaction) -> Result<StoredTransaction, IndexError> {
        match found {
            FrozenTransaction::Recent(recent) => Ok(StoredTransaction::clone(recent)),
            FrozenTransaction::Located(located) => self.read_and_keep(located),
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

    /// A transaction that was found. It is not kept, because what a block spends is seldom read again.
    fn read_found(&self, found: &FrozenTransaction) -> Result<StoredTransaction, IndexError> {
        match found {
            FrozenTransaction::Recent(recent) => Ok(StoredTransaction::clone(recent)),
            FrozenTransaction::Located(located) => self.read(located),
        }
    }

    /// A transaction that was read lately.
    fn recent(&self, txnum: TxNum) -> Option<Arc<StoredTransaction>> {
        self.of(txnum)?.generation.recent.get(txnum)
    }

    /// Finds a transaction of theirs.
    fn find(&self, txnum: TxNum) -> Result<FrozenTransaction, IndexError> {
        match self.recent(txnum) {
            Some(recent) => Ok(FrozenTransaction::Recent(recent)),
            None => self.located(txnum).map(FrozenTransaction::Located),
        }
    }

    /// Finds their newest transaction with this txid.
    pub(in crate::index) fn locate(&self, txid: Txid) -> Result<Option<FrozenTransaction>, IndexError> {
        let Some(newest) = self.positions(&txid)?.pop() else { return Ok(None) };
        Ok(Some(match self.recent(newest) {
            Some(recent) => FrozenTransaction::Recent(recent),
            None => FrozenTransaction::Located(self.located_with(newest, txid)?),
        }))
    }

    /// Where the bytes of a transaction of theirs are.
    fn located(&self, txnum: TxNum) -> Result<Located, IndexError> {
        let txid = self.txid(txnum)?.ok_or_else(|| missing("txids", txnum))?;
        self.located_with(txnum, txid)
    }

    /// Where the bytes of a transaction of theirs are, of which the txid is known.
    fn located_with(&self, txnum: TxNum, txid: Txid) -> Result<Located, IndexError> {
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
    Recent(Arc<StoredTransaction>),
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
            Self::Recent(recent) => recent.raw.len(),
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
    Err(format!("the bytes at offset {offset} are not transaction {txid}"))
}
