//! Observations of a running server: the persisted mempool, departures from it, first-seen times of transactions and blocks, how
//! blocks compare with the projected ones, reorganisations, samples of the mempool.
//!
//! Observations are not a function of the chain, and the chain's rows do not depend on them. They are part of the
//! updates of the chain, so that a first-seen time changes with its block. The module `mempool` encodes the rows of the
//! mempool; here they are bytes under a key.

use std::ops::{Range, RangeInclusive};

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};
use redb::{ReadableTable, ReadableTableMetadata, Table};

use super::super::error::IndexError;
use super::super::keys::TxNum;
use super::super::snapshot::Snapshot;
use super::tables::observed::block_observed::ObservedBlock;
use super::tables::reorgs::{BlockKey, Reorg, ReorgRole, block_key};
use super::tables::stale_blocks;
use super::tip::Tip;
use super::update::Update;
use crate::chain::Height;

/// How many rows a call deletes at most beside as many as it adds. So a block does not wait for all that is beyond a limit that was
/// lowered, and its transaction does not outgrow the cache: the next calls delete the rest.
const DELETED_AT_ONCE: u64 = 4_000;

/// Rows to insert or delete in one commit. The files of the tables describe keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// New unconfirmed transactions; `None` for those that are no longer unconfirmed.
    pub mempool: Vec<(Txid, Option<Vec<u8>>)>,
    /// Departures by their number.
    pub departed: Vec<(u64, Vec<u8>)>,
    /// A sample of the mempool, by its minute since 1970.
    pub mempool_sample: Option<(u32, Vec<u8>)>,
}

impl Update<'_> {
    /// Stores observations of the mempool, and deletes the oldest rows beyond the limits, some at a time.
    pub fn observe(&mut self, observations: &Observations) -> Result<(), IndexError> {
        self.with_tables(|tables, limits| {
            for (txid, row) in &observations.mempool {
                match row {
                    Some(row) => tables.mempool.insert(txid.as_byte_array(), row.as_slice())?,
                    None => tables.mempool.remove(txid.as_byte_array())?,
                };
            }
            for (number, row) in &observations.departed {
                tables.departed.insert(&number.to_be_bytes(), row.as_slice())?;
            }
            keep_last(&mut tables.departed, limits.departed, observations.departed.len())?;
            if let Some((minute, row)) = &observations.mempool_sample {
                tables.mempool_samples.insert(&minute.to_be_bytes(), row.as_slice())?;
            }
            keep_last(&mut tables.mempool_samples, limits.mempool_samples, 1)
        })
    }

    /// Deletes all rows of the persisted mempool.
    pub fn clear_mempool(&mut self) -> Result<(), IndexError> {
        self.with_tables(|tables, _| Ok(tables.mempool.retain(|_, _| false)?))
    }

    /// Records when transactions of a block of the active chain were first seen: for each its index in the block, and
    /// seconds since 1970.
    ///
    /// Errors: [`IndexError::Corrupt`] if there is no block at this height.
    pub fn record_first_seen(
        &mut self,
        height: Height,
        seen: impl IntoIterator<Item = (u32, u64)>,
    ) -> Result<(), IndexError> {
        let first = self.first_txnum(height)?;
        self.with_tables(|tables, limits| {
            let mut added = 0;
            for (index, seconds) in seen {
                let txnum = TxNum(first.0.saturating_add(index));
                let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
                tables.first_seen.insert(&txnum.to_key(), &seconds.to_be_bytes())?;
                added += 1;
            }
            keep_last(&mut tables.first_seen, limits.first_seen, added)
        })
    }

    /// Records what was observed when a block arrived. If it arrived before, because a reorganisation connects it again, the
    /// earlier observation stays.
    pub fn record_observed_block(&mut self, block: Tip, observed: &ObservedBlock) -> Result<(), IndexError> {
        let key = stale_blocks::key(block.height, block.hash);
        self.with_tables(|tables, limits| {
            if tables.block_observed.get(&key)?.is_none() {
                tables.block_observed.insert(&key, observed.encode().as_slice())?;
            }
            keep_last(&mut tables.block_observed, limits.blocks, 1)
        })
    }

    /// Records a reorganisation under the next number, and returns that number.
    pub fn record_reorg(&mut self, reorg: &Reorg) -> Result<u64, IndexError> {
        self.counts.reorgs += 1;
        self.with_tables(|tables, limits| {
            let last = tables.reorgs.last()?.map_or(0, |(key, _)| u64::from_be_bytes(*key.value()));
            let next = last.saturating_add(1);
            let number = next.to_be_bytes();
            tables.reorgs.insert(&number, reorg.encode().as_slice())?;
            for key in reorg.block_keys() {
                tables.reorg_blocks.insert(&key, &number)?;
            }
            for _ in 0..excess(tables.reorgs.len()?, limits.reorgs, 1) {
                let Some((number, oldest)) = oldest(&tables.reorgs)? else { break };
                for key in oldest.block_keys() {
                    let still = tables.reorg_blocks.get(&key)?.is_some_and(|at| *at.value() == number);
                    if still {
                        tables.reorg_blocks.remove(&key)?;
                    }
                }
                tables.reorgs.remove(&number)?;
            }
            Ok(next)
        })
    }

    /// Replaces a recorded reorganisation, which keeps its number. Does nothing if it is no longer kept.
    pub fn amend_reorg(&mut self, number: u64, reorg: &Reorg) -> Result<(), IndexError> {
        self.with_tables(|tables, _| {
            let number = number.to_be_bytes();
            let before = tables.reorgs.get(&number)?.map(|row| Reorg::decode(row.value())).transpose()?;
            let Some(before) = before else { return Ok(()) };
            tables.reorgs.insert(&number, reorg.encode().as_slice())?;
            let key = before.tip_key();
            if key != reorg.tip_key() {
                // the key led to this reorganisation; an older one may have the same new tip
                match newest_to(&tables.reorgs, &key)? {
                    Some(other) => tables.reorg_blocks.insert(&key, &other)?,
                    None => tables.reorg_blocks.remove(&key)?,
                };
            }
            for key in reorg.block_keys() {
                tables.reorg_blocks.insert(&key, &number)?;
            }
            Ok(())
        })
    }
}

