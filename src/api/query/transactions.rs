//! Transactions and their outputs.

use std::sync::Arc;

use async_graphql::{Context, Object};

use super::root::{LookedUp, QueryRoot};
use crate::api::allowance::{find_transaction, read_transaction};
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::page::{PageArgs, txnum_at};
use crate::api::scalars::{Txid, UInt53, Wtxid};
use crate::api::types::block::BlockRangeInput;
use crate::api::types::enums::SortOrder;
use crate::api::types::transaction::{OutPointInput, Output, Transaction, TransactionFilter, filtered};
use crate::view::{Dependency, TxNum, View};

/// Finds transactions.
pub(crate) struct TransactionQuery(pub(crate) QueryRoot);

impl TransactionQuery {
    fn find(
        &self,
        ctx: &Context<'_>,
        txid: Option<Txid>,
        wtxid: Option<Wtxid>,
    ) -> Result<Option<Transaction>, ApiError> {
        let view = self.0.view(ctx)?;
        match (txid, wtxid) {
            (Some(txid), None) => by_txid(&view, txid),
            (None, Some(wtxid)) => {
                let found = find_transaction(&view, |view| view.transaction_by_wtxid(&wtxid.0))?;
                Ok(found.map(|transaction| Transaction::new(&view, transaction)))
            }
            _ => Err(ApiError::not_exactly_one(&[("txid", txid.is_some()), ("wtxid", wtxid.is_some())])),
        }
    }

    fn find_by_index(&self, ctx: &Context<'_>, index: UInt53) -> Result<Option<Transaction>, ApiError> {
        let view = self.0.view(ctx)?;
        // no chain has as many transactions as 32 bits can count
        let Ok(txnum) = u32::try_from(index.to_u64()).map(TxNum) else { return Ok(None) };
        let found = find_transaction(&view, |view| view.transaction_by_index(txnum))?;
        Ok(found.map(|transaction| Transaction::new(&view, transaction)))
    }

    fn page(
        &self,
        ctx: &Context<'_>,
        order: SortOrder,
        range: Option<BlockRangeInput>,
        args: &PageArgs,
        filter: Option<TransactionFilter>,
    ) -> Result<Connection<Transaction>, ApiError> {
        let view = self.0.view(ctx)?;
        let scope = Scope::new("transactions", "Query".to_owned()).filtered(format!("{order:?} {range:?}"));
        let txnums = view.txnums(BlockRangeInput::heights("range", range, &view)?)?;
        let held_by = |position| Ok(Some(view.block_hash_of(txnum_at(position)?)?));
        let positions = txnums.start.0.into()..txnums.end.0.into();
        if let Some(filter) = TransactionFilter::checked(filter)? {
            // where such a page ends is for the server's settings to say
            view.read_set().depends_on(Dependency::Chain);
            let (scope, limits) = (scope.filtered(format!("{order:?} {range:?} {filter:?}")), limits(ctx)?);
            let request = args.read(&scope, &view, limits)?;
            let page = filtered(ctx, &request, positions, order, limits, |position| {
                let txnum = txnum_at(position)?;
                let left = view.bytes_left();
                let found = Transaction::new(&view, read_transaction(&view, |view| view.newest_copy(txnum))?);
                let meets = found.meets(ctx, &filter)?;
                Ok((left.saturating_sub(view.bytes_left()), meets.then_some(found)))
            })?;
            return Connection::new(&scope, page, None, held_by, |_, found| Ok(found));
        }
        let page = args.read(&scope, &view, limits(ctx)?)?.of(positions, order);
        let count = UInt53::from(txnums.end.0 - txnums.start.0);
        Connection::new(&scope, page, Some(count), held_by, |position, ()| {
            let txnum = txnum_at(position)?;
            Ok(Transaction::new(&view, read_transaction(&view, |view| view.newest_copy(txnum))?))
        })
    }
}

fn by_txid(view: &Arc<View>, txid: Txid) -> Result<Option<Transaction>, ApiError> {
    let found = find_transaction(view, |view| view.transaction(&txid.0))?;
    Ok(found.map(|transaction| Transaction::new(view, transaction)))
}

fn by_outpoint(view: &Arc<View>, argument: &str, outpoint: OutPointInput) -> Result<Option<Output>, ApiError> {
    Output::find(view, outpoint.outpoint(argument)?)
}

impl FieldCacheability for TransactionQuery {
    const IMMUTABLE_IF_FOUND: &'static str =
        "transaction transactionsByTxid transactionByIndex output outputsByOutpoint";
    const BY_ARGUMENT: &'static str = "transactions";
}

