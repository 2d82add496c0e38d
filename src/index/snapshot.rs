//! Reads of one committed state. A snapshot is cheap to open, does not block the writer, and does not see later
//! commits.
//!
//! A snapshot pins the pages it may read, so it is kept for one request or event and then dropped.

use std::path::Path;
use std::sync::Arc;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network, Txid};
use redb::{ReadOnlyTable, ReadTransaction, ReadableTableMetadata, StorageError, TableHandle, TableStats};

use super::error::IndexError;
use super::frozen::Generations;
use super::hot::tables::block_filters::FiltersState;
use super::hot::tables::block_hashes::BlockPlace;
use super::hot::tables::block_starts::Occurrence;
use super::hot::tables::blocks::BlockRow;
use super::hot::tables::miner_blocks::MinersState;
use super::hot::tables::observed::{block_observed, departed, first_seen, mempool, mempool_samples};
use super::hot::tables::spends::SpendingInput;
use super::hot::tables::stale_blocks::StaleBlock;
use super::hot::tables::transactions::TransactionRow;
use super::hot::tables::{
    block_files, block_filters, block_hashes, block_starts, blocks, history, if_exists, meta, miner_blocks,
    overwritten, p2pk, payouts, raw_blocks, reorgs, spends, stale_blocks, stale_transactions, transactions, txids,
    unspent,
};
use super::hot::tip::Tip;
use super::hot::tip_record::read_tip;
use super::keys::{Position, Salt, TxNum};
use super::optional::OptionalReads;
use super::table_rows::TableRows;
use crate::chain::pools::Pools;
use crate::chain::{Height, TransactionParts};

/// The rows of the miners of blocks.
pub(super) type MinerBlocksTable = ReadOnlyTable<&'static [u8; 6], &'static [u8; 24]>;

/// One committed state of the index.
pub struct Snapshot {
    file: Arc<Path>,
    pools: Arc<Pools>,
    network: Network,
    salt: Salt,
    tip: Option<Tip>,
    pub(super) meta: ReadOnlyTable<&'static str, &'static [u8]>,
    /// What the tables below do not have.
    pub(super) generations: Arc<Generations>,
    pub(super) blocks: ReadOnlyTable<&'static [u8; 4], &'static [u8]>,
    pub(super) block_starts: ReadOnlyTable<&'static [u8; 4], &'static [u8; 8]>,
    pub(super) block_hashes: ReadOnlyTable<&'static [u8; 32], &'static [u8; 5]>,
    pub(super) transactions: ReadOnlyTable<&'static [u8; 4], &'static [u8]>,
    pub(super) txids: ReadOnlyTable<&'static [u8; 10], ()>,
    pub(super) spends: Arc<ReadOnlyTable<&'static [u8; 7], &'static [u8; 7]>>,
    pub(super) overwritten: Arc<ReadOnlyTable<&'static [u8; 7], &'static [u8; 4]>>,
    pub(super) history: ReadOnlyTable<&'static [u8; 14], &'static [u8; 44]>,
    pub(super) unspent: ReadOnlyTable<&'static [u8; 17], &'static [u8; 9]>,
    pub(super) payouts: ReadOnlyTable<&'static [u8; 14], ()>,
    pub(super) p2pk: ReadOnlyTable<&'static [u8; 30], &'static [u8; 4]>,
    pub(super) stale_blocks: ReadOnlyTable<&'static [u8; 36], &'static [u8]>,
    pub(super) stale_raw_blocks: ReadOnlyTable<&'static [u8; 36], &'static [u8]>,
    pub(super) stale_transactions: ReadOnlyTable<&'static [u8; 42], ()>,
    pub(super) mempool: ReadOnlyTable<&'static [u8; 32], &'static [u8]>,
    pub(super) departed: ReadOnlyTable<&'static [u8; 8], &'static [u8]>,
    pub(super) block_observed: ReadOnlyTable<&'static [u8; 36], &'static [u8]>,
    pub(super) first_seen: ReadOnlyTable<&'static [u8; 4], &'static [u8; 4]>,
    pub(super) reorgs: ReadOnlyTable<&'static [u8; 8], &'static [u8]>,
    pub(super) reorg_blocks: ReadOnlyTable<&'static [u8; 33], &'static [u8; 8]>,
    pub(super) mempool_samples: ReadOnlyTable<&'static [u8; 4], &'static [u8]>,
    /// `None` if the file is of a version without it: its rows are hints.
    pub(super) block_files: Option<ReadOnlyTable<&'static [u8; 4], &'static [u8; 12]>>,
    /// `None` if the file is of a version without it, which has no raw files.
    pub(super) raw_blocks: Option<ReadOnlyTable<&'static [u8; 4], &'static [u8; 12]>>,
    pub(super) optional: OptionalReads,
    /// `None` if the file is of a version without it.
    pub(super) miner_blocks: Option<MinerBlocksTable>,
    /// What its rows are.
    pub(super) miners_state: MinersState,
    /// `None` if the file is of a version without it.
    pub(super) block_filters: Option<ReadOnlyTable<&'static [u8; 4], &'static [u8; 32]>>,
    /// What its rows are.
    pub(super) filters_state: FiltersState,
}