/// The number of the newest reorganisation whose newest block has this key.
fn newest_to(
    reorgs: &impl ReadableTable<&'static [u8; 8], &'static [u8]>,
    key: &BlockKey,
) -> Result<Option<[u8; 8]>, IndexError> {
    for row in reorgs.iter()?.rev() {
        let (number, row) = row?;
        if Reorg::decode(row.value())?.tip_key() == *key {
            return Ok(Some(*number.value()));
        }
    }
    Ok(None)
}

fn oldest(
    reorgs: &impl ReadableTable<&'static [u8; 8], &'static [u8]>,
) -> Result<Option<([u8; 8], Reorg)>, IndexError> {
    reorgs.first()?.map(|(key, row)| Ok((*key.value(), Reorg::decode(row.value())?))).transpose()
}

/// How many rows a call deletes that has added so many to a table, which has `rows` now.
fn excess(rows: u64, limit: u64, added: usize) -> u64 {
    let most = DELETED_AT_ONCE.saturating_add(u64::try_from(added).unwrap_or(u64::MAX));
    rows.saturating_sub(limit).min(most)
}

/// Deletes the first rows of a table beyond `limit`, some at a time. So many were added.
fn keep_last<const N: usize, V: redb::Value + 'static>(
    table: &mut Table<'_, &'static [u8; N], V>,
    limit: u64,
    added: usize,
) -> Result<(), IndexError> {
    for _ in 0..excess(table.len()?, limit, added) {
        table.pop_first()?;
    }
    Ok(())
}

impl Snapshot {
    /// The persisted unconfirmed transactions, in no particular order.
    pub fn persisted_mempool(&self) -> Result<impl Iterator<Item = Result<(Txid, Vec<u8>), IndexError>>, IndexError> {
        let rows = self.mempool.range::<&[u8; 32]>(..)?;
        Ok(rows.map(|row| {
            let (key, row) = row?;
            Ok((Txid::from_byte_array(*key.value()), row.value().to_vec()))
        }))
    }

    /// The persisted departures from the mempool without being mined, by number, the oldest first.
    pub fn persisted_departed(&self) -> Result<impl Iterator<Item = Result<(u64, Vec<u8>), IndexError>>, IndexError> {
        let rows = self.departed.range::<&[u8; 8]>(..)?;
        Ok(rows.map(|row| {
            let (key, row) = row?;
            Ok((u64::from_be_bytes(*key.value()), row.value().to_vec()))
        }))
    }

    /// When a transaction of the active chain was first seen unconfirmed, in seconds since 1970; `None` if it was not
    /// seen before its block.
    pub fn first_seen_at(&self, txnum: TxNum) -> Result<Option<u64>, IndexError> {
        let row = self.first_seen.get(&txnum.to_key())?;
        Ok(row.map(|row| u32::from_be_bytes(*row.value()).into()))
    }

    /// When these transactions were first seen unconfirmed, those that were, in seconds since 1970; in their order, read lazily.
    pub fn first_seen_within(
        &self,
        txnums: Range<TxNum>,
    ) -> Result<impl Iterator<Item = Result<(TxNum, u64), IndexError>>, IndexError> {
        let rows = self.first_seen.range::<&[u8; 4]>(&txnums.start.to_key()..&txnums.end.to_key())?;
        Ok(rows.map(|row| {
            let (key, seconds) = row?;
            Ok((TxNum::from_key(*key.value()), u32::from_be_bytes(*seconds.value()).into()))
        }))
    }

