//! The single writer: blocks are disconnected and connected in one write transaction, which is committed as a whole.

use std::sync::Arc;
use std::time::Instant;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network};
use redb::{Durability, ReadableTable, ReadableTableMetadata, WriteTransaction};

use super::super::block::{ParsedBlock, Parser, assemble};
use super::super::error::IndexError;
use super::super::frozen::Generations;
use super::super::keys::TxNum;
use super::super::metrics::UpdateCounts;
use super::super::open::{Index, filter_bytes};
use super::super::optional::{RowContext, connect_optional, disconnect_optional};
use super::super::raw::RawChanges;
use super::apply::{forget_stale, insert_stale, lowest_stale};
use super::block_filters::{appends_filters, connect_filters, disconnect_filter};
use super::effects::Effects;
use super::live_tables::Tables;
use super::miners::{connect_miners, disconnect_miner};
use super::observed_limits::ObservedLimits;
use super::resolve::{BlockRun, Known};
use super::sweep::sweep_all;
use super::tables::block_starts::BlockStart;
use super::tables::blocks::{BlockRow, ChainTotals, next_txnum, too_many};
use super::tables::{block_starts, blocks, meta};
use super::tip::Tip;
use super::tip_record::{read_tip, write_generations, write_tip};
use crate::chain::network::genesis_hash;
use crate::chain::{Height, median_time_past};

/// Changes that become visible together, or, if the update is dropped without [`Update::commit`], not at all. While it is there,
/// no earlier commit becomes durable.
pub struct Update<'i> {
    pub(in crate::index) index: &'i mut Index,
    /// Those of the index after the changes made so far.
    pub(in crate::index) generations: Arc<Generations>,
    /// `None` once it is committed.
    transaction: Option<WriteTransaction>,
    tip: Option<Tip>,
    /// Rows written into tables whose keys are hashes: each may change a page of its own.
    scattered_rows: u64,
    /// Bytes of the connected blocks and of their rows, which are appended.
    block_bytes: u64,
    /// Whether a step failed: the tables may then contain half of a block.
    broken: bool,
    pub(in crate::index) counts: UpdateCounts,
    pub(in crate::index) raw_changes: RawChanges,
}

impl Index {
    /// Begins a set of changes. There is one writer, so it borrows the index until it is committed or dropped.
    ///
    /// Errors: storage errors; a previous flush failed.
    pub fn update(&mut self) -> Result<Update<'_>, IndexError> {
        Update::begin(self)
    }
}

impl<'i> Update<'i> {
    fn begin(index: &'i mut Index) -> Result<Self, IndexError> {
        index.flushing.finish()?;
        let mut transaction = index.database.begin_write()?;
        // the repair after a crash then reads the records of the last commit instead of the whole file
        transaction.set_quick_repair(true);
        let tip = read_tip(&transaction.open_table(meta::TABLE)?)?;
        if !index.starts_are_committed {
            let table = transaction.open_table(block_starts::TABLE)?;
            let first = index.generations.end().to_key();
            let live = table.range::<&[u8; 4]>(&first..)?;
            let live = live.map(|row| row.map(|(key, value)| BlockStart::decode(key.value(), value.value())));
            let frozen = index.generations.starts(TxNum(0)..TxNum(u32::MAX))?;
            index.starts = frozen.chain(live.map(|start| start.map_err(IndexError::from))).collect::<Result<_, _>>()?;
        }
        index.starts_are_committed = false;
        Ok(Self {
            generations: Arc::clone(&index.generations),
            index,
            transaction: Some(transaction),
            tip,
            scattered_rows: 0,
            block_bytes: 0,
            broken: false,
            counts: UpdateCounts::default(),
            raw_changes: RawChanges::default(),
        })
    }

    /// The tip after the changes made so far.
    #[must_use]
    pub fn tip(&self) -> Option<Tip> {
        self.tip
    }

    /// A parser of blocks for this index.
    #[must_use]
    pub fn parser(&self) -> Parser {
        self.index.parser()
    }

    /// Connects consecutive blocks on top of the tip. Larger runs cost less per block.
    ///
    /// Errors: [`IndexError::NotOnTip`], [`IndexError::Unresolved`], [`IndexError::InvalidBlock`], storage errors.
    /// After an error the update can only be dropped.
    pub fn connect(&mut self, run: &[ParsedBlock]) -> Result<(), IndexError> {
        self.connect_with(run, Known::NOTHING)
    }

    /// [`Self::connect`] where some of what the blocks need is known. It is trusted, and not read.
    ///
    /// Errors: as [`Self::connect`].
    pub fn connect_with(&mut self, run: &[ParsedBlock], known: Known<'_>) -> Result<(), IndexError> {
        self.atomically(|update| update.connect_run(run, known))
    }