#[Object]
impl TransactionQuery {
    /// A transaction by its txid or wtxid. Give exactly one of the two. Null if the transaction is neither in the mempool nor
    /// in a block that this server knows. By its txid a transaction that left the mempool recently is still found while the
    /// server stores its bytes. By its wtxid only transactions in the mempool and on the main chain are found, the latter
    /// with the feature WTXIDS of `server.features`: without it, a wtxid that is not in the mempool is FEATURE_DISABLED, and
    /// NOT_READY while the server still builds what it needs for it.
    /// Example: `{ transaction(txid: "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16") { state fee block
    /// { height } outputs { nodes { address value } } } }`.
    async fn transaction(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The txid of the transaction.")] txid: Option<Txid>,
        #[graphql(desc = "The wtxid of the transaction.")] wtxid: Option<Wtxid>,
    ) -> Option<Result<Transaction, ApiError>> {
        self.find(ctx, txid, wtxid).transpose()
    }

    /// Transactions by their txids, in the given order. Null for each that `transaction` does not find.
    /// As many as are asked for.
    /// Example: `{ transactionsByTxid(txids: ["f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16"]) { txid
    /// state confirmations } }`.
    #[graphql(complexity = "costs::list(txids.len(), child_complexity.saturating_add(1))")]
    async fn transactions_by_txid(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The txids, at most `server.limits.pages.idsPerList`.")] txids: Vec<Txid>,
    ) -> Option<Result<LookedUp<Transaction>, ApiError>> {
        let view = match self.0.view_of_list(ctx, "txids", txids.len()) {
            Ok(view) => view,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(txids.into_iter().map(|txid| by_txid(&view, txid).transpose()).collect()))
    }

    /// The transaction at a position of the main chain. 0 is the coinbase of the genesis block. Null beyond the last.
    /// For a txid that occurs twice on the main chain (BIP30), only this field distinguishes the occurrences.
    /// Example: `{ transactionByIndex(index: 0) { txid block { height } } }`.
    async fn transaction_by_index(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The position, from 0.")] index: UInt53,
    ) -> Option<Result<Transaction, ApiError>> {
        self.find_by_index(ctx, index).transpose()
    }

    /// The transactions of the main chain, block by block, in block order.
    /// Example: `{ transactions(range: { lastBlocks: 6 }, first: 10) { nodes { txid totalOutputValue } } }`.
    #[graphql(
        complexity = "costs::worst_scan(filter.is_some_and(|filter| filter.leaves_out()), costs::SCANNED_ROWS).saturating_add(costs::page(first, last, child_complexity))"
    )]
    async fn transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<TransactionFilter>,
        #[graphql(desc = "Only transactions in these blocks. Heights may be above the tip.")] range: Option<
            BlockRangeInput,
        >,
        #[graphql(desc = "Whether the newest or the oldest come first.", default_with = "Some(SortOrder::Desc)")]
        order: Option<SortOrder>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Transaction>, ApiError>> {
        Some(self.page(ctx, order.unwrap_or(SortOrder::Desc), range, &PageArgs { first, after, last, before }, filter))
    }

    /// An output. Null if `transaction` does not find its transaction, or if the transaction has no such output.
    /// Example: `{ output(txid: "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16", vout: 0) { value
    /// address spendStatus } }`.
    async fn output(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The txid of the transaction.")] txid: Txid,
        #[graphql(desc = "The index of the output, from 0.")] vout: i32,
    ) -> Option<Result<Output, ApiError>> {
        self.0.view(ctx).and_then(|view| by_outpoint(&view, "vout", OutPointInput { txid, vout })).transpose()
    }

    /// Outputs by their outpoints, in the given order. Null for each that does not exist. As many as are asked for.
    /// Example: `{ outputsByOutpoint(outpoints: [{ txid:
    /// "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16", vout: 0 }]) { value spendStatus } }`.
    #[graphql(complexity = "costs::list(outpoints.len(), child_complexity.saturating_add(1))")]
    async fn outputs_by_outpoint(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The outpoints, at most `server.limits.pages.idsPerList`.")] outpoints: Vec<OutPointInput>,
    ) -> Option<Result<LookedUp<Output>, ApiError>> {
        let view = match self.0.view_of_list(ctx, "outpoints", outpoints.len()) {
            Ok(view) => view,
            Err(error) => return Some(Err(error)),
        };
        let find = |(place, outpoint): (usize, OutPointInput)| {
            by_outpoint(&view, &format!("outpoints[{place}].vout"), outpoint).transpose()
        };
        Some(Ok(outpoints.into_iter().enumerate().map(find).collect()))
    }
}
