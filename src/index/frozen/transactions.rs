//! Reads the transactions of generations: a generation has where they are, and the bytes are read from there and checked.

use std::ops::Range;

use bitcoin::Txid;

use super::super::error::IndexError;
use super::super::keys::TxNum;
use super::super::snapshot::StoredTransaction;
use super::super::update::Tip;
use super::generations::Generations;
use super::parallel::in_parallel;
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
        self.read(&self.located(txnum)?).map(Some)
    }

    fn read(&self, found: &Located) -> Result<StoredTransaction, IndexError> {
        let check = |raw: Vec<u8>| found.check(&raw).map(|()| raw);
        let raw = self.raw().read(found.block, found.offset, found.length, check)?;
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
            let check = |raw: Vec<u8>| {
                let mut rest = raw.as_slice();
                for found in &transactions {
                    let length = usize::try_from(found.length).unwrap_or(0).min(rest.len());
                    let (transaction, behind) = rest.split_at(length);
                    found.check(transaction)?;
                    rest = behind;
                }
                Ok(raw)
            };
            let raw = self.raw().read(first.block, first.offset, length, check)?;
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
    /// The error says what the bytes are not.
    fn check(&self, raw: &[u8]) -> Result<(), String> {
        if RawTransaction::parse_whole(raw).is_ok_and(|transaction| transaction.txid() == self.txid) {
            return Ok(());
        }
        Err(format!("the bytes at offset {} are not transaction {}", self.offset, self.txid))
    }
}