/// A transaction of the active chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTransaction {
    /// Its position in the chain.
    pub txnum: TxNum,
    /// Its txid.
    pub txid: Txid,
    /// Its block, and its index there.
    pub at: Occurrence,
    /// Its fee in sat, `None` for a coinbase.
    pub fee: Option<u64>,
    /// Its serialisation and its parts.
    pub parts: Arc<TransactionParts>,
}

/// What identifies a transaction that is read together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WantedTransaction {
    /// The newest with this txid.
    Newest(Txid),
    /// The one at this position.
    At(TxNum),
}

impl Snapshot {
    pub(super) fn open(
        transaction: &ReadTransaction,
        network: Network,
        salt: Salt,
        file: Arc<Path>,
        generations: Arc<Generations>,
        pools: Arc<Pools>,
    ) -> Result<Self, IndexError> {
        Ok(Self {
            file,
            pools,
            network,
            salt,
            tip: read_tip(&transaction.open_table(meta::TABLE)?)?,
            meta: transaction.open_table(meta::TABLE)?,
            generations,
            blocks: transaction.open_table(blocks::TABLE)?,
            block_starts: transaction.open_table(block_starts::TABLE)?,
            block_hashes: transaction.open_table(block_hashes::TABLE)?,
            transactions: transaction.open_table(transactions::TABLE)?,
            txids: transaction.open_table(txids::TABLE)?,
            spends: Arc::new(transaction.open_table(spends::TABLE)?),
            overwritten: Arc::new(transaction.open_table(overwritten::TABLE)?),
            history: transaction.open_table(history::TABLE)?,
            unspent: transaction.open_table(unspent::TABLE)?,
            payouts: transaction.open_table(payouts::TABLE)?,
            p2pk: transaction.open_table(p2pk::TABLE)?,
            stale_blocks: transaction.open_table(stale_blocks::TABLE)?,
            stale_raw_blocks: transaction.open_table(stale_blocks::RAW)?,
            stale_transactions: transaction.open_table(stale_transactions::TABLE)?,
            mempool: transaction.open_table(mempool::TABLE)?,
            departed: transaction.open_table(departed::TABLE)?,
            block_observed: transaction.open_table(block_observed::TABLE)?,
            first_seen: transaction.open_table(first_seen::TABLE)?,
            reorgs: transaction.open_table(reorgs::TABLE)?,
            reorg_blocks: transaction.open_table(reorgs::BLOCKS)?,
            mempool_samples: transaction.open_table(mempool_samples::TABLE)?,
            block_files: if_exists(transaction.open_table(block_files::TABLE))?,
            raw_blocks: if_exists(transaction.open_table(raw_blocks::TABLE))?,
            optional: OptionalReads::open(transaction)?,
            miner_blocks: if_exists(transaction.open_table(miner_blocks::TABLE))?,
            miners_state: miner_blocks::read_state(&transaction.open_table(meta::TABLE)?)?,
            block_filters: if_exists(transaction.open_table(block_filters::TABLE))?,
            filters_state: block_filters::read_state(&transaction.open_table(meta::TABLE)?)?,
        })
    }

