//! The table `miner_blocks`: which pool mined each block, and the running totals of each.
//!
//! ```text
//!   connect ── complete up to the block before ──► its row            disconnect ──► its row is deleted
//!   Index::tend_miners ── of another table of pools ──► rows are deleted, a few at a time
//!                      └─ incomplete ──► rows from the lowest missing block on, a few at a time
//! ```
//!
//! Rows are complete up to a height that `meta` has, so lookups know whether they miss any.

use std::ops::Range;
use std::sync::Arc;

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata};

use super::super::block::ParsedBlock;
use super::super::error::IndexError;
use super::super::keys::TxNum;
use super::super::open::Index;
use super::super::snapshot::{MinerBlocksTable, Snapshot};
use super::live_tables::Tables;
use super::resolve::{BlockRun, parse};
use super::tables::blocks::BlockRow;
use super::tables::meta;
use super::tables::miner_blocks::{self, MinerTotals, MinersState, NAME, read_state};
use super::tip_record::read_tip;
use crate::chain::Height;
use crate::chain::pools::{PoolId, Pools};

impl Snapshot {
    /// The totals of the blocks below this height that are ascribed to a pool; of those that are ascribed to none without a
    /// pool.
    ///
    /// Errors: [`IndexError::MinersNotReady`]; storage errors.
    pub fn miner_totals(&self, miner: Option<PoolId>, below: Height) -> Result<MinerTotals, IndexError> {
        let (from, to) = (miner_blocks::key(miner, Height::GENESIS), miner_blocks::key(miner, below));
        let table = self.checked_miner_blocks()?;
        let row = table.map(|table| table.range::<&miner_blocks::MinerBlockKey>(&from..&to)).transpose()?;
        let row = row.and_then(|mut rows| rows.next_back()).transpose()?;
        Ok(row.map(|(_, totals)| MinerTotals::decode(totals.value())).unwrap_or_default())
    }

    /// The totals of the blocks at these heights that are ascribed to a pool, or to none.
    ///
    /// Errors: as [`Snapshot::miner_totals`].
    pub fn miner_totals_within(
        &self,
        miner: Option<PoolId>,
        heights: &Range<Height>,
    ) -> Result<MinerTotals, IndexError> {
        let (end, start) = (self.miner_totals(miner, heights.end)?, self.miner_totals(miner, heights.start)?);
        end.checked_sub(start).ok_or_else(|| IndexError::corrupt(NAME, "the totals of a miner fall with the height"))
    }