    fn connect_run(&mut self, run: &[ParsedBlock], known: Known<'_>) -> Result<(), IndexError> {
        let prefetched = known.prefetched.filter(|rows| rows.is_true_on(self.tip, &self.generations));
        let known = Known { prefetched, ..known };
        let transaction = self.transaction.as_ref().ok_or(IndexError::Broken)?;
        let mut tables = Tables::open(transaction, Arc::clone(&self.generations))?;
        let (before, mut times) = self.recent(&tables)?;
        let first = next_txnum(&before)?;
        let (mut next, mut tip) = (first, self.tip);
        self.counts.connected += u64::try_from(run.len()).unwrap_or(u64::MAX);
        for block in run {
            check_previous(block.hash, block.previous(), tip, self.index.network)?;
            let height = tip.map_or(Height::GENESIS, |tip| tip.height.next());
            times.push(block.header.time);
            let median_time = median_time_past(&times).unwrap_or(block.header.time);
            self.index.starts.push(BlockStart { first: next, height, median_time });
            next = u32::try_from(block.transactions.len())
                .ok()
                .and_then(|count| next.0.checked_add(count))
                .map(TxNum)
                .ok_or_else(too_many)?;
            tip = Some(Tip { height, hash: block.hash });
            self.block_bytes = self.block_bytes.saturating_add(bytes_of(block));
        }
        let run = BlockRun { blocks: run, first, starts: &self.index.starts, salt: self.index.salt };
        let resolved = run.resolve(&tables, appends_filters(&run, &tables)?, known)?;
        let effects = Effects::of(&run, &resolved, &before, self.index.network, &tables)?;
        effects.apply(&run, &resolved.prevouts, prefetched, &mut tables)?;
        connect_optional(&run, self.row_context(), &mut tables)?;
        connect_miners(&run, &effects.blocks, &self.index.pools, &mut tables)?;
        connect_filters(&run, resolved.scripts.as_deref(), &mut tables)?;
        self.scattered_rows += effects.scattered_rows();
        self.tip = tip;
        write_tip(&mut tables, tip)
    }

    /// Disconnects the tip and stores its block as stale. Returns the disconnected tip, `None` in an empty index.
    ///
    /// Errors: [`IndexError::Corrupt`] if the rows differ from those that the block added; storage errors. After an
    /// error the update can only be dropped.
    pub fn disconnect(&mut self) -> Result<Option<Tip>, IndexError> {
        self.atomically(Self::disconnect_tip)
    }

    /// The row of a block of the chain after the changes made so far.
    ///
    /// Errors: [`IndexError::Corrupt`] if there is none at this height; storage errors.
    pub fn block(&self, height: Height) -> Result<BlockRow, IndexError> {
        read_block(&self.tables()?, height)
    }

    /// Stores a block beside the chain as stale, with its row on its own branch, if it is among the highest that are kept.
    ///
    /// Errors: storage errors. After an error the update can only be dropped.
    pub fn store_stale(&mut self, height: Height, block: &ParsedBlock, row: &BlockRow) -> Result<(), IndexError> {
        self.atomically(|update| {
            let mut tables = update.tables()?;
            insert_stale(&mut tables, height, block, row)?;
            update.trim_stale(&mut tables)
        })
    }

