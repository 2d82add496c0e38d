//! The one writer: blocks are disconnected and connected in one write transaction, which is committed as a whole.

use std::time::Instant;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network};
use redb::{Durability, ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::apply::forget_stale;
use super::block::{Block, Parser, assemble};
use super::effects::Effects;
use super::error::IndexError;
use super::figures::Changed;
use super::keys::TxNum;
use super::observed::ObservedLimits;
use super::open::Index;
use super::resolve::Run;
use super::tables::block_starts::BlockStart;
use super::tables::blocks::{BlockRow, Running};
use super::tables::stale_blocks::StaleBlock;
use super::tables::{
    block_hashes, block_starts, blocks, departed, first_seen, history, mempool, mempool_samples, meta, p2pk, payouts,
    reorgs, spends, stale_blocks, stale_transactions, transactions, txids, unspent,
};
use crate::chain::network::genesis_hash;
use crate::chain::{Height, median_time_past};

/// The newest block of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
}

/// All tables, open for writing.
pub(super) struct Tables<'txn> {
    pub(super) meta: Table<'txn, &'static str, &'static [u8]>,
    pub(super) blocks: Table<'txn, &'static [u8; 4], &'static [u8]>,
    pub(super) block_starts: Table<'txn, &'static [u8; 4], &'static [u8; 8]>,
    pub(super) block_hashes: Table<'txn, &'static [u8; 32], &'static [u8; 5]>,
    pub(super) transactions: Table<'txn, &'static [u8; 4], &'static [u8]>,
    pub(super) txids: Table<'txn, &'static [u8; 10], ()>,
    pub(super) spends: Table<'txn, &'static [u8; 7], &'static [u8; 7]>,
    pub(super) history: Table<'txn, &'static [u8; 14], &'static [u8; 44]>,
    pub(super) unspent: Table<'txn, &'static [u8; 17], &'static [u8; 9]>,
    pub(super) payouts: Table<'txn, &'static [u8; 14], ()>,
    pub(super) p2pk: Table<'txn, &'static [u8; 30], &'static [u8; 4]>,
    pub(super) stale_blocks: Table<'txn, &'static [u8; 36], &'static [u8]>,
    pub(super) stale_transactions: Table<'txn, &'static [u8; 42], ()>,
    pub(super) mempool: Table<'txn, &'static [u8; 32], &'static [u8]>,
    pub(super) departed: Table<'txn, &'static [u8; 8], &'static [u8]>,
    pub(super) first_seen: Table<'txn, &'static [u8; 4], &'static [u8; 4]>,
    pub(super) reorgs: Table<'txn, &'static [u8; 8], &'static [u8]>,
    pub(super) reorg_blocks: Table<'txn, &'static [u8; 33], &'static [u8; 8]>,
    pub(super) mempool_samples: Table<'txn, &'static [u8; 4], &'static [u8]>,
}

impl<'txn> Tables<'txn> {
    /// Opens all of them, and makes those that do not exist yet.
    pub(super) fn open(transaction: &'txn WriteTransaction) -> Result<Self, IndexError> {
        Ok(Self {
            meta: transaction.open_table(meta::TABLE)?,
            blocks: transaction.open_table(blocks::TABLE)?,
            block_starts: transaction.open_table(block_starts::TABLE)?,
            block_hashes: transaction.open_table(block_hashes::TABLE)?,
            transactions: transaction.open_table(transactions::TABLE)?,
            txids: transaction.open_table(txids::TABLE)?,
            spends: transaction.open_table(spends::TABLE)?,
            history: transaction.open_table(history::TABLE)?,
            unspent: transaction.open_table(unspent::TABLE)?,
            payouts: transaction.open_table(payouts::TABLE)?,
            p2pk: transaction.open_table(p2pk::TABLE)?,
            stale_blocks: transaction.open_table(stale_blocks::TABLE)?,
            stale_transactions: transaction.open_table(stale_transactions::TABLE)?,
            mempool: transaction.open_table(mempool::TABLE)?,
            departed: transaction.open_table(departed::TABLE)?,
            first_seen: transaction.open_table(first_seen::TABLE)?,
            reorgs: transaction.open_table(reorgs::TABLE)?,
            reorg_blocks: transaction.open_table(reorgs::BLOCKS)?,
            mempool_samples: transaction.open_table(mempool_samples::TABLE)?,
        })
    }
}