    /// The heights among these of the blocks that are ascribed to a pool, or to none, lowest first, read lazily.
    ///
    /// Errors: as [`Snapshot::miner_totals`].
    pub fn miner_blocks(
        &self,
        miner: Option<PoolId>,
        heights: &Range<Height>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Height, IndexError>> + use<>, IndexError> {
        let (from, to) =
            (miner_blocks::key(miner, heights.start), miner_blocks::key(miner, heights.end.max(heights.start)));
        let table = self.checked_miner_blocks()?;
        let rows = table.map(|table| table.range::<&miner_blocks::MinerBlockKey>(&from..&to)).transpose()?;
        Ok(rows.into_iter().flatten().map(|row| Ok(miner_blocks::height(row?.0.value()))))
    }

    /// Whether the block at a height is ascribed to a pool, or to none.
    ///
    /// Errors: as [`Snapshot::miner_totals`].
    pub fn is_block_of(&self, miner: Option<PoolId>, height: Height) -> Result<bool, IndexError> {
        let table = self.checked_miner_blocks()?;
        let row = table.map(|table| table.get(&miner_blocks::key(miner, height))).transpose()?;
        Ok(row.flatten().is_some())
    }

    /// The table, if it has a row of each block; `None` if there are no blocks.
    fn checked_miner_blocks(&self) -> Result<Option<&MinerBlocksTable>, IndexError> {
        let blocks = self.tip().map_or(Height::GENESIS, |tip| tip.height.next());
        let built = self.miners_state.built(self.pools());
        if built < blocks {
            let (built, blocks) = (built.to_u32(), blocks.to_u32());
            return Err(IndexError::MinersNotReady { built, blocks });
        }
        Ok(self.miner_blocks.as_ref())
    }
}

impl MinersState {
    /// The height below which there is a row of each block by these pools.
    pub(in crate::index) fn built(&self, pools: &Pools) -> Height {
        match self {
            Self::Derived { fingerprint, next } if *fingerprint == pools.fingerprint() => *next,
            _ => Height::GENESIS,
        }
    }
}

impl Index {
    /// Adds rows that `miner_blocks` lacks, or deletes rows of another table of pools, so many in one commit that is not
    /// durable. Returns whether any may be left.
    ///
    /// Errors: as [`Snapshot::transaction`] if the bytes of a frozen coinbase cannot be read; storage errors.
    pub(in crate::index) fn tend_miners(&mut self, rows: u32) -> Result<bool, IndexError> {
        let (state, pools) = (self.miners_state()?, Arc::clone(&self.pools));
        let fingerprint = pools.fingerprint();
        let added = match state {
            MinersState::Derived { fingerprint: of, next } if of == fingerprint => {
                let snapshot = self.snapshot()?;
                let end = snapshot.tip().map_or(Height::GENESIS, |tip| tip.height.next());
                if next >= end {
                    return Ok(false);
                }
                let end = end.min(Height::from(next.to_u32().saturating_add(rows.max(1))));
                snapshot.ascribed(next..end)?
            }
            MinersState::Absent if self.snapshot()?.tip().is_none() => return Ok(false),
            _ => Vec::new(),
        };
        let mut update = self.update()?;
        update.with_tables(|tables, _| match state {
            MinersState::Derived { fingerprint: of, next } if of == fingerprint => {
                append(tables, fingerprint, next, added)
            }
            MinersState::Absent => write_state(tables, MinersState::Derived { fingerprint, next: Height::GENESIS }),
            _ => {
                let is_empty = drop_rows(tables, rows)?;
                let next = Height::GENESIS;
                write_state(
                    tables,
                    if is_empty { MinersState::Derived { fingerprint, next } } else { MinersState::Dropping },
                )
            }
        })?;
        update.commit_non_durable()?;
        Ok(true)
    }

    /// Whether blocks lack a row of `miner_blocks`, or have one of other pools.
    ///
    /// Errors: storage errors.
    pub fn lacks_miners(&self) -> Result<bool, IndexError> {
        let meta = self.database.begin_read()?.open_table(meta::TABLE)?;
        let blocks = read_tip(&meta)?.map_or(Height::GENESIS, |tip| tip.height.next());
        Ok(read_state(&meta)?.built(&self.pools) < blocks)
    }