    /// Runs a step; if it fails, nothing of the update can be committed.
    fn atomically<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T, IndexError>) -> Result<T, IndexError> {
        if std::mem::replace(&mut self.broken, true) {
            return Err(IndexError::Broken);
        }
        let done = step(self)?;
        self.broken = false;
        Ok(done)
    }

    /// Runs a step that only writes rows.
    pub(in crate::index) fn with_tables<T>(
        &mut self,
        step: impl FnOnce(&mut Tables<'_>, &ObservedLimits) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.atomically(|update| step(&mut update.tables()?, &update.index.observed))
    }

    pub(in crate::index) fn tables(&self) -> Result<Tables<'_>, IndexError> {
        Tables::open(self.transaction.as_ref().ok_or(IndexError::Broken)?, Arc::clone(&self.generations))
    }

    /// Stands on the highest block of these generations from now on.
    ///
    /// Errors: storage errors.
    pub(in crate::index) fn move_tip(&mut self, generations: Arc<Generations>) -> Result<(), IndexError> {
        self.index.starts = generations.starts(TxNum(0)..TxNum(u32::MAX))?.collect::<Result<_, _>>()?;
        self.tip = generations.last();
        self.generations = generations;
        Ok(())
    }

    /// The number of the next transaction after the changes made so far.
    ///
    /// Errors: storage errors.
    pub(in crate::index) fn next_txnum(&self) -> Result<TxNum, IndexError> {
        match self.tip {
            Some(tip) => next_txnum(&self.block(tip.height)?.running),
            None => Ok(TxNum(0)),
        }
    }

    /// The position of the first transaction of a block of the chain after the changes made so far.
    pub(in crate::index) fn first_txnum(&self, height: Height) -> Result<TxNum, IndexError> {
        let start = usize::try_from(height.to_u32()).ok().and_then(|height| self.index.starts.get(height));
        let start = start.filter(|start| start.height == height);
        let missing = || IndexError::corrupt("block_starts", format!("the row of height {height} is missing"));
        start.map(|start| start.first).ok_or_else(missing)
    }

    fn row_context(&self) -> RowContext {
        RowContext { salt: self.index.salt, network: self.index.network }
    }

    fn disconnect_tip(&mut self) -> Result<Option<Tip>, IndexError> {
        let Some(tip) = self.tip else { return Ok(None) };
        let transaction = self.transaction.as_ref().ok_or(IndexError::Broken)?;
        let mut tables = Tables::open(transaction, Arc::clone(&self.generations))?;
        if self.generations.last() == Some(tip) {
            sweep_all(&mut tables)?;
        }
        let row = read_block(&tables, tip.height)?;
        let before = match tip.height.previous() {
            Some(previous) => read_block(&tables, previous)?.running,
            None => ChainTotals::zero(),
        };
        let first = next_txnum(&before)?;
        let is_frozen = first < self.generations.end();
        let parser = self.index.parser();
        let block = [if is_frozen {
            self.generations.raw().block(tip, row.size, parser)?
        } else {
            parser.parse(row.hash, assemble(&row, first, &tables.transactions)?)?
        }];
        let run = BlockRun { blocks: &block, first, starts: &self.index.starts, salt: self.index.salt };
        let resolved = run.resolve(&tables, false, Known::NOTHING)?;
        let effects = Effects::of(&run, &resolved, &before, self.index.network, &tables)?;
        let previous = tip.height.previous().map(|height| Tip { height, hash: block[0].previous() });
        disconnect_optional(&run, self.row_context(), &mut tables)?;
        disconnect_miner(&run, tip.height, &self.index.pools, &mut tables)?;
        disconnect_filter(tip.height, &mut tables)?;
        if is_frozen {
            let lowered = Arc::new(self.generations.without_last(previous, first));
            effects.revert_frozen(&run, &row, &lowered, &mut tables)?;
            write_generations(&mut tables, &lowered)?;
            self.raw_changes.forget(&mut tables, tip.height)?;
            self.generations = lowered;
        } else {
            effects.revert(&run, &row, &mut tables)?;
        }
        self.scattered_rows += effects.scattered_rows();
        self.index.starts.pop();
        self.counts.disconnected += 1;
        self.tip = previous;
        write_tip(&mut tables, previous)?;
        self.trim_stale(&mut tables)?;
        Ok(Some(tip))
    }

    /// Whether the update should be committed before further changes: the pages it has changed fill half of the cache,
    /// beyond which redb writes them twice.
    ///
    /// Errors: storage errors.
    pub fn is_full(&self) -> Result<bool, IndexError> {
        Ok(self.scattered_bytes(0)? > self.index.cache_bytes / 2)
    }

    /// An estimate of the additional disk space, in bytes, of a commit with these further blocks.
    pub(in crate::index) fn changed_bytes(&self, more: &[ParsedBlock]) -> Result<u64, IndexError> {
        let rows = more.iter().map(ParsedBlock::scattered_rows).sum();
        let blocks = more.iter().map(bytes_of).fold(self.block_bytes, u64::saturating_add);
        Ok(self.scattered_bytes(rows)?.saturating_add(blocks))
    }

    /// An estimate of the bytes of pages that rows of hashed tables have changed, with `more` further rows.
    fn scattered_bytes(&self, more: u64) -> Result<u64, IndexError> {
        let tables = self.tables()?;
        // rows of hashed tables take about 80 bytes each with the slack of random inserts, which bounds the changed
        // pages
        let rows = tables.history.len()? + tables.unspent.len()? + tables.txids.len()? + tables.spends.len()?;
        let (rows, changed) = (rows.saturating_add(more), self.scattered_rows.saturating_add(more));
        Ok(changed.saturating_mul(PAGE).min(rows.saturating_mul(80)))
    }

    /// Makes the changes durable and visible to snapshots taken from now on.
    ///
    /// Errors: [`IndexError::Broken`] after a failed step; storage errors. Nothing is changed then.
    pub fn commit(self) -> Result<(), IndexError> {
        self.commit_with(Durability::Immediate)
    }

    /// Makes the changes visible to snapshots taken from now on, without waiting for the disk, which may take a hundred
    /// times as long. They become durable with the next [`Update::commit`], [`Index::flush_soon`] or [`Index::flush`];
    /// a crash before that loses them as a whole, with all commits since the last durable one. For blocks use
    /// [`Update::commit_announced`], so that the loss is detected after a crash.
    ///
    /// Errors: as [`Update::commit`].
    pub fn commit_non_durable(self) -> Result<(), IndexError> {
        self.commit_with(Durability::None)
    }

    fn commit_with(mut self, durability: Durability) -> Result<(), IndexError> {
        if self.broken {
            return Err(IndexError::Broken);
        }
        let mut transaction = self.transaction.take().ok_or(IndexError::Broken)?;
        transaction.set_durability(durability)?;
        let began = Instant::now();
        transaction.commit()?;
        let index = &mut *self.index;
        std::mem::take(&mut self.raw_changes).apply(self.generations.raw().own());
        if !Arc::ptr_eq(&index.generations, &self.generations) {
            self.generations.keep_filters(filter_bytes(index.all_cache_bytes));
        }
        index.generations = Arc::clone(&self.generations);
        index.metrics.count(began.elapsed(), self.counts);
        index.starts_are_committed = true;
        match durability {
            Durability::None => index.flushing.mark_non_durable(),
            _ => index.flushing.mark_durable(),
        }
        Ok(())
    }

    /// Discards the changes. Returns whether there were any to discard: the update was not committed.
    pub(super) fn abort(&mut self) -> bool {
        self.transaction.take().is_some()
    }

    /// The totals of the chain, and the times of its last 11 blocks, oldest first.
    fn recent(&self, tables: &Tables<'_>) -> Result<(ChainTotals, Vec<u32>), IndexError> {
        let Some(tip) = self.tip else { return Ok((ChainTotals::zero(), Vec::new())) };
        let newest = read_block(tables, tip.height)?;
        let mut times = vec![newest.header.time];
        let mut height = tip.height;
        while let Some(previous) = height.previous().filter(|_| times.len() < 11) {
            times.push(read_block(tables, previous)?.header.time);
            height = previous;
        }
        times.reverse();
        Ok((newest.running, times))
    }

    /// Deletes the lowest stale blocks beyond the limit.
    fn trim_stale(&self, tables: &mut Tables<'_>) -> Result<(), IndexError> {
        for _ in self.index.stale_blocks_kept..tables.stale_blocks.len()? {
            let Some((height, hash, stale)) = lowest_stale(tables)? else { return Ok(()) };
            let block = self.index.parser().parse(hash, stale.raw)?;
            forget_stale(tables, height, &block)?;
            tables.block_hashes.remove(hash.as_byte_array())?;
        }
        Ok(())
    }
}