    /// The transactions of the blocks above a height that were seen unconfirmed, and when, in seconds since 1970; the
    /// newest of the chain first, read lazily.
    pub fn first_seen_above(
        &self,
        height: Height,
    ) -> Result<impl Iterator<Item = Result<(Txid, u64), IndexError>>, IndexError> {
        let first = self.block(height)?.and_then(|row| u32::try_from(row.running.transactions).ok());
        let first = TxNum(first.unwrap_or(u32::MAX)).to_key();
        let rows = self.first_seen.range::<&[u8; 4]>(&first..)?;
        Ok(rows.rev().filter_map(|row| {
            let read = || {
                let (key, seconds) = row?;
                let seconds = u32::from_be_bytes(*seconds.value()).into();
                Ok(self.txid(TxNum::from_key(*key.value()))?.map(|txid| (txid, seconds)))
            };
            read().transpose()
        }))
    }

    /// What was observed when a block arrived; `None` if the server did not follow the node then, or it is no longer stored.
    pub fn observed_block(&self, block: Tip) -> Result<Option<ObservedBlock>, IndexError> {
        let row = self.block_observed.get(&stale_blocks::key(block.height, block.hash))?;
        row.map(|row| ObservedBlock::decode(row.value())).transpose()
    }

    /// The comparison with the projected block of each stored observation of a block at these heights, stale ones too, lowest first,
    /// read lazily: no more than its first `bytes`, and nothing where the block was not compared.
    pub fn audits(
        &self,
        heights: Range<Height>,
        bytes: usize,
    ) -> Result<impl Iterator<Item = Result<(Tip, Vec<u8>), IndexError>>, IndexError> {
        let key = |height: Height| stale_blocks::key(height, BlockHash::all_zeros());
        let rows = self.block_observed.range::<&[u8; 36]>(&key(heights.start)..&key(heights.end))?;
        Ok(rows.map(move |row| {
            let (key, row) = row?;
            let (height, hash) = stale_blocks::split_key(key.value());
            Ok((Tip { height, hash }, ObservedBlock::decode_audit(row.value(), bytes)?))
        }))
    }

    /// Samples of the mempool by minute since 1970, the oldest first, read lazily.
    pub fn mempool_samples(
        &self,
        minutes: RangeInclusive<u32>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(u32, Vec<u8>), IndexError>>, IndexError> {
        let (from, to) = (minutes.start().to_be_bytes(), minutes.end().to_be_bytes());
        let rows = self.mempool_samples.range::<&[u8; 4]>(&from..=&to)?;
        Ok(rows.map(|row| {
            let (key, row) = row?;
            Ok((u32::from_be_bytes(*key.value()), row.value().to_vec()))
        }))
    }

    /// The reorganisations with these numbers, the oldest first, read lazily. Numbers begin with 1.
    pub fn reorgs(
        &self,
        numbers: Range<u64>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(u64, Reorg), IndexError>>, IndexError> {
        let (from, to) = (numbers.start.to_be_bytes(), numbers.end.to_be_bytes());
        let rows = self.reorgs.range::<&[u8; 8]>(&from..&to)?;
        Ok(rows.map(|row| {
            let (key, row) = row?;
            Ok((u64::from_be_bytes(*key.value()), Reorg::decode(row.value())?))
        }))
    }

    /// The numbers of the reorganisations that are kept.
    pub fn kept_reorgs(&self) -> Result<Range<u64>, IndexError> {
        let number = |row: Option<(redb::AccessGuard<'_, &'static [u8; 8]>, _)>| {
            row.map(|(key, _): (_, redb::AccessGuard<'_, &'static [u8]>)| u64::from_be_bytes(*key.value()))
        };
        let (first, last) = (number(self.reorgs.first()?), number(self.reorgs.last()?));
        Ok(first.zip(last).map_or(1..1, |(first, last)| first..last.saturating_add(1)))
    }

    /// The newest reorganisation that disconnected this block.
    pub fn reorg_that_disconnected(&self, block: BlockHash) -> Result<Option<Reorg>, IndexError> {
        self.reorg_by(ReorgRole::Disconnected, block)
    }

    /// The newest reorganisation after which this block was the tip.
    pub fn reorg_to(&self, new_tip: BlockHash) -> Result<Option<Reorg>, IndexError> {
        self.reorg_by(ReorgRole::NewTip, new_tip)
    }

    fn reorg_by(&self, role: ReorgRole, block: BlockHash) -> Result<Option<Reorg>, IndexError> {
        let Some(number) = self.reorg_blocks.get(&block_key(role, &block))? else { return Ok(None) };
        let row = self.reorgs.get(number.value())?;
        let row = row.ok_or_else(|| {
            IndexError::corrupt("reorg_blocks", format!("the row of {block} names a reorganisation that is missing"))
        })?;
        Reorg::decode(row.value()).map(Some)
    }
}