    fn miners_state(&self) -> Result<MinersState, IndexError> {
        read_state(&self.database.begin_read()?.open_table(meta::TABLE)?)
    }
}

impl Snapshot {
    /// The pools that these blocks are ascribed to, in order, and the totals of each block.
    fn ascribed(&self, heights: Range<Height>) -> Result<Vec<(Option<PoolId>, MinerTotals)>, IndexError> {
        let mut found = Vec::new();
        for height in (heights.start.to_u32()..heights.end.to_u32()).map(Height::from) {
            let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
            let row = self.block(height)?.ok_or_else(missing)?;
            let first = row.first_txnum(height)?;
            let missing = || IndexError::corrupt("transactions", format!("row {first} is missing"));
            let coinbase = self.transaction(first)?.ok_or_else(missing)?;
            let miner = self.pools().identify(&parse(first, coinbase.parts.raw())?).map(|(pool, _)| pool);
            found.push((miner, MinerTotals::of(&row)));
        }
        Ok(found)
    }
}

fn write_state(tables: &mut Tables<'_>, state: MinersState) -> Result<(), IndexError> {
    match state.encode() {
        Some(row) => tables.meta.insert(meta::MINERS, row.as_slice())?,
        None => tables.meta.remove(meta::MINERS)?,
    };
    Ok(())
}

/// Writes the rows of blocks from a height on, of which there are none yet.
fn append(
    tables: &mut Tables<'_>,
    fingerprint: [u8; 32],
    next: Height,
    blocks: Vec<(Option<PoolId>, MinerTotals)>,
) -> Result<(), IndexError> {
    let mut height = next;
    for (miner, own) in blocks {
        let (from, to) = (miner_blocks::key(miner, Height::GENESIS), miner_blocks::key(miner, height));
        let before = tables.miner_blocks.range::<&miner_blocks::MinerBlockKey>(&from..&to)?.next_back().transpose()?;
        let before = before.map(|(_, totals)| MinerTotals::decode(totals.value())).unwrap_or_default();
        let totals = before.checked_add(own);
        let totals = totals.ok_or_else(|| IndexError::corrupt(NAME, "the totals of a miner exceed all coins"))?;
        tables.miner_blocks.insert(&to, &totals.encode())?;
        height = height.next();
    }
    write_state(tables, MinersState::Derived { fingerprint, next: height })
}

/// Deletes so many rows. Returns whether none is left.
fn drop_rows(tables: &mut Tables<'_>, rows: u32) -> Result<bool, IndexError> {
    for _ in 0..rows {
        if tables.miner_blocks.pop_first()?.is_none() {
            return Ok(true);
        }
    }
    Ok(tables.miner_blocks.is_empty()?)
}

/// The pool that a block is ascribed to.
pub(in crate::index) fn miner_of(
    block: &ParsedBlock,
    first: TxNum,
    pools: &Pools,
) -> Result<Option<PoolId>, IndexError> {
    let Some(coinbase) = block.transactions.first() else { return Ok(None) };
    let coinbase = parse(first, block.raw(coinbase))?;
    Ok(pools.identify(&coinbase).map(|(pool, _)| pool))
}

/// Writes the rows of blocks that are connected, unless rows of blocks below them are missing.
pub(in crate::index) fn connect_miners(
    run: &BlockRun<'_>,
    rows: &[BlockRow],
    pools: &Pools,
    tables: &mut Tables<'_>,
) -> Result<(), IndexError> {
    let (starts, fingerprint) = (run.own_starts(), pools.fingerprint());
    let Some(first) = starts.first() else { return Ok(()) };
    let is_next = match read_state(&tables.meta)? {
        MinersState::Derived { fingerprint: of, next } => of == fingerprint && next == first.height,
        MinersState::Absent => first.height == Height::GENESIS,
        MinersState::Dropping => false,
    };
    if !is_next {
        return Ok(());
    }
    let blocks = run.blocks.iter().zip(starts).zip(rows);
    let blocks = blocks.map(|((block, start), row)| Ok((miner_of(block, start.first, pools)?, MinerTotals::of(row))));
    let blocks = blocks.collect::<Result<Vec<_>, IndexError>>()?;
    append(tables, fingerprint, first.height, blocks)
}

/// Deletes the row of a block that is disconnected, if there is one.
pub(in crate::index) fn disconnect_miner(
    run: &BlockRun<'_>,
    height: Height,
    pools: &Pools,
    tables: &mut Tables<'_>,
) -> Result<(), IndexError> {
    let MinersState::Derived { fingerprint, next } = read_state(&tables.meta)? else { return Ok(()) };
    if next <= height {
        return Ok(());
    }
    if fingerprint != pools.fingerprint() {
        // which row is the block's is not known any more
        return write_state(tables, MinersState::Dropping);
    }
    for block in run.blocks {
        let key = miner_blocks::key(miner_of(block, run.first, pools)?, height);
        if tables.miner_blocks.remove(&key)?.is_none() {
            return Err(IndexError::corrupt(NAME, format!("the row at height {height} is missing")));
        }
    }
    write_state(tables, MinersState::Derived { fingerprint, next: height })
}