/// Changes that become visible together, or, when dropped without [`Update::commit`], not at all.
pub struct Update<'i> {
    pub(super) index: &'i mut Index,
    transaction: WriteTransaction,
    tip: Option<Tip>,
    /// Rows written into tables whose keys are hashes: each may touch a page of its own.
    scattered_rows: u64,
    /// Bytes of the blocks that were connected and of their rows, which are written one behind the other.
    block_bytes: u64,
    /// Whether a step began and did not end well: the tables may then hold half of a block.
    broken: bool,
    pub(super) changed: Changed,
}

impl<'i> Update<'i> {
    pub(super) fn begin(index: &'i mut Index) -> Result<Self, IndexError> {
        index.settling.finish()?;
        let mut transaction = index.database.begin_write()?;
        // a crash is then repaired from the last commit's records instead of by walking the whole file
        transaction.set_quick_repair(true);
        let tip = read_tip(&transaction.open_table(meta::TABLE)?)?;
        if !index.starts_are_committed {
            let table = transaction.open_table(block_starts::TABLE)?;
            let rows = table.iter()?.map(|row| row.map(|(key, value)| BlockStart::decode(key.value(), value.value())));
            index.starts = rows.collect::<Result<_, _>>()?;
        }
        index.starts_are_committed = false;
        Ok(Self {
            index,
            transaction,
            tip,
            scattered_rows: 0,
            block_bytes: 0,
            broken: false,
            changed: Changed::default(),
        })
    }

    /// The tip with the changes made so far.
    #[must_use]
    pub fn tip(&self) -> Option<Tip> {
        self.tip
    }

    /// Makes blocks ready to be connected here.
    #[must_use]
    pub fn parser(&self) -> Parser {
        self.index.parser()
    }

    /// Adds blocks that follow each other on top of the tip. Larger runs cost less a block.
    ///
    /// Errors: [`IndexError::NotOnTip`], [`IndexError::Unresolved`], [`IndexError::InvalidBlock`], storage errors.
    /// After an error the update can only be dropped.
    pub fn connect(&mut self, run: &[Block]) -> Result<(), IndexError> {
        self.whole(|update| update.connect_run(run))
    }

    fn connect_run(&mut self, run: &[Block]) -> Result<(), IndexError> {
        let mut tables = Tables::open(&self.transaction)?;
        let (before, mut times) = self.recent(&tables)?;
        let first = next_txnum(&before)?;
        let (mut next, mut tip) = (first, self.tip);
        self.changed.connected += u64::try_from(run.len()).unwrap_or(u64::MAX);
        for block in run {
            check_stands_on(block, tip, self.index.network)?;
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
        let run = Run { blocks: run, first, starts: &self.index.starts, salt: self.index.salt };
        let resolved = run.resolve(&tables)?;
        let effects = Effects::of(&run, &resolved, &before, self.index.network, &tables)?;
        effects.apply(&run, &resolved.prevouts, &mut tables)?;
        self.scattered_rows += effects.scattered_rows();
        self.tip = tip;
        write_tip(&mut tables, tip)
    }

    /// Takes the tip out again and keeps its block as stale. Returns the block taken out, `None` in an empty index.
    ///
    /// Errors: [`IndexError::Corrupt`] if the rows are not what the block once added; storage errors. After an error the
    /// update can only be dropped.
    pub fn disconnect(&mut self) -> Result<Option<Tip>, IndexError> {
        self.whole(Self::disconnect_tip)
    }

    /// Does a step of which nothing is ever committed unless it succeeds.
    fn whole<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T, IndexError>) -> Result<T, IndexError> {
        if std::mem::replace(&mut self.broken, true) {
            return Err(IndexError::Broken);
        }
        let done = step(self)?;
        self.broken = false;
        Ok(done)
    }

