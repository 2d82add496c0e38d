//! The fields that every ledger has, written once: each of its types takes them into its own with `flatten`. The schema names
//! no type of them, and extensions see the type that took them.

use std::sync::Arc;

use async_graphql::{Context, Object};
use bitcoin::hashes::sha256;

use super::balance::Balance;
use super::balance_point::BalancePoint;
use super::entry::{LedgerEntry, LedgerFilter};
use super::holdings::Holdings;
use super::totals::LedgerTotalsObject;
use super::utxo::{UtxoConnection, UtxoFilter};
use crate::api::costs;
use crate::api::engine::List;
use crate::api::error::ApiError;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::page::PageArgs;
use crate::api::types::block::{Block, BlockAt, BlockRangeInput};
use crate::api::types::enums::{SeriesGroupEnum, SortOrder};
use crate::view::View;

/// What a ledger answers from its holdings. Its types dereference to it, because the interface calls each field as a method of
/// them.
#[derive(Clone)]
pub(crate) struct LedgerFields(Holdings);

impl LedgerFields {
    /// Those of a ledger of these scripts, as of [`Holdings::new`].
    pub(crate) fn new(
        view: &Arc<View>,
        owner: String,
        scripts: impl IntoIterator<Item = (sha256::Hash, String)>,
    ) -> Self {
        Self(Holdings::new(view, owner, scripts))
    }
}

#[Object]
impl LedgerFields {
    /// What the ledger received and spent over its whole history. All zeros if it was never used.
    pub(crate) async fn stats(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The state right after this block, without the mempool; the current state if not given.")]
        at: Option<BlockAt>,
    ) -> Option<Result<LedgerTotalsObject, ApiError>> {
        Some(self.0.stats(ctx, at))
    }

    /// The balance of the ledger. All zeros if it was never used.
    pub(crate) async fn balance(
        &self,
        #[graphql(desc = "The state right after this block, without the mempool; the current state if not given.")]
        at: Option<BlockAt>,
    ) -> Option<Result<Balance, ApiError>> {
        Some(self.0.balance(at))
    }

    /// The balance over time: a point for each period in which a transaction paid or spent the ledger, oldest first, with the
    /// balance at its end. At most `server.limits.pages.pointsPerSeries`; beyond it, give a range or a longer period. Example: `{ address(address:
    /// "bc1q…") { balanceHistory(range: { lastBlocks: 52560 }, group: DAY, includeEmpty: true) { startAt balanceAfter turnover {
    /// received spent } } } }`.
    #[graphql(
        complexity = "BlockRangeInput::series_cost(range, group, include_empty, child_complexity.saturating_add(1))"
    )]
    pub(crate) async fn balance_history(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The blocks. The whole chain if not given.")] range: Option<BlockRangeInput>,
        #[graphql(desc = "What a point stands for.", default_with = "Some(SeriesGroupEnum::Day)")] group: Option<
            SeriesGroupEnum,
        >,
        #[graphql(
            desc = "Whether to include the periods in which no transaction paid or spent the ledger: a point for each, as \
                    a chart needs; with `range.times` from its start to its end, but for what is before the \
                    genesis block and after the tip.",
            default_with = "Some(false)"
        )]
        include_empty: Option<bool>,
    ) -> Option<Result<List<BalancePoint>, ApiError>> {
        Some(self.0.balance_history(ctx, range, group, include_empty).map(List))
    }

    /// The unspent outputs, newest first: unconfirmed outputs by arrival in the mempool, then confirmed ones. With
    /// `at`, the server reads the history up to that block, so a page may have fewer items than requested, as with a
    /// filter.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    pub(crate) async fn utxos(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only outputs that meet all of these conditions.")] filter: Option<UtxoFilter>,
        #[graphql(
            desc = "The state right after this block, without the mempool; the current state if not given."
        )]
        at: Option<BlockAt>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<UtxoConnection, ApiError>> {
        Some(self.0.utxos(ctx, filter, at, &PageArgs { first, after, last, before }))
    }

    /// The transactions that pay or spend the ledger. Unconfirmed ones count as newer than all confirmed ones and are
    /// ordered by arrival in the mempool.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    pub(crate) async fn transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<LedgerFilter>,
        #[graphql(desc = "Whether the newest or the oldest come first.", default_with = "Some(SortOrder::Desc)")]
        order: Option<SortOrder>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<LedgerEntry>, ApiError>> {
        Some(self.0.transactions(ctx, filter, order, &PageArgs { first, after, last, before }))
    }

    /// The blocks whose coinbase pays the ledger, newest first.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    pub(crate) async fn coinbase_blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Block>, ApiError>> {
        Some(self.0.coinbase_blocks(ctx, &PageArgs { first, after, last, before }))
    }
}
