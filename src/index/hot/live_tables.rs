//! The live tables, all of them open for writing.

use std::sync::Arc;

use redb::{Table, WriteTransaction};

use super::super::error::IndexError;
use super::super::frozen::Generations;
use super::tables::observed::{block_observed, departed, first_seen, mempool, mempool_samples};
use super::tables::{
    address_prefixes, block_files, block_filters, block_hashes, block_starts, blocks, history, meta, miner_blocks,
    op_returns, overwritten, p2pk, payouts, raw_blocks, reorgs, spends, stale_blocks, stale_transactions, transactions,
    txids, unspent, wtxids,
};

/// All tables, open for writing.
pub(in crate::index) struct Tables<'txn> {
    /// What these tables do not have.
    pub(in crate::index) generations: Arc<Generations>,
    pub(in crate::index) meta: Table<'txn, &'static str, &'static [u8]>,
    pub(in crate::index) blocks: Table<'txn, &'static [u8; 4], &'static [u8]>,
    pub(in crate::index) block_starts: Table<'txn, &'static [u8; 4], &'static [u8; 8]>,
    pub(in crate::index) block_hashes: Table<'txn, &'static [u8; 32], &'static [u8; 5]>,
    pub(in crate::index) transactions: Table<'txn, &'static [u8; 4], &'static [u8]>,
    pub(in crate::index) txids: Table<'txn, &'static [u8; 10], ()>,
    pub(in crate::index) spends: Table<'txn, &'static [u8; 7], &'static [u8; 7]>,
    pub(in crate::index) overwritten: Table<'txn, &'static [u8; 7], &'static [u8; 4]>,
    pub(in crate::index) history: Table<'txn, &'static [u8; 14], &'static [u8; 44]>,
    pub(in crate::index) unspent: Table<'txn, &'static [u8; 17], &'static [u8; 9]>,
    pub(in crate::index) payouts: Table<'txn, &'static [u8; 14], ()>,
    pub(in crate::index) p2pk: Table<'txn, &'static [u8; 30], &'static [u8; 4]>,
    pub(in crate::index) stale_blocks: Table<'txn, &'static [u8; 36], &'static [u8]>,
    pub(in crate::index) stale_raw_blocks: Table<'txn, &'static [u8; 36], &'static [u8]>,
    pub(in crate::index) stale_transactions: Table<'txn, &'static [u8; 42], ()>,
    pub(in crate::index) mempool: Table<'txn, &'static [u8; 32], &'static [u8]>,
    pub(in crate::index) departed: Table<'txn, &'static [u8; 8], &'static [u8]>,
    pub(in crate::index) block_observed: Table<'txn, &'static [u8; 36], &'static [u8]>,
    pub(in crate::index) first_seen: Table<'txn, &'static [u8; 4], &'static [u8; 4]>,
    pub(in crate::index) reorgs: Table<'txn, &'static [u8; 8], &'static [u8]>,
    pub(in crate::index) reorg_blocks: Table<'txn, &'static [u8; 33], &'static [u8; 8]>,
    pub(in crate::index) mempool_samples: Table<'txn, &'static [u8; 4], &'static [u8]>,
    pub(in crate::index) block_files: Table<'txn, &'static [u8; 4], &'static [u8; 12]>,
    pub(in crate::index) raw_blocks: Table<'txn, &'static [u8; 4], &'static [u8; 12]>,
    pub(in crate::index) wtxids: Table<'txn, &'static [u8; 10], ()>,
    pub(in crate::index) address_prefixes: Table<'txn, &'static [u8; 26], ()>,
    pub(in crate::index) op_returns: Table<'txn, &'static [u8; 15], ()>,
    pub(in crate::index) miner_blocks: Table<'txn, &'static [u8; 6], &'static [u8; 24]>,
    pub(in crate::index) block_filters: Table<'txn, &'static [u8; 4], &'static [u8; 32]>,
}

impl<'txn> Tables<'txn> {
    /// Opens all of them, and creates those that do not exist yet.
    pub(in crate::index) fn open(
        transaction: &'txn WriteTransaction,
        generations: Arc<Generations>,
    ) -> Result<Self, IndexError> {
        Ok(Self {
            generations,
            meta: transaction.open_table(meta::TABLE)?,
            blocks: transaction.open_table(blocks::TABLE)?,
            block_starts: transaction.open_table(block_starts::TABLE)?,
            block_hashes: transaction.open_table(block_hashes::TABLE)?,
            transactions: transaction.open_table(transactions::TABLE)?,
            txids: transaction.open_table(txids::TABLE)?,
            spends: transaction.open_table(spends::TABLE)?,
            overwritten: transaction.open_table(overwritten::TABLE)?,
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
            block_files: transaction.open_table(block_files::TABLE)?,
            raw_blocks: transaction.open_table(raw_blocks::TABLE)?,
            wtxids: transaction.open_table(wtxids::TABLE)?,
            address_prefixes: transaction.open_table(address_prefixes::TABLE)?,
            op_returns: transaction.open_table(op_returns::TABLE)?,
            miner_blocks: transaction.open_table(miner_blocks::TABLE)?,
            block_filters: transaction.open_table(block_filters::TABLE)?,
        })
    }
}
