use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::resolver_utils::enum_value;
use async_graphql::{Context, ContextSelectionSet, Object, OutputType, Positioned, ScalarType, ServerResult, Value};
use bitcoin::BlockHash;

use super::effective_rates::mined_feerates_of;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, Sats, Txid, int_of};
use crate::api::types::spend::TransactionFeature;
use crate::chain::StructuralFeature;
use crate::chain::float::to_f64;
use crate::view::{self, BlockContents, View};

/// What an item of a column adds to an answer: the digits of a txid, or a number, which is shorter.
const ITEM_BYTES: usize = 64;

/// The letters of the name of a feature, in an answer.
const FEATURE_BYTES: usize = 32;

/// A list of `T`, scalars or lists of them, that is written at once: resolving each item as a field of its own takes five times as
/// long.
pub(crate) struct Column<T> {
    values: Vec<Value>,
    item: PhantomData<fn() -> T>,
}

impl<T> Column<T> {
    fn new(values: Vec<Value>) -> Self {
        Self { values, item: PhantomData }
    }
}

impl<T: OutputType> OutputType for Column<T> {
    fn type_name() -> Cow<'static, str> {
        Vec::<T>::type_name()
    }

    fn qualified_type_name() -> String {
        Vec::<T>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        Vec::<T>::create_type_info(registry)
    }

    async fn resolve(&self, _: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        Ok(Value::List(self.values.clone()))
    }
}

/// The transactions of a block at a glance.
pub(crate) struct BlockSummary {
    view: Arc<View>,
    block: BlockHash,
    contents: BlockContents,
}

impl BlockSummary {
    /// The summary of a block, `None` if it is stale.
    pub(crate) fn of(ctx: &Context<'_>, view: &Arc<View>, block: &view::Block) -> Result<Option<Self>, ApiError> {
        let contents = read_contents(ctx, view, block)?;
        Ok(contents.map(|contents| Self { view: view.clone(), block: block.row.hash, contents }))
    }

    /// A column with the value of the coinbase in front, and those of the other transactions.
    fn column<T>(
        &self,
        ctx: &Context<'_>,
        coinbase: Value,
        others: impl Iterator<Item = Result<Value, ApiError>>,
    ) -> Result<Column<T>, ApiError> {
        let count = self.contents.values.len();
        costs::spend(ctx, count / costs::COLUMN_ITEMS)?;
        self.view.count(count.saturating_mul(ITEM_BYTES))?;
        let values: Result<Vec<Value>, ApiError> = std::iter::once(Ok(coinbase)).chain(others).collect();
        values.map(Column::new)
    }
}

/// Reads all transactions of a block, `None` if it is stale.
pub(super) fn read_contents(
    ctx: &Context<'_>,
    view: &View,
    block: &view::Block,
) -> Result<Option<BlockContents>, ApiError> {
    if !block.is_main() {
        return Ok(None);
    }
    costs::spend(ctx, usize::try_from(block.row.transactions).unwrap_or(usize::MAX))?;
    view.count(block.row.size.try_into().unwrap_or(usize::MAX))?;
    Ok(view.block_contents(block)?)
}

fn sats(sat: u64) -> Result<Value, ApiError> {
    Ok(Sats::new(sat)?.to_value())
}

fn vsize(weight: u64) -> Result<Value, ApiError> {
    Ok(int_of(weight.div_ceil(4))?.into())
}

impl FieldCacheability for BlockSummary {
    const IMMUTABLE: &'static str = "txids txFees vsizes totalOutputValues feeRates effectiveFeeRates txFeatures";
    const UNTIL_NEXT_HEAD: &'static str = "txFirstSeenAt";
}

/// The transactions of a block at a glance, as lists of equal length: item i of each list belongs to transaction i of the
/// block, from 0 for the coinbase. Far cheaper than `transactions`, for treemaps and charts of whole blocks.
#[Object]
impl BlockSummary {
    /// The txids. As many as `Block.txCount`.
    #[graphql(complexity = "costs::column()")]
    async fn txids(&self, ctx: &Context<'_>) -> Result<Column<Txid>, ApiError> {
        let others = self.contents.paying.iter().map(|transaction| Ok(Txid(transaction.txid).to_value()));
        self.column(ctx, Txid(self.contents.coinbase.txid).to_value(), others)
    }

