//! OP_RETURN outputs by the beginning of their data.

use std::cell::Cell;
use std::sync::Arc;

use async_graphql::{Context, Object};

use super::root::QueryRoot;
use crate::api::allowance::read_transaction;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::{ApiError, in_bytes};
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::Hex;
use crate::api::types::block::BlockRangeInput;
use crate::api::types::enums::SortOrder;
use crate::api::types::transaction::{Output, SCAN_BYTES, begins_with};
use crate::view::{Dependency, IndexError, OpReturnPosition, SHORTEST_DATA, TxNum};

/// Bits of the number of an output in its transaction.
const VOUT_BITS: u32 = 24;

/// Finds OP_RETURN outputs.
pub(crate) struct OpReturnQuery(pub(crate) QueryRoot);

/// The position of an output in the chain, in the order of the chain.
fn position_of(txnum: TxNum, vout: u32) -> u64 {
    u64::from(txnum.0) << VOUT_BITS | u64::from(vout)
}

/// The transaction at or before a position; the last beyond all.
fn txnum_of(position: u64) -> TxNum {
    TxNum(u32::try_from(position >> VOUT_BITS).unwrap_or(u32::MAX))
}

impl OpReturnQuery {
    fn page(
        &self,
        ctx: &Context<'_>,
        prefix: &Hex,
        range: Option<BlockRangeInput>,
        order: SortOrder,
        args: &PageArgs,
    ) -> Result<Connection<Output>, ApiError> {
        let prefix = prefix.as_bytes();
        if prefix.len() < SHORTEST_DATA {
            let message = format!("has {}: give at least {SHORTEST_DATA}", in_bytes(prefix.len()));
            return Err(ApiError::bad_argument("prefix", message));
        }
        let (view, limits) = (self.0.view(ctx)?, limits(ctx)?);
        let scope = Scope::new("opReturns", "Query".to_owned()).filtered(format!("{order:?} {range:?} {prefix:?}"));
        // where such a page ends is for the server's settings to say
        view.read_set().depends_on(Dependency::Chain);
        let txnums = view.txnums(BlockRangeInput::heights("range", range, &view)?)?;
        let request = args.read(&scope, &view, limits)?;
        let walk = request.walk(position_of(txnums.start, 0)..position_of(txnums.end, 0), order);
        // the page may begin and end within a transaction
        let (first, last) = (txnum_of(walk.positions.start), txnum_of(walk.positions.end));
        let found = view.op_returns(prefix, &(first..TxNum(last.0.saturating_add(1)).min(txnums.end)))?;
        let is_beyond = |found: &Result<OpReturnPosition, IndexError>| {
            let position = found.as_ref().ok().map(|found| position_of(found.txnum, found.vout));
            position.is_some_and(|position| !walk.positions.contains(&position))
        };
        let found = found.filter(|found| !is_beyond(found));
        let bytes = Cell::new(0_usize);
        let row = |found: Result<OpReturnPosition, IndexError>| -> Result<_, ApiError> {
            let OpReturnPosition { txnum, vout, may_match } = found?;
            let position = position_of(txnum, vout);
            if !may_match {
                return Ok((position, None));
            }
            let left = view.bytes_left();
            let transaction = Arc::new(read_transaction(&view, |view| view.newest_copy(txnum))?);
            bytes.set(bytes.get().saturating_add(left.saturating_sub(view.bytes_left())));
            let missing = || ApiError::internal(&format!("there is no output {vout} of transaction {txnum}"));
            let output = Output::of(&view, &transaction, vout).ok_or_else(missing)?;
            let is_match = begins_with(output.part()?.script_pubkey, prefix);
            Ok((position, is_match.then_some(output)))
        };
        let enough = |rows| rows >= limits.scan_rows || bytes.get() > SCAN_BYTES;
        let page = if walk.ascending {
            request.page(enough, costs::charged_rows(ctx, Some(1), found.map(row)))?
        } else {
            request.page(enough, costs::charged_rows(ctx, Some(1), found.rev().map(row)))?
        };
        let held_by = |position| Ok(Some(view.block_hash_of(txnum_of(position))?));
        Connection::new(&scope, page, None, held_by, |_, output| Ok(output))
    }
}

impl FieldCacheability for OpReturnQuery {
    const BY_ARGUMENT: &'static str = "opReturns";
}

#[Object]
impl OpReturnQuery {
    /// The OP_RETURN outputs of the main chain whose pushed data, concatenated, begins with these bytes. Only with the feature
    /// OP_RETURNS of `server.features`: without it FEATURE_DISABLED, and NOT_READY while the server still builds what it
    /// needs for it. A page reads at most `server.limits.pages.scanRows` outputs with the same first three bytes, and may
    /// have fewer items than asked for; its cursor goes on behind them. Each of these outputs costs 1, whether it is returned or
    /// not.
    /// Example: `{ opReturns(prefix: "6f6d6e69", first: 5) { nodes { outpoint { text } opReturn { pushes } transaction {
    /// block { height } } } } }`.
    #[graphql(complexity = "costs::page(first, last, child_complexity).saturating_add(costs::SCANNED_ROWS)")]
    async fn op_returns(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The first bytes of the data, at least 3.")] prefix: Hex,
        #[graphql(desc = "Only outputs in these blocks. Heights may be above the tip.")] range: Option<BlockRangeInput>,
        #[graphql(desc = "Whether the newest or the oldest come first.", default_with = "Some(SortOrder::Desc)")]
        order: Option<SortOrder>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Output>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(self.page(ctx, &prefix, range, order.unwrap_or(SortOrder::Desc), &args))
    }
}