    /// The network whose chain this is.
    #[must_use]
    pub fn network(&self) -> Network {
        self.network
    }

    /// The pools that blocks are ascribed to.
    #[must_use]
    pub fn pools(&self) -> &Arc<Pools> {
        &self.pools
    }

    /// The newest block, `None` in an empty index.
    #[must_use]
    pub fn tip(&self) -> Option<Tip> {
        self.tip
    }

    /// The newest block whose rows are packed, `None` if none are.
    #[must_use]
    pub fn frozen(&self) -> Option<Tip> {
        self.generations.last()
    }

    /// The number of rows of each table, from counters that redb maintains, and their bytes where that is enough to know them; of
    /// each packed table of all generations together under its name behind `frozen.`.
    pub fn tables(&self) -> Result<Vec<TableRows>, IndexError> {
        // destructured, so that the compiler reports a new table that is not listed here
        let Self {
            file: _,
            pools: _,
            network: _,
            salt: _,
            tip: _,
            meta: _,
            generations,
            blocks,
            block_starts,
            block_hashes,
            transactions,
            txids,
            spends,
            overwritten,
            history,
            unspent,
            payouts,
            p2pk,
            stale_blocks,
            stale_raw_blocks,
            stale_transactions,
            mempool,
            departed,
            block_observed,
            first_seen,
            reorgs,
            reorg_blocks,
            mempool_samples,
            block_files,
            raw_blocks,
            optional,
            miner_blocks,
            miners_state: _,
            block_filters,
            filters_state: _,
        } = self;
        let live = [
            TableRows::of(blocks::TABLE.name(), Some(blocks))?,
            TableRows::of(block_starts::TABLE.name(), Some(block_starts))?,
            TableRows::of(block_hashes::TABLE.name(), Some(block_hashes))?,
            TableRows::of(transactions::TABLE.name(), Some(transactions))?,
            TableRows::of(txids::TABLE.name(), Some(txids))?,
            TableRows::of(spends::TABLE.name(), Some(spends))?,
            TableRows::of(overwritten::TABLE.name(), Some(overwritten))?,
            TableRows::of(history::TABLE.name(), Some(history))?,
            TableRows::of(unspent::TABLE.name(), Some(unspent))?,
            TableRows::of(payouts::TABLE.name(), Some(payouts))?,
            TableRows::of(p2pk::TABLE.name(), Some(p2pk))?,
            TableRows::of(stale_blocks::TABLE.name(), Some(stale_blocks))?,
            TableRows::of(stale_blocks::RAW.name(), Some(stale_raw_blocks))?,
            TableRows::of(stale_transactions::TABLE.name(), Some(stale_transactions))?,
            TableRows::of(mempool::TABLE.name(), Some(mempool))?,
            TableRows::of(departed::TABLE.name(), Some(departed))?,
            TableRows::of(block_observed::TABLE.name(), Some(block_observed))?,
            TableRows::of(first_seen::TABLE.name(), Some(first_seen))?,
            TableRows::of(reorgs::TABLE.name(), Some(reorgs))?,
            TableRows::of(reorgs::BLOCKS.name(), Some(reorg_blocks))?,
            TableRows::of(mempool_samples::TABLE.name(), Some(mempool_samples))?,
            TableRows::of(block_files::TABLE.name(), block_files.as_ref())?,
            TableRows::of(raw_blocks::TABLE.name(), raw_blocks.as_ref())?,
        ];
        let miner_blocks = TableRows::of(miner_blocks::TABLE.name(), miner_blocks.as_ref())?;
        let block_filters = TableRows::of(block_filters::TABLE.name(), block_filters.as_ref())?;
        let live = live.into_iter().chain(optional.table_rows()?).chain([miner_blocks, block_filters]);
        Ok(live.chain(generations.tables()).collect())
    }

