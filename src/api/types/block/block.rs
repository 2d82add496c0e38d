use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use bitcoin::consensus::serialize;

use super::block_audit::BlockAuditObject;
use super::block_fee_stats::BlockFeeStats;
use super::block_header::{BlockHeader, merkle_root};
use super::block_stats::BlockStats;
use super::block_summary::BlockSummary;
use super::coinbase::CoinbaseObject;
use super::compact_filter::CompactFilterObject;
use super::cumulative_totals::CumulativeTotals;
use super::silent_payment_tweak::{self, SilentPaymentTweak};
use crate::api::allowance::find_transaction;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::block_id;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::{BlockHash, DateTime, Hash256, Hex, Sats, Txid, UInt53, int};
use crate::api::types::chain::{DifficultyEpochObject, Reorg};
use crate::api::types::enums::{ChainStatus, SortOrder};
use crate::api::types::mempool::{ScriptDelta, script_delta_page};
use crate::api::types::miner::Miner;
use crate::api::types::transaction::{Transaction, TransactionFilter, filtered};
use crate::chain::{self, difficulty};
use crate::view::{self, Dependency, View};

/// How many txids a block is taken to have before they are counted: as many as most full blocks.
pub(super) const TXIDS: usize = 3_000;

/// How many siblings a block is taken to have before they are known: more than a height of a public chain ever had.
const SIBLINGS: usize = 4;

/// What a txid adds to an answer.
pub(super) const TXID_DIGITS: usize = 64;

/// What finding a block reads, in round numbers.
const ROW_BYTES: usize = 1_024;

/// A block, and the view it was found in.
#[derive(Clone)]
pub(crate) struct Block {
    view: Arc<View>,
    block: Arc<view::Block>,
}

impl Block {
    pub(crate) fn new(view: &Arc<View>, block: view::Block) -> Self {
        view.note_block(&block);
        Self { view: view.clone(), block: Arc::new(block) }
    }

    /// A block that may not be there.
    pub(crate) fn maybe(
        view: &Arc<View>,
        found: Result<Option<view::Block>, view::IndexError>,
    ) -> Option<Result<Self, ApiError>> {
        found.map(|found| found.map(|block| Self::new(view, block))).map_err(ApiError::from).transpose()
    }

    fn raw_header(&self) -> &bitcoin::block::Header {
        &self.block.row.header
    }

    /// The serialised coinbase.
    fn raw_coinbase(&self) -> Result<Vec<u8>, ApiError> {
        let raw = self.view.coinbase(&self.block)?;
        self.view.count(raw.len())?;
        Ok(raw)
    }

    fn coinbase_parts(&self) -> Result<CoinbaseObject, ApiError> {
        self.view.count(self.block.bytes_to_open())?;
        CoinbaseObject::new(&self.view, self.transaction_in(0)?)
    }

    fn raw(&self) -> Result<Hex, ApiError> {
        self.view.count(self.block.row.size.try_into().unwrap_or(usize::MAX))?;
        Ok(Hex::new(self.view.raw_block(&self.block)?))
    }

    fn transaction_at(&self, index: i32) -> Result<Option<Transaction>, ApiError> {
        let index = u32::try_from(index).map_err(|_| {
            ApiError::bad_argument("index", format!("is {index}, and the first transaction has index 0"))
        })?;
        self.view.count(self.block.bytes_to_open())?;
        let found = find_transaction(&self.view, |view| view.block_transaction(&self.block, index))?;
        Ok(found.map(|transaction| Transaction::new(&self.view, transaction)))
    }

