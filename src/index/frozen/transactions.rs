//! Reads the transactions of generations: a generation has where they are, and the bytes are read from there and checked.

use std::ops::Range;

use bitcoin::Txid;

use super::super::error::IndexError;
use super::super::keys::TxNum;
use super::super::snapshot::StoredTransaction;
use super::super::update::Tip;
use super::generations::Generations;
use super::parallel::in_parallel;
use crate::chain::raw::{MAX_BLOCK_SIZE, RawTransaction};

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
        self.read(&self.located(txnum)?).map(Some)
    }

    fn read(&self, found: &Located) -> Result<StoredTransaction, IndexError> {
        let raw = self.checked_bytes(found.block, found.offset, found.length, |raw| found.check(raw))?;
        Ok(StoredTransaction { txnum: found.txnum, txid: found.txid, fee: found.fee, raw })
    }

    /// Visits transactions of the generations, in the order of these numbers. Several are read at a time, of which
    /// [`HELD`] bytes are held.
    ///
    /// Errors: as [`Generations::transaction`]; [`IndexError::Threads`]; what `visit` returns.
    pub(in crate::index) fn each_transaction(
        &self,
        txnums: &[TxNum],
        mut visit: impl FnMut(usize, StoredTransaction) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let located = in_parallel(txnums, |txnum| self.located(*txnum))?;
        let (mut rest, mut at) = (located.as_slice(), 0);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|found| {
                bytes += usize::try_from(found.length).unwrap_or(HELD);
                bytes <= HELD
            });
            let (held, behind) = rest.split_at(fitting.count().max(1));
            for stored in in_parallel(held, |found| self.read(found))? {
                visit(at, stored)?;
                at += 1;
            }
            rest = behind;
        }
        Ok(())
    }

    /// Appends the serialisations of transactions of theirs to `bytes`. Those of one block are read at once.
    ///
    /// Errors: as [`Generations::transaction`].
    pub(in crate::index) fn append_raw_transactions(
        &self,
        txnums: Range<TxNum>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        let mut from = txnums.start;
        while from < txnums.end {
            let first = self.located(from)?;
            let (mut length, mut next) = (0_u32, from);
            let mut transactions = Vec::new();
            while next < txnums.end {
                let found = self.located(next)?;
                if found.block != first.block {
                    break;
                }
                length = length.saturating_add(found.length);
                transactions.push(found);
                next = TxNum(next.0 + 1);
            }
            let raw = self.checked_bytes(first.block, first.offset, length, |mut rest| {
                for found in &transactions {
                    let length = usize::try_from(found.length).unwrap_or(0).min(rest.len());
                    let (transaction, behind) = rest.split_at(length);
                    found.check(transaction)?;
                    rest = behind;
                }
                Ok(())
            })?;
            bytes.extend(raw);
            from = next;
        }
        Ok(())
    }

    /// Where the bytes of a transaction of theirs are.
    fn located(&self, txnum: TxNum) -> Result<Located, IndexError> {
        let missing = |table| IndexError::corrupt(table, format!("transaction {txnum} is missing"));
        let generation = &self.of(txnum).ok_or_else(|| missing("transactions"))?.generation;
        let txid = generation.txid(txnum)?.ok_or_else(|| missing("txids"))?;
        let (offset, length, fee) = generation.block_offset(txnum)?.ok_or_else(|| missing("positions"))?;
        let height = generation.occurrence(txnum)?.ok_or_else(|| missing("block_starts"))?.height;
        let hash = generation.block_hash(height)?.ok_or_else(|| missing("blocks"))?;
        Ok(Located { txnum, block: Tip { height, hash }, txid, offset, length, fee })
    }

    /// `length` bytes of a block from `offset` on that pass a check, from another place if those of the first do not.
    ///
    /// Errors: as [`Generations::raw_bytes`]; that of the check.
    fn checked_bytes(
        &self,
        block: Tip,
        offset: u32,
        length: u32,
        check: impl Fn(&[u8]) -> Result<(), IndexError>,
    ) -> Result<Vec<u8>, IndexError> {
        let bytes = self.raw_bytes(block, offset, length)?;
        let Err(error) = check(&bytes) else { return Ok(bytes) };
        let again = self.raw.get().and_then(|raw| raw.read_elsewhere(block, offset, length).ok());
        again.filter(|bytes| check(bytes).is_ok()).ok_or(error)
    }

    /// `length` bytes of a block from `offset` on.
    ///
    /// Errors: [`IndexError::RawUnavailable`].
    pub(in crate::index) fn raw_bytes(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, IndexError> {
        let unavailable = |why: String| IndexError::RawUnavailable { height: block.height, hash: block.hash, why };
        if offset.saturating_add(length) > MAX_BLOCK_SIZE {
            let what = format!("{length} bytes at offset {offset} of block {} are more than a block has", block.hash);
            return Err(IndexError::corrupt("positions", what));
        }
        let raw = self.raw.get().ok_or_else(|| unavailable("no node is connected yet".into()))?;
        let bytes = raw.read(block, offset, length).map_err(|error| unavailable(error.to_string()))?;
        if u32::try_from(bytes.len()) == Ok(length) {
            Ok(bytes)
        } else {
            Err(unavailable(format!("{} bytes were returned, not {length}", bytes.len())))
        }
    }
}

/// Where the bytes of a transaction are, and what they must be.
struct Located {
    txnum: TxNum,
    block: Tip,
    txid: Txid,
    /// Bytes of the block before it.
    offset: u32,
    length: u32,
    /// In sat, `None` for a coinbase.
    fee: Option<u64>,
}

impl Located {
    /// Errors: [`IndexError::RawUnavailable`] if the bytes are not this transaction.
    fn check(&self, raw: &[u8]) -> Result<(), IndexError> {
        if RawTransaction::parse_whole(raw).is_ok_and(|transaction| transaction.txid() == self.txid) {
            return Ok(());
        }
        let Self { block: Tip { height, hash }, txid, offset, .. } = self;
        let why = format!("the bytes at offset {offset} are not transaction {txid}");
        Err(IndexError::RawUnavailable { height: *height, hash: *hash, why })
    }
}
