//! The root of all queries, a file for each kind of thing that can be asked for.

mod blocks;
mod chain;
mod fees;
mod ledgers;
mod offered;
mod operations;
mod transactions;

use std::sync::Arc;

use async_graphql::{Context, MergedObject};

pub(super) use transactions::OutPointInput;

use super::error::ApiError;
use super::request::{Pinned, limits, pinned};
use super::running::Running;
use crate::view::{Published, View};

/// The fields to query. All fields of one request are answered from one state of the chain.
#[derive(MergedObject)]
pub(super) struct Query(
    blocks::BlockQuery,
    transactions::TransactionQuery,
    offered::OfferedQuery,
    ledgers::LedgerQuery,
    chain::ChainQuery,
    fees::FeeQuery,
    operations::OperationsQuery,
);

impl Query {
    pub(super) fn new(published: &Published, running: &Arc<Running>) -> Self {
        let root = Root { published: published.clone() };
        Self(
            blocks::BlockQuery(root.clone()),
            transactions::TransactionQuery(root.clone()),
            offered::OfferedQuery(root.clone()),
            ledgers::LedgerQuery(root.clone()),
            chain::ChainQuery(root.clone()),
            fees::FeeQuery(root.clone()),
            operations::OperationsQuery::new(root, running.clone()),
        )
    }
}

/// What was found for each item of a list, in its order: nothing where there is none.
type Found<T> = Vec<Option<Result<T, ApiError>>>;

/// What every part of the root stands on.
#[derive(Clone)]
struct Root {
    published: Published,
}

impl Root {
    /// The view that this request is answered from. Errors: NOT_READY while the index is not ready.
    fn view(&self, ctx: &Context<'_>) -> Result<Arc<View>, ApiError> {
        self.pinned(ctx)?.view()
    }

    /// What this request is answered from, also while the index is not ready.
    fn pinned(&self, ctx: &Context<'_>) -> Result<Pinned, ApiError> {
        pinned(ctx, &self.published)
    }

    /// The same for a field with a list of this many ids, hashes or outpoints. Errors: QUERY_LIMIT_EXCEEDED.
    fn view_of_list(&self, ctx: &Context<'_>, count: usize) -> Result<Arc<View>, ApiError> {
        limits(ctx)?.check_ids(count)?;
        self.view(ctx)
    }
}