    fn transaction_page(
        &self,
        ctx: &Context<'_>,
        args: &PageArgs,
        filter: Option<TransactionFilter>,
    ) -> Result<Connection<Transaction>, ApiError> {
        if let Some(filter) = TransactionFilter::checked(filter)? {
            return self.filtered_page(ctx, args, &filter);
        }
        let hash = self.block.row.hash;
        let scope = Scope::new("transactions", block_id(hash));
        let held_by = self.block.is_main().then_some(hash);
        let count = self.block.row.transactions;
        let page = args.read(&scope, &self.view, limits(ctx)?)?.of(0..count.into(), SortOrder::Asc);
        self.view.count(self.block.bytes_to_open())?;
        // the rows of a page follow each other
        let first = page.rows.first().map_or(Ok(0), |(first, ())| index(*first))?;
        let end = page.rows.last().map_or(Ok(0), |(last, ())| index(last.saturating_add(1)))?;
        let mut found = self.view.block_transactions::<ApiError>(&self.block, first..end)?.into_iter();
        let mut next = || found.next().ok_or_else(|| ApiError::internal("a transaction of a block is missing"));
        Connection::new(
            &scope,
            page,
            Some(count.into()),
            |_| Ok(held_by),
            |_, ()| Ok(Transaction::new(&self.view, next()?)),
        )
    }

    /// The transaction at this place of the list, which must be there.
    fn transaction_in(&self, at: u64) -> Result<view::Transaction, ApiError> {
        let index = index(at)?;
        let found = find_transaction(&self.view, |view| view.block_transaction(&self.block, index))?;
        found.ok_or_else(|| ApiError::internal("a transaction of a block is missing"))
    }

    fn filtered_page(
        &self,
        ctx: &Context<'_>,
        args: &PageArgs,
        filter: &TransactionFilter,
    ) -> Result<Connection<Transaction>, ApiError> {
        let (hash, limits) = (self.block.row.hash, limits(ctx)?);
        // where such a page ends is for the server's settings to say
        self.view.read_set().depends_on(Dependency::Chain);
        let scope = Scope::new("transactions", block_id(hash)).filtered(format!("{filter:?}"));
        let held_by = self.block.is_main().then_some(hash);
        let request = args.read(&scope, &self.view, limits)?;
        self.view.count(self.block.bytes_to_open())?;
        let all = 0..self.block.row.transactions.into();
        let page = filtered(ctx, &request, all, SortOrder::Asc, limits, |index| {
            let left = self.view.bytes_left();
            let found = Transaction::new(&self.view, self.transaction_in(index)?);
            let meets = found.meets(ctx, filter)?;
            Ok((left.saturating_sub(self.view.bytes_left()), meets.then_some(found)))
        })?;
        Connection::new(&scope, page, None, |_| Ok(held_by), |_, found| Ok(found))
    }
}

/// A place in the list of transactions as an index in the block.
fn index(at: u64) -> Result<u32, ApiError> {
    u32::try_from(at).map_err(|_| ApiError::internal("a block has too many transactions"))
}

impl FieldCacheability for Block {
    const IMMUTABLE: &'static str = "id hash height header headerHex rawHex version merkleRoot time medianTime \
        timestamp bits nonce difficulty target chainwork size strippedSize weight txCount chainStatus previousBlock \
        subsidy totalFees coinbase coinbaseValue unclaimedReward feeStats stats cumulative txids transaction \
        transactions summary balanceChanges silentPaymentTweaks";
    const UNTIL_NEXT_TIP: &'static str = "confirmations nextBlock epoch";
    // the table of pools is of this server
    const UNTIL_NEXT_HEAD: &'static str = "siblings reorg firstSeenAt audit miner";
    const NEVER: &'static str = "compactFilter";
}

/// A block, on the main chain or stale.
#[Object]
impl Block {
    /// `Block:` followed by the block hash.
    pub(crate) async fn id(&self) -> ID {
        block_id(self.block.row.hash).into()
    }

