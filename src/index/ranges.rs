//! Reads of many rows in one pass over a table.
//!
//! Rows are decoded in place: fields that the caller does not need, above all the bytes of transactions and stale
//! blocks, are not copied.

use std::ops::{Range, RangeInclusive};

use bitcoin::{BlockHash, Txid};

use super::error::IndexError;
use super::frozen::TransactionCopy;
use super::hot::tables::block_starts::Occurrence;
use super::hot::tables::blocks::BlockRow;
use super::hot::tables::stale_blocks::{self, StaleBlock};
use super::hot::tables::transactions::TransactionRow;
use super::keys::TxNum;
use super::snapshot::{Snapshot, StoredTransaction};
use crate::chain::Height;

impl Snapshot {
    /// The hashes of these blocks of the active chain.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is missing.
    pub fn block_hashes(&self, heights: RangeInclusive<Height>) -> Result<Vec<BlockHash>, IndexError> {
        let heights = heights.start().to_u32()..=heights.end().to_u32();
        heights.map(|height| self.block_hash(Height::from(height))).collect()
    }

    /// The first of these heights of the active chain, upwards or downwards, whose block may have at least so many
    /// transactions. `None` if there is none. Of blocks that are not frozen each may.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is damaged.
    pub fn next_large_block(
        &self,
        heights: Range<Height>,
        transactions: u32,
        upwards: bool,
    ) -> Result<Option<Height>, IndexError> {
        self.generations.next_large_block(heights, transactions, upwards)
    }

    /// How many transactions these blocks have, all of which are live.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is missing.
    pub fn transactions_in(&self, heights: RangeInclusive<Height>) -> Result<u64, IndexError> {
        Ok(self.range_of(heights)?.transactions().into())
    }

    /// The txids of `count` transactions of the active chain from a position on.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is missing.
    pub fn txids(&self, first: TxNum, count: u32) -> Result<Vec<Txid>, IndexError> {
        let (frozen, live) = self.split_range(first, count)?;
        let mut txids = self.generations.txids(frozen)?;
        self.each_transaction(live, |_, row| {
            txids.push(row.txid);
            Ok(())
        })?;
        Ok(txids)
    }

    /// Appends the serialisations of `count` transactions of the active chain from a position on to `bytes`.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is missing.
    pub fn append_raw_transactions(&self, first: TxNum, count: u32, bytes: &mut Vec<u8>) -> Result<(), IndexError> {
        self.read_transactions(first, count, bytes).map(drop)
    }

    /// Appends the serialisations of `count` transactions of the active chain from a position on to `bytes`, and returns the
    /// txid of each and its fee in sat, `None` for a coinbase.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is missing.
    pub fn read_transactions(
        &self,
        first: TxNum,
        count: u32,
        bytes: &mut Vec<u8>,
    ) -> Result<Vec<(Txid, Option<u64>)>, IndexError> {
        let (frozen, live) = self.split_range(first, count)?;
        let mut found = Vec::new();
        self.generations.append_raw_transactions(frozen, bytes, |txid, fee| found.push((txid, fee)))?;
        self.each_transaction(live, |_, row| {
            bytes.extend_from_slice(row.raw);
            found.push((row.txid, row.paid_fee()));
            Ok(())
        })?;
        Ok(found)
    }

    /// The newest copies of `count` transactions of a block of the active chain: themselves, unless the chain repeats one later
    /// (BIP30). `first` is the position of the first of them, `at` its place.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is missing or damaged, `RawUnavailable`, `Threads`.
    pub fn newest_of_block(
        &self,
        first: TxNum,
        at: Occurrence,
        count: u32,
    ) -> Result<Vec<StoredTransaction>, IndexError> {
        let (frozen, live) = self.split_range(first, count)?;
        let mut own = self.generations.of_block(frozen, at)?;
        self.each_transaction(live, |txnum, row| {
            let at = Occurrence { index: at.index.saturating_add(txnum.0 - first.0), ..at };
            own.push(TransactionCopy { stored: StoredTransaction::of_row(txnum, at, row)?, is_newest: false });
            Ok(())
        })?;
        let later = self.generations.look_up_several(&own, |own| self.newest_later(own))?;
        let newest = own.into_iter().zip(later).map(|(TransactionCopy { stored, is_newest }, later)| {
            if let Some(later) = later {
                return self.transaction(later)?.ok_or_else(|| missing(later));
            }
            if !is_newest {
                self.generations.keep(TransactionCopy { stored: stored.clone(), is_newest: true });
            }
            Ok(stored)
        });
        newest.collect()
    }

    /// The newest transaction with the same txid that comes later, if there is one.
    fn newest_later(
        &self,
        TransactionCopy { stored, is_newest }: &TransactionCopy,
    ) -> Result<Option<TxNum>, IndexError> {
        let live = self.live_positions(&stored.txid)?.pop().filter(|live| *live > stored.txnum);
        match live {
            None if !is_newest => self.generations.later_copy(&stored.txid, stored.txnum),
            live => Ok(live),
        }
    }