/// Bytes of a redb page.
const PAGE: u64 = 4096;
/// About the bytes of a block's own rows.
const BLOCK_ROW: u64 = 2_048;

/// About the bytes of a block without its rows in hashed tables.
fn bytes_of(block: &ParsedBlock) -> u64 {
    u64::try_from(block.bytes.len()).unwrap_or(u64::MAX).saturating_add(BLOCK_ROW)
}

/// Checks that the previous block is the tip, or that the first block is the network's genesis block.
pub(in crate::index) fn check_previous(
    hash: BlockHash,
    previous: BlockHash,
    tip: Option<Tip>,
    network: Network,
) -> Result<(), IndexError> {
    let genesis = genesis_hash(network);
    match tip {
        Some(tip) if previous == tip.hash => Ok(()),
        None if hash == genesis => Ok(()),
        None => Err(IndexError::InvalidBlock { hash, what: format!("the first block must be {genesis}") }),
        Some(tip) => {
            let tip = format!("{} at height {}", tip.hash, tip.height);
            Err(IndexError::NotOnTip { hash, previous, tip })
        }
    }
}

fn read_block(tables: &Tables<'_>, height: Height) -> Result<BlockRow, IndexError> {
    if let Some(row) = tables.generations.block(height)? {
        return Ok(row);
    }
    let row = tables.blocks.get(&blocks::key(height))?;
    let row = row.ok_or_else(|| IndexError::corrupt("blocks", format!("the row at height {height} is missing")))?;
    BlockRow::decode(row.value())
}