    /// The hash of the block's header.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.block.row.hash)
    }

    /// The number of blocks before this block in its chain. 0 for the genesis block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.block.height.to_u32())
    }

    /// The header of the block, field by field.
    async fn header(&self) -> BlockHeader {
        BlockHeader { hash: self.block.row.hash, height: self.block.height, header: *self.raw_header() }
    }

    /// The 80 bytes of the header.
    async fn header_hex(&self) -> Hex {
        Hex::new(serialize(self.raw_header()))
    }

    /// The serialised block. Null only together with an error: the full size of the block counts against the limit on
    /// transaction bytes in one answer (`server.limits.pages.transactionBytes`).
    async fn raw_hex(&self) -> Option<Result<Hex, ApiError>> {
        Some(self.raw())
    }

    /// The version field, as an unsigned integer. Its bits signal deployments (BIP9).
    async fn version(&self) -> UInt53 {
        self.raw_header().version.to_consensus().cast_unsigned().into()
    }

    /// The root of the merkle tree over the txids of the block, in display (reversed) byte order.
    async fn merkle_root(&self) -> Hash256 {
        merkle_root(self.raw_header())
    }

    /// The timestamp of the header. The miner sets it: it can be up to two hours ahead of the actual time, and earlier
    /// than the timestamp of the previous block. To order blocks by time, use `medianTime`.
    async fn time(&self) -> DateTime {
        DateTime::from_unix(self.raw_header().time)
    }

    /// Median time past: the median of the header timestamps of this block and the ten blocks before it (BIP113). It
    /// never decreases along a chain.
    async fn median_time(&self) -> DateTime {
        DateTime::from_unix(self.block.row.median_time)
    }

    /// The timestamp of the header, in seconds since 1970-01-01T00:00:00Z.
    async fn timestamp(&self) -> UInt53 {
        self.raw_header().time.into()
    }

    /// The target in compact form, as an unsigned integer: one byte of exponent, three bytes of mantissa.
    async fn bits(&self) -> UInt53 {
        self.raw_header().bits.to_consensus().into()
    }

    /// The nonce, which miners vary to find a hash below the target.
    async fn nonce(&self) -> UInt53 {
        self.raw_header().nonce.into()
    }

    /// The difficulty: the easiest mainnet target divided by this block's target. Below 1 on test networks that allow
    /// easier targets.
    async fn difficulty(&self) -> f64 {
        difficulty::difficulty(self.raw_header().bits)
    }

    /// The target, which the block hash must not exceed: 256 bits, big-endian.
    async fn target(&self) -> Result<Hex, ApiError> {
        let target = difficulty::target(self.raw_header().bits).ok_or_else(|| {
            ApiError::internal(&format!("the bits of block {} encode no target", self.block.row.hash))
        })?;
        Ok(Hex::new(target.to_be_bytes()))
    }

    /// The chainwork: the expected number of hashes to produce the chain from genesis up to and including this block.
    /// 256 bits, big-endian.
    async fn chainwork(&self) -> Hex {
        Hex::new(self.block.row.running.chainwork.to_be_bytes())
    }

    /// The serialised size in bytes, witnesses included.
    async fn size(&self) -> Result<i32, ApiError> {
        int(self.block.row.size)
    }

    /// The serialised size in bytes, without witnesses.
    async fn stripped_size(&self) -> Result<i32, ApiError> {
        int(self.block.row.stripped_size)
    }

    /// The weight in weight units: three times the stripped size plus the size (BIP141). At most 4,000,000.
    async fn weight(&self) -> Result<i32, ApiError> {
        int(self.block.row.weight)
    }

    /// The number of transactions in the block, coinbase included.
    async fn tx_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.transactions)
    }

    /// Whether the block is on the main chain or stale.
    async fn chain_status(&self) -> ChainStatus {
        self.block.membership.into()
    }

    /// The number of main chain blocks that confirm this block, itself included: 1 for the tip, 0 for a stale block.
    async fn confirmations(&self) -> Result<i32, ApiError> {
        if self.block.is_main() { int(self.view.confirmations(self.block.height)) } else { Ok(0) }
    }

    /// All other blocks that the server knows at this height, the main chain block first. Empty at most heights, and
    /// otherwise one for each branch that the server followed there.
    #[graphql(complexity = "costs::list(SIBLINGS, child_complexity)")]
    async fn siblings(&self) -> Result<Vec<Block>, ApiError> {
        let hashes = self.view.siblings(&self.block)?;
        // blocks of one height are each other's siblings: without a count a nested question would multiply them
        self.view.count(hashes.len().saturating_mul(ROW_BYTES))?;
        let find = |hash| {
            let block = self.view.block(hash)?;
            block.ok_or_else(|| ApiError::internal("a sibling of a block is missing"))
        };
        hashes.into_iter().map(|hash| find(hash).map(|block| Block::new(&self.view, block))).collect()
    }

    /// The reorg in which the block left the main chain; the newest one if there were several. Null if the server saw
    /// none.
    async fn reorg(&self) -> Option<Result<Reorg, ApiError>> {
        Reorg::maybe(&self.view, self.view.reorg_that_disconnected(self.block.row.hash))
    }

    /// When this server first saw the block, by its own clock. Null if the server did not follow its node then, and if that is
    /// no longer stored: it is for the highest blocks only, 50,000 unless the settings say otherwise.
    async fn first_seen_at(&self) -> Option<Result<DateTime, ApiError>> {
        let arrival = self.view.block_arrival(&self.block).map_err(ApiError::from).transpose()?;
        Some(arrival.map(|arrival| DateTime::from_seconds(arrival.first_seen)))
    }

    /// How the block compares with the one that was projected of the mempool right before it. Null where `firstSeenAt` is, if the
    /// mempool was not followed then, and for a block that arrived together with others or in a reorganisation: none was projected
    /// for its place.
    async fn audit(&self) -> Option<Result<BlockAuditObject, ApiError>> {
        let arrival = self.view.block_arrival(&self.block).map_err(ApiError::from).transpose()?;
        let audit = arrival.map(|arrival| arrival.audit).transpose()?;
        Some(audit.map(|audit| BlockAuditObject::new(&self.view, &self.block, audit)))
    }

    /// The previous block. Null for the genesis block.
    async fn previous_block(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.view.previous_block(&self.block))
    }

    /// The next block on the main chain. Null for the tip and for stale blocks.
    async fn next_block(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.view.next_block(&self.block))
    }

    /// The difficulty epoch that the block belongs to. Null for a stale block: an epoch consists of main chain blocks.
    async fn epoch(&self) -> Option<Result<DifficultyEpochObject, ApiError>> {
        let index = chain::DifficultyEpoch::of(self.block.height).index();
        if self.block.is_main() { DifficultyEpochObject::find(&self.view, index).transpose() } else { None }
    }

    /// The block subsidy, in satoshis: the amount that the coinbase may claim in addition to the fees.
    async fn subsidy(&self) -> Result<Sats, ApiError> {
        Sats::new(self.block.row.subsidy)
    }

    /// The sum of the fees of the block's transactions, in satoshis.
    async fn total_fees(&self) -> Result<Sats, ApiError> {
        Sats::new(self.block.row.fees)
    }

    /// The sum of the coinbase outputs, in satoshis.
    async fn coinbase_value(&self) -> Result<Sats, ApiError> {
        Sats::new(self.block.row.coinbase_value)
    }

    /// The amount that the coinbase could have claimed and did not, in satoshis: subsidy plus fees minus coinbase
    /// value. These coins never exist.
    async fn unclaimed_reward(&self) -> Result<Sats, ApiError> {
        let row = &self.block.row;
        let unclaimed = row.subsidy.checked_add(row.fees).and_then(|reward| reward.checked_sub(row.coinbase_value));
        Sats::new(unclaimed.ok_or_else(|| ApiError::internal("a coinbase claims more than subsidy and fees"))?)
    }

    /// The coinbase of the block, decoded.
    async fn coinbase(&self) -> Option<Result<CoinbaseObject, ApiError>> {
        Some(self.coinbase_parts())
    }

    /// The mining pool that the block is ascribed to, by what its coinbase shows (`coinbase.minerEvidence`). Null if it is
    /// none that the server knows: a miner of its own, or another pool. The table of pools is a setting of the server
    /// (`index.pools_file`), and anybody can write the text of a pool into a coinbase.
    async fn miner(&self) -> Option<Result<Miner, ApiError>> {
        self.raw_coinbase().and_then(|raw| Miner::of_coinbase(&self.view, &raw)).transpose()
    }

    /// Statistics of the fees of the block's transactions.
    async fn fee_stats(&self) -> BlockFeeStats {
        BlockFeeStats::of(&self.view, &self.block)
    }

    /// The transactions of the block at a glance: txids, fees, sizes and feerates as lists of equal length, for treemaps. Null
    /// for a stale block, whose fees are not stored.
    #[graphql(complexity = "costs::contents(child_complexity)")]
    async fn summary(&self, ctx: &Context<'_>) -> Option<Result<BlockSummary, ApiError>> {
        BlockSummary::of(ctx, &self.view, &self.block).transpose()
    }

    /// What the block does to the balances of the scripts that it pays or spends, in the order of the scripts' bytes. All
    /// transactions of the block, and those with the outputs that it spends, are read for each page. Null for a stale block.
    #[graphql(complexity = "costs::page(first, last, child_complexity).saturating_add(costs::WHOLE_BLOCK)")]
    async fn balance_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only scripts whose `net` is at least this many satoshis, up or down.")] min_abs_net: Option<
            Sats,
        >,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<ScriptDelta>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        script_delta_page(ctx, &self.view, &self.block, min_abs_net, &args).transpose()
    }

    /// The transactions of the block that may be silent payments, in block order, each with the tweak by which a receiver scans
    /// it (BIP352). Computed when asked: for a light client that scans every block. Reading costs 1 for each transaction of the
    /// block, and each tweak that is computed 60 and 1 for each input of its transaction. Null for a stale block.
    #[graphql(complexity = "costs::contents(costs::page(first, last, child_complexity.saturating_add(costs::TWEAK)))")]
    async fn silent_payment_tweaks(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<SilentPaymentTweak>, ApiError>> {
        silent_payment_tweak::page(ctx, &self.view, &self.block, &PageArgs { first, after, last, before }).transpose()
    }

    /// Totals of the block's inputs, outputs and sizes.
    async fn stats(&self) -> BlockStats {
        BlockStats::of(&self.view, &self.block)
    }

    /// Totals of the chain up to and including this block.
    async fn cumulative(&self) -> CumulativeTotals {
        CumulativeTotals::of(&self.block.row.running)
    }

    /// The basic compact filter of the block (BIP158). With the feature BLOCK_FILTERS of `server.features` the server computes
    /// it. Without it, until the server has computed those up to this block, and for a stale block it is that of the Bitcoin
    /// node. FEATURE_DISABLED if the node has no index of filters (`-blockfilterindex=1`) either, NOT_READY while only the server
    /// will have the filter, and NODE_UNAVAILABLE if the node does not respond, if its index does not have the block yet, and for
    /// a stale block if it has no index.
    #[graphql(complexity = "costs::more(costs::NODE, child_complexity)")]
    async fn compact_filter(&self, ctx: &Context<'_>) -> Option<Result<CompactFilterObject, ApiError>> {
        Some(CompactFilterObject::find(ctx, &self.view, &self.block, costs::NODE).await)
    }

    /// The txids of all transactions of the block, in block order, coinbase first. `transactions` returns the transactions page
    /// by page. As many as `txCount`.
    #[graphql(complexity = "costs::list(TXIDS, 0)")]
    async fn txids(&self, ctx: &Context<'_>) -> Result<List<Txid>, ApiError> {
        let count = usize::try_from(self.block.row.transactions).unwrap_or(usize::MAX);
        costs::spend(ctx, count)?;
        self.view.count(count.saturating_mul(TXID_DIGITS).saturating_add(self.block.bytes_to_open()))?;
        Ok(List(self.view.txids(&self.block)?.into_iter().map(Txid).collect()))
    }

    /// The transaction at an index of the block, as in `transactions`. Null beyond the last transaction.
    async fn transaction(
        &self,
        #[graphql(desc = "The index of the transaction in the block, from 0 for the coinbase.")] index: i32,
    ) -> Option<Result<Transaction, ApiError>> {
        self.transaction_at(index).transpose()
    }

    /// The transactions of the block, in block order, coinbase first. Transactions of a stale block that are also on
    /// the main chain are shown as they are on the main chain, and those of the mempool as they are there.
    #[graphql(
        complexity = "costs::worst_scan(filter.is_some_and(|filter| filter.leaves_out()), costs::TRANSACTIONS).saturating_add(costs::page(first, last, child_complexity))"
    )]
    async fn transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<TransactionFilter>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Transaction>, ApiError>> {
        Some(self.transaction_page(ctx, &PageArgs { first, after, last, before }, filter))
    }
}