    /// The bytes of the keys and values of a table whose rows are of different sizes, `None` for any other table. Reads all
    /// pages of the table.
    pub fn table_bytes(&self, name: &str) -> Result<Option<u64>, IndexError> {
        type Bytes<'s> = &'s dyn Fn() -> Result<TableStats, StorageError>;
        let tables: [(&str, Bytes<'_>); 9] = [
            (blocks::TABLE.name(), &|| self.blocks.stats()),
            (transactions::TABLE.name(), &|| self.transactions.stats()),
            (stale_blocks::TABLE.name(), &|| self.stale_blocks.stats()),
            (stale_blocks::RAW.name(), &|| self.stale_raw_blocks.stats()),
            (mempool::TABLE.name(), &|| self.mempool.stats()),
            (departed::TABLE.name(), &|| self.departed.stats()),
            (block_observed::TABLE.name(), &|| self.block_observed.stats()),
            (reorgs::TABLE.name(), &|| self.reorgs.stats()),
            (mempool_samples::TABLE.name(), &|| self.mempool_samples.stats()),
        ];
        let Some((_, stats)) = tables.iter().find(|(known, _)| *known == name) else { return Ok(None) };
        Ok(Some(stats()?.stored_bytes()))
    }

    /// The size of the files of the index, its raw files included, in bytes as they are now, not when this state was committed;
    /// `None` if the file system does not report it.
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        let live = std::fs::metadata(&self.file).ok()?.len();
        let frozen = self.generations.file_bytes()?.saturating_add(self.generations.raw().own().bytes());
        Some(live.saturating_add(frozen))
    }