    /// Does a step that only writes rows.
    pub(super) fn with_tables<T>(
        &mut self,
        step: impl FnOnce(&mut Tables<'_>, &ObservedLimits) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.whole(|update| step(&mut Tables::open(&update.transaction)?, &update.index.observed))
    }

    /// The position of the first transaction of a block of the chain as it is with the changes made so far.
    pub(super) fn first_txnum(&self, height: Height) -> Result<TxNum, IndexError> {
        let start = usize::try_from(height.to_u32()).ok().and_then(|height| self.index.starts.get(height));
        let start = start.filter(|start| start.height == height);
        let missing = || IndexError::corrupt("block_starts", format!("the row of height {height} is missing"));
        start.map(|start| start.first).ok_or_else(missing)
    }

    fn disconnect_tip(&mut self) -> Result<Option<Tip>, IndexError> {
        let Some(tip) = self.tip else { return Ok(None) };
        let mut tables = Tables::open(&self.transaction)?;
        let row = read_block(&tables, tip.height)?;
        let before = match tip.height.previous() {
            Some(previous) => read_block(&tables, previous)?.running,
            None => Running::zero(),
        };
        let bytes = assemble(&row, next_txnum(&before)?, &tables.transactions)?;
        let block = [self.index.parser().parse(row.hash, bytes)?];
        let run =
            Run { blocks: &block, first: next_txnum(&before)?, starts: &self.index.starts, salt: self.index.salt };
        let resolved = run.resolve(&tables)?;
        let effects = Effects::of(&run, &resolved, &before, self.index.network, &tables)?;
        effects.revert(&run, &mut tables)?;
        self.scattered_rows += effects.scattered_rows();
        self.index.starts.pop();
        self.changed.disconnected += 1;
        let previous = tip.height.previous().map(|height| Tip { height, hash: block[0].previous() });
        self.tip = previous;
        write_tip(&mut tables, previous)?;
        self.trim_stale(&mut tables)?;
        Ok(Some(tip))
    }

    /// Whether enough is written that going on in this transaction would cost more than committing it: the pages it
    /// has changed fill half of the cache, beyond which redb writes them twice.
    ///
    /// Errors: storage errors.
    pub fn is_full(&self) -> Result<bool, IndexError> {
        Ok(self.scattered_bytes(0)? > self.index.cache_bytes / 2)
    }

    /// About how many bytes of the disk a commit takes anew that has these blocks, too.
    pub(super) fn changed_bytes(&self, more: &[Block]) -> Result<u64, IndexError> {
        let rows = more.iter().map(Block::scattered_rows).sum();
        let blocks = more.iter().map(bytes_of).fold(self.block_bytes, u64::saturating_add);
        Ok(self.scattered_bytes(rows)?.saturating_add(blocks))
    }

    /// Of pages that rows of hashed tables have changed, with so many more of them.
    fn scattered_bytes(&self, more: u64) -> Result<u64, IndexError> {
        let tables = Tables::open(&self.transaction)?;
        // rows of hashed tables, about 80 bytes each with the slack of random inserts: no more pages than they have
        let rows = tables.history.len()? + tables.unspent.len()? + tables.txids.len()? + tables.spends.len()?;
        let (rows, changed) = (rows.saturating_add(more), self.scattered_rows.saturating_add(more));
        Ok(changed.saturating_mul(PAGE).min(rows.saturating_mul(80)))
    }

    /// Makes the changes durable and visible to snapshots taken from now on.
    ///
    /// Errors: [`IndexError::Broken`] after a step that failed; storage errors. Nothing is changed then.
    pub fn commit(self) -> Result<(), IndexError> {
        self.commit_with(Durability::Immediate)
    }

    /// Makes the changes visible to snapshots taken from now on, without waiting for the disk, which may take a hundred
    /// times as long. They become durable with the next commit or [`Index::settle`]; a crash before that takes them back
    /// as a whole, with all that were committed like this since the last that is durable. Of blocks, use
    /// [`Update::commit_told`], so that it can be told then that they are missing.
    ///
    /// Errors: as [`Update::commit`].
    pub fn commit_unsettled(self) -> Result<(), IndexError> {
        self.commit_with(Durability::None)
    }

    fn commit_with(mut self, durability: Durability) -> Result<(), IndexError> {
        if self.broken {
            return Err(IndexError::Broken);
        }
        self.transaction.set_durability(durability)?;
        let began = Instant::now();
        self.transaction.commit()?;
        let index = self.index;
        index.figures.count(began.elapsed(), self.changed);
        index.starts_are_committed = true;
        match durability {
            Durability::None => index.settling.unsettled(),
            _ => index.settling.settled(),
        }
        Ok(())
    }

    /// Totals of the chain so far, and the times of its last blocks, oldest first.
    fn recent(&self, tables: &Tables<'_>) -> Result<(Running, Vec<u32>), IndexError> {
        let Some(tip) = self.tip else { return Ok((Running::zero(), Vec::new())) };
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

    /// Keeps the highest stale blocks only.
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
/// Bytes, about, of what is told of a block itself.
const BLOCK_ROW: u64 = 1_024;

/// About what a block takes beside its rows in hashed tables.
fn bytes_of(block: &Block) -> u64 {
    u64::try_from(block.bytes.len()).unwrap_or(u64::MAX).saturating_add(BLOCK_ROW)
}

/// A block must name the tip as the block it stands on; the first must be the network's genesis block.
fn check_stands_on(block: &Block, tip: Option<Tip>, network: Network) -> Result<(), IndexError> {
    let genesis = genesis_hash(network);
    match tip {
        Some(tip) if block.previous() == tip.hash => Ok(()),
        None if block.hash == genesis => Ok(()),
        None => Err(IndexError::InvalidBlock { hash: block.hash, what: format!("the first block must be {genesis}") }),
        Some(tip) => {
            let tip = format!("{} at height {}", tip.hash, tip.height);
            Err(IndexError::NotOnTip { hash: block.hash, previous: block.previous(), tip })
        }
    }
}

pub(super) fn read_tip(meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Option<Tip>, IndexError> {
    let row = meta.get(meta::TIP)?;
    row.map(|row| meta::decode_tip(row.value()).map(|(height, hash)| Tip { height, hash })).transpose()
}

fn write_tip(tables: &mut Tables<'_>, tip: Option<Tip>) -> Result<(), IndexError> {
    match tip {
        Some(tip) => tables.meta.insert(meta::TIP, meta::encode_tip(tip.height, tip.hash).as_slice())?,
        None => tables.meta.remove(meta::TIP)?,
    };
    Ok(())
}

fn read_block(tables: &Tables<'_>, height: Height) -> Result<BlockRow, IndexError> {
    let row = tables.blocks.get(&blocks::key(height))?;
    let row = row.ok_or_else(|| IndexError::corrupt("blocks", format!("the row at height {height} is missing")))?;
    BlockRow::decode(row.value())
}

fn lowest_stale(tables: &Tables<'_>) -> Result<Option<(Height, BlockHash, StaleBlock)>, IndexError> {
    let Some((key, row)) = tables.stale_blocks.first()? else { return Ok(None) };
    let (height, hash) = stale_blocks::split_key(key.value());
    Ok(Some((height, hash, StaleBlock::decode(row.value())?)))
}

/// The number of the first transaction after a chain with these totals.
fn next_txnum(running: &Running) -> Result<TxNum, IndexError> {
    u32::try_from(running.transactions).map(TxNum).map_err(|_| too_many())
}

fn too_many() -> IndexError {
    IndexError::corrupt("transactions", "the chain has more transactions than this format can number (2^32)")
}