    /// The coinbases of those blocks of the active chain that begin at one of these positions, lowest first, read
    /// lazily.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row is damaged.
    pub fn coinbases(
        &self,
        positions: Range<TxNum>,
    ) -> Result<impl Iterator<Item = Result<StoredTransaction, IndexError>>, IndexError> {
        let frozen = self.generations.starts(positions.clone())?.map(|start| Ok(start?.first));
        let first = positions.start.max(self.generations.end());
        let live = self.block_starts.range::<&[u8; 4]>(&first.to_key()..&positions.end.max(first).to_key())?;
        let live = live.map(|start| Ok::<_, IndexError>(TxNum::from_key(*start?.0.value())));
        Ok(frozen.chain(live).map(|start| {
            let txnum = start?;
            self.transaction(txnum)?.ok_or_else(|| missing(txnum))
        }))
    }

    /// The transactions of a range that generations have, and the others.
    fn split_range(&self, first: TxNum, count: u32) -> Result<(Range<TxNum>, Range<TxNum>), IndexError> {
        let end = first.0.checked_add(count).map(TxNum);
        let end = end.ok_or_else(|| {
            IndexError::corrupt("transactions", "the chain has more transactions than fit 32 bits".to_owned())
        })?;
        let cut = self.generations.end().clamp(first, end);
        Ok((first..cut, cut..end))
    }

    /// Visits transactions that no generation has.
    fn each_transaction(
        &self,
        txnums: Range<TxNum>,
        mut visit: impl FnMut(TxNum, TransactionRow<'_>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let mut rows = self.transactions.range::<&[u8; 4]>(&txnums.start.to_key()..&txnums.end.to_key())?;
        for txnum in (txnums.start.0..txnums.end.0).map(TxNum) {
            let row = rows.next().transpose()?.filter(|(key, _)| *key.value() == txnum.to_key());
            let (_, row) = row.ok_or_else(|| missing(txnum))?;
            visit(txnum, TransactionRow::decode(row.value())?)?;
        }
        Ok(())
    }

    /// The row of a block that left the active chain, without its bytes.
    pub fn stale_block_row(&self, height: Height, hash: BlockHash) -> Result<Option<BlockRow>, IndexError> {
        let Some(row) = self.stale_blocks.get(&stale_blocks::key(height, hash))? else { return Ok(None) };
        StaleBlock::decode_row(row.value()).map(Some)
    }

    /// The serialised coinbase of a block that left the active chain.
    pub fn stale_coinbase(&self, height: Height, hash: BlockHash) -> Result<Option<Vec<u8>>, IndexError> {
        let row = self.stale_blocks.get(&stale_blocks::key(height, hash))?;
        row.map(|row| StaleBlock::decode_coinbase(row.value())).transpose()
    }

    /// The serialised coinbases of the kept stale blocks at these heights, lowest first, read lazily.
    pub fn stale_coinbases_within(
        &self,
        heights: &Range<Height>,
    ) -> Result<impl Iterator<Item = Result<Vec<u8>, IndexError>> + use<>, IndexError> {
        let first_key = |height: Height| stale_blocks::first_key(u64::from(height.to_u32()) << 32);
        let (start, end) = (first_key(heights.start), first_key(heights.end.max(heights.start)));
        let rows = self.stale_blocks.range::<&stale_blocks::StaleBlockKey>(&start..&end)?;
        Ok(rows.map(|row| StaleBlock::decode_coinbase(row?.1.value())))
    }

    /// Heights and hashes of the kept stale blocks whose [`stale_position`](Self::stale_position) lies in `positions`,
    /// lowest first, read lazily.
    pub fn stale_blocks_within(
        &self,
        positions: Range<u64>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(Height, BlockHash), IndexError>> + use<>, IndexError> {
        let start = stale_blocks::first_key(positions.start);
        let end = stale_blocks::first_key(positions.end.max(positions.start));
        let rows = self.stale_blocks.range::<&stale_blocks::StaleBlockKey>(&start..&end)?;
        Ok(rows.map(|row| Ok(stale_blocks::split_key(row?.0.value()))))
    }

    /// The sort position of a stale block: its height, then the first four bytes of its hash, which distinguish the few
    /// blocks of one height.
    #[must_use]
    pub fn stale_position(height: Height, hash: BlockHash) -> u64 {
        stale_blocks::position(&stale_blocks::key(height, hash))
    }

    /// The number of kept stale blocks.
    pub fn stale_block_count(&self) -> Result<u64, IndexError> {
        use redb::ReadableTableMetadata;
        Ok(self.stale_blocks.len()?)
    }

    /// The number of rows with the bytes of stale blocks, which is the same.
    pub fn stale_raw_block_count(&self) -> Result<u64, IndexError> {
        use redb::ReadableTableMetadata;
        Ok(self.stale_raw_blocks.len()?)
    }
}

fn missing(txnum: TxNum) -> IndexError {
    IndexError::corrupt("transactions", format!("row {txnum} is missing"))
}