    /// The file of the index.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn salt(&self) -> Salt {
        self.salt
    }

    /// The block of the active chain at this height, `None` above the tip.
    pub fn block(&self, height: Height) -> Result<Option<BlockRow>, IndexError> {
        if self.is_frozen(height) {
            return self.generations.block(height);
        }
        self.blocks.get(&blocks::key(height))?.map(|row| BlockRow::decode(row.value())).transpose()
    }

    /// The hash of the block at a height that is not above the tip.
    pub fn block_hash(&self, height: Height) -> Result<BlockHash, IndexError> {
        let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
        if self.is_frozen(height) {
            return self.generations.block_hash(height)?.ok_or_else(missing);
        }
        BlockRow::decode_hash(self.blocks.get(&blocks::key(height))?.ok_or_else(missing)?.value())
    }

    /// The median time past of the block at a height that is not above the tip.
    pub fn median_time(&self, height: Height) -> Result<u32, IndexError> {
        let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
        if self.is_frozen(height) {
            return self.generations.median_time(height)?.ok_or_else(missing);
        }
        BlockRow::decode_median_time(self.blocks.get(&blocks::key(height))?.ok_or_else(missing)?.value())
    }

    /// The height of the block with this hash and whether it is stale; `None` if this index never had it (or no longer
    /// keeps it).
    pub fn block_place(&self, hash: BlockHash) -> Result<Option<BlockPlace>, IndexError> {
        // a block that left the chain may still have a row in a generation
        let live =
            self.block_hashes.get(hash.as_byte_array())?.map(|row| BlockPlace::decode(row.value())).transpose()?;
        if live.is_some() { Ok(live) } else { self.generations.block_place(hash) }
    }

    /// A block that left the active chain.
    pub fn stale_block(&self, height: Height, hash: BlockHash) -> Result<Option<StaleBlock>, IndexError> {
        StaleBlock::read(&self.stale_blocks, &self.stale_raw_blocks, &stale_blocks::key(height, hash))
    }

    /// Heights and hashes of all blocks that left the active chain and are kept, lowest first.
    pub fn stale_block_hashes(&self) -> Result<Vec<(Height, BlockHash)>, IndexError> {
        let rows = self.stale_blocks.range::<&stale_blocks::StaleBlockKey>(..)?;
        rows.map(|row| Ok(stale_blocks::split_key(row?.0.value()))).collect()
    }

    /// The stale blocks that contain a transaction, with its index in each.
    pub fn stale_occurrences(&self, txid: &Txid) -> Result<Vec<(BlockHash, u32)>, IndexError> {
        let prefix = self.salt.txid_prefix(txid);
        let (from, to) = (
            stale_transactions::key(prefix, filled_hash(0), 0),
            stale_transactions::key(prefix, filled_hash(0xff), u32::MAX),
        );
        let mut found = Vec::new();
        for row in self.stale_transactions.range::<&stale_transactions::StaleTransactionKey>(&from..=&to)? {
            let (_, hash, index) = stale_transactions::split_key(row?.0.value());
            let Some(place) = self.block_place(hash)? else { continue };
            let Some(block) = self.stale_block(place.height, hash)? else { continue };
            let raw = crate::chain::raw::RawBlock::parse(&block.raw).map_err(|error| {
                IndexError::corrupt("stale_raw_blocks", format!("row {hash} is not a block: {error}"))
            })?;
            let transaction = usize::try_from(index).ok().and_then(|index| raw.transactions.get(index));
            if transaction.is_some_and(|transaction| transaction.txid() == *txid) {
                found.push((hash, index));
            }
        }
        Ok(found)
    }

    /// The height of a transaction's block, and its index there.
    pub fn occurrence(&self, txnum: TxNum) -> Result<Occurrence, IndexError> {
        if let Some(occurrence) = self.generations.occurrence(txnum)? {
            return Ok(occurrence);
        }
        self.live_occurrence(txnum)
    }

    /// The transaction at this position of the active chain.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if it is damaged, `RawUnavailable`.
    pub fn transaction(&self, txnum: TxNum) -> Result<Option<StoredTransaction>, IndexError> {
        if txnum < self.generations.end() {
            return self.generations.transaction(txnum);
        }
        self.live_transaction(txnum, |_| true)
    }

    /// Whether the block at this height is in a generation.
    fn is_frozen(&self, height: Height) -> bool {
        self.generations.last().is_some_and(|last| height <= last.height)
    }

    /// Only the txid of the transaction at this position.
    pub fn txid(&self, txnum: TxNum) -> Result<Option<Txid>, IndexError> {
        if txnum < self.generations.end() {
            return self.generations.txid(txnum);
        }
        let row = self.transactions.get(&txnum.to_key())?;
        row.map(|row| TransactionRow::decode(row.value()).map(|row| row.txid)).transpose()
    }

    /// The newest transaction of the active chain with this txid.
    pub fn newest(&self, txid: &Txid) -> Result<Option<StoredTransaction>, IndexError> {
        let live = self.newest_live(txid)?;
        if live.is_some() { Ok(live) } else { self.generations.newest_transaction(txid) }
    }

    /// All positions of this txid in the active chain, oldest first: none, one, or more for a BIP30 duplicate.
    pub fn positions(&self, txid: &Txid) -> Result<Vec<TxNum>, IndexError> {
        let mut found = self.generations.positions(txid)?;
        found.extend(self.live_positions(txid)?);
        Ok(found)
    }

    /// The input that spends an output of the active chain, `None` while it is unspent.
    pub fn spender(&self, txnum: TxNum, vout: u32) -> Result<Option<SpendingInput>, IndexError> {
        let Some(vout) = Position::new(vout) else { return Ok(None) };
        let live = self.spends.get(&spends::tx_point(txnum, vout))?.map(|row| SpendingInput::of_row(row.value()));
        if live.is_some() { Ok(live) } else { self.generations.spender(txnum, vout.to_u32()) }
    }
}

/// The parts of the transaction at a position.
pub(super) fn parts_of(txnum: TxNum, raw: Vec<u8>) -> Result<Arc<TransactionParts>, IndexError> {
    let no_transaction =
        |error| IndexError::corrupt("transactions", format!("row {txnum} is not a transaction: {error}"));
    TransactionParts::of(raw).map(Arc::new).map_err(no_transaction)
}

fn filled_hash(byte: u8) -> BlockHash {
    Hash::from_byte_array([byte; 32])
}