    /// The fees, in satoshis. Null for the coinbase. As many as `Block.txCount`.
    #[graphql(complexity = "costs::column()")]
    async fn tx_fees(&self, ctx: &Context<'_>) -> Result<Column<Option<Sats>>, ApiError> {
        self.column(ctx, Value::Null, self.contents.paying.iter().map(|transaction| sats(transaction.fee)))
    }

    /// The virtual sizes in vbytes, each rounded up (BIP141). As many as `Block.txCount`.
    #[graphql(complexity = "costs::column()")]
    async fn vsizes(&self, ctx: &Context<'_>) -> Result<Column<i32>, ApiError> {
        let others = self.contents.paying.iter().map(|transaction| vsize(transaction.weight));
        self.column(ctx, vsize(self.contents.coinbase.weight)?, others)
    }

    /// The sums of the outputs, in satoshis. As many as `Block.txCount`.
    #[graphql(complexity = "costs::column()")]
    async fn total_output_values(&self, ctx: &Context<'_>) -> Result<Column<Sats>, ApiError> {
        let mut values = self.contents.values.iter().map(|value| sats(*value));
        let coinbase = values.next().transpose()?.unwrap_or_default();
        self.column(ctx, coinbase, values)
    }

    /// The feerates, in sat/vB, not rounded: each fee divided by a quarter of the weight. Null for the coinbase.
    /// As many as `Block.txCount`.
    #[graphql(complexity = "costs::column()")]
    async fn fee_rates(&self, ctx: &Context<'_>) -> Result<Column<Option<f64>>, ApiError> {
        let rate = |transaction: &view::PayingTransaction| to_f64(transaction.fee) * 4.0 / to_f64(transaction.weight);
        self.column(ctx, Value::Null, self.contents.paying.iter().map(|transaction| Ok(rate(transaction).to_value())))
    }

    /// The effective feerates, in sat/vB: those of the packages with which a miner includes the transactions, where one
    /// transaction of the block pays for others, by the sizes by which miners order transactions (`adjustedVsize`). Where these may
    /// depend on the outputs that a transaction spends, each of its inputs counts as three fields. Groups of transactions that spend
    /// one another are taken in the order of the block where there are more than 200,000 spends to follow from each to its ancestors.
    /// Null for the coinbase. As many as `Block.txCount`.
    #[graphql(complexity = "costs::column().saturating_mul(2)")]
    async fn effective_fee_rates(&self, ctx: &Context<'_>) -> Result<Column<Option<f64>>, ApiError> {
        let rates = mined_feerates_of(ctx, &self.view, self.block, &self.contents)?;
        self.column(ctx, Value::Null, rates.effective.iter().map(|rate| Ok(rate.to_sat_per_vb().to_value())))
    }

    /// When this server, or the node before it, first saw each transaction, as `Transaction.firstSeenAt`. Null where that is null.
    /// As many as `Block.txCount`.
    #[graphql(complexity = "costs::column().saturating_mul(2)")]
    async fn tx_first_seen_at(&self, ctx: &Context<'_>) -> Result<Column<Option<DateTime>>, ApiError> {
        let count = u32::try_from(self.contents.values.len()).unwrap_or(u32::MAX);
        costs::spend(ctx, costs::rows_in_a_row(count))?;
        let mut seen = self.view.block_first_seen(&self.contents)?.into_iter();
        let value =
            |seconds: Option<u64>| seconds.map_or(Value::Null, |seconds| DateTime::from_seconds(seconds).to_value());
        let coinbase = value(seen.next().flatten());
        self.column(ctx, coinbase, seen.map(|seconds| Ok(value(seconds))))
    }

    /// The features, as `Transaction.features`. The transactions with the outputs that the block spends are read, and each of its
    /// inputs counts as three fields. As many as `Block.txCount`.
    #[graphql(complexity = "costs::column().saturating_add(costs::WHOLE_BLOCK)")]
    async fn tx_features(&self, ctx: &Context<'_>) -> Result<Column<Vec<TransactionFeature>>, ApiError> {
        let found = self.view.block_features(&self.contents, |inputs| costs::spend_on_spent_outputs(ctx, inputs))?;
        self.view.count(found.iter().map(Vec::len).sum::<usize>().saturating_mul(FEATURE_BYTES))?;
        let value = |features: Vec<StructuralFeature>| {
            Value::List(features.into_iter().map(|feature| enum_value(TransactionFeature::from(feature))).collect())
        };
        let mut columns = found.into_iter().map(value);
        let coinbase = columns.next().unwrap_or_default();
        self.column(ctx, coinbase, columns.map(Ok))
    }
}
