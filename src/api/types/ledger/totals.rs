use async_graphql::{Context, Object};
use bitcoin::hashes::Hash;

use super::holdings::Holdings;
use super::status_hash::status_hash;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BigInt, Hex, UInt53, int};
use crate::api::types::block::Block;
use crate::chain::Height;
use crate::view::{self, LedgerTotals, Movements, TxNum};

/// The totals of a ledger right after a block.
pub(crate) struct LedgerTotalsObject {
    holdings: Holdings,
    at: view::Block,
    totals: LedgerTotals,
    /// Whether the mempool is looked at, too.
    pending: bool,
    /// Rows that may be read to count transactions.
    scan_rows: u32,
}

impl LedgerTotalsObject {
    pub(crate) fn of(holdings: Holdings, at: view::Block, pending: bool, scan_rows: u32) -> Result<Self, ApiError> {
        holdings.count_scripts()?;
        let totals = holdings.view.totals(&holdings.ledger, &at)?;
        Ok(Self { holdings, at, totals, pending, scan_rows })
    }

    fn counted(&self, ctx: &Context<'_>) -> Result<Option<Movements>, ApiError> {
        self.holdings.count_scripts()?;
        let until = self.holdings.view.txnums(Height::GENESIS..self.at.height.next())?;
        self.holdings.count_movements(ctx, &until, self.scan_rows)
    }

    fn block_of(&self, txnum: Option<TxNum>) -> Result<Option<Block>, ApiError> {
        let view = &self.holdings.view;
        let Some(txnum) = txnum else { return Ok(None) };
        Ok(Some(Block::new(view, view.main_block(view.height_of(txnum)?)?)))
    }

    fn first(&self) -> Result<Option<Block>, ApiError> {
        self.holdings.count_scripts()?;
        self.block_of(self.holdings.view.first_seen(&self.holdings.ledger, &self.at)?)
    }
}

impl FieldCacheability for LedgerTotalsObject {
    const IMMUTABLE: &'static str = "txCount mempoolTxCount receivedCount received spentCount spent utxoCount \
        firstSeenBlock lastSeenBlock minedBlockCount used statusHash";
}

/// Totals of a ledger on the main chain up to and including the requested block and, if no block is requested, the
/// number of its mempool transactions. Unspendable outputs are not counted.
#[Object(name = "LedgerTotals")]
impl LedgerTotalsObject {
    /// The number of transactions that paid or spent the ledger. A transaction that does both, or involves several of
    /// its scripts, counts once. Null for a set whose histories are too long to merge: more than
    /// `server.limits.pages.scanRows` rows together.
    async fn tx_count(&self, ctx: &Context<'_>) -> Option<Result<UInt53, ApiError>> {
        self.counted(ctx).map(|counted| counted.map(|counted| counted.transactions.into())).transpose()
    }

    /// The number of mempool transactions that pay or spend the ledger. A transaction that involves several of its
    /// scripts counts once. Except for `used`, no other field counts mempool transactions. 0 with `at`.
    async fn mempool_tx_count(&self, ctx: &Context<'_>) -> Result<i32, ApiError> {
        if !self.pending {
            return Ok(0);
        }
        self.holdings.count_scripts()?;
        let counted = self.holdings.count_pending(ctx, u64::MAX)?.unwrap_or_default();
        int(u32::try_from(counted).unwrap_or(u32::MAX))
    }

    /// The number of outputs received.
    async fn received_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.totals.outputs_received)
    }

    /// The sum of the received outputs, in satoshis: lifetime turnover, including change.
    async fn received(&self) -> BigInt {
        self.totals.received.into()
    }

    /// The number of outputs spent.
    async fn spent_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.totals.outputs_spent)
    }

    /// The sum of the spent outputs, in satoshis. `received` minus `spent` is the confirmed balance.
    async fn spent(&self) -> BigInt {
        self.totals.spent.into()
    }

    /// The number of unspent outputs.
    async fn utxo_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.totals.utxo_count()?)
    }

    /// The block of the first transaction that paid the ledger. Null if there is none.
    async fn first_seen_block(&self) -> Option<Result<Block, ApiError>> {
        self.first().transpose()
    }

    /// The block of the newest transaction that paid or spent the ledger. Null if there is none.
    async fn last_seen_block(&self) -> Option<Result<Block, ApiError>> {
        self.block_of(self.totals.last_seen).transpose()
    }

    /// The number of coinbases that paid the ledger. A coinbase that pays several of its scripts counts once. Null if
    /// `txCount` is null.
    async fn mined_block_count(&self, ctx: &Context<'_>) -> Option<Result<i32, ApiError>> {
        self.counted(ctx).and_then(|counted| counted.map(|counted| int(counted.coinbases)).transpose()).transpose()
    }

    /// A hash that changes with every change of the ledger's transactions, so that a client that polls sees whether there is
    /// anything new: for a script the status of the Electrum protocol, the SHA-256 of `txid:height:` for each transaction in
    /// the order of the chain, and, without `at`, for each mempool transaction in the order of arrival, with the height 0, or -1
    /// if it spends an unconfirmed output. Null if there is no transaction. More than `server.limits.pages.scanRows`
    /// transactions fail with QUERY_LIMIT_EXCEEDED.
    #[graphql(complexity = "costs::more(costs::SCANNED_ROWS / costs::ROWS_APART, 0)")]
    async fn status_hash(&self, ctx: &Context<'_>) -> Option<Result<Hex, ApiError>> {
        let found = status_hash(ctx, &self.holdings, &self.at, self.pending, self.scan_rows);
        found.map(|found| found.map(|hash| Hex::new(hash.to_byte_array()))).transpose()
    }

    /// Whether any transaction paid the ledger. Without `at`, a mempool transaction counts, so that an address with a
    /// pending payment is not assigned again.
    async fn used(&self) -> Result<bool, ApiError> {
        if self.totals.last_seen.is_some() || !self.pending {
            return Ok(self.totals.last_seen.is_some());
        }
        self.holdings.count_scripts()?;
        Ok(self.holdings.view.pending(&self.holdings.ledger).created.count > 0)
    }
}
