//! The root of all queries, a file for each kind of thing that can be asked for.

mod accounts;
mod blocks;
mod chain;
mod decode;
mod dry_run;
mod fees;
mod ledgers;
mod op_returns;
mod operations;
mod rates;
mod root;
mod search;
mod search_place;
mod search_terms;
mod transactions;

use std::sync::Arc;

use async_graphql::MergedObject;
use root::QueryRoot;

use super::context::ServingContext;
use crate::view::Published;

pub(crate) use accounts::AccountQuery;
pub(crate) use blocks::BlockQuery;
pub(crate) use chain::ChainQuery;
pub(crate) use decode::DecodeQuery;
pub(crate) use dry_run::DryRunQuery;
pub(crate) use fees::FeeQuery;
pub(crate) use ledgers::LedgerQuery;
pub(crate) use op_returns::OpReturnQuery;
pub(crate) use operations::OperationsQuery;
pub(crate) use rates::RateQuery;
pub(crate) use search::SearchQuery;
pub(crate) use transactions::TransactionQuery;

/// The fields to query. All fields of one request are answered from one state of the chain.
#[derive(MergedObject)]
pub(crate) struct Query(
    BlockQuery,
    TransactionQuery,
    OpReturnQuery,
    DryRunQuery,
    DecodeQuery,
    LedgerQuery,
    AccountQuery,
    SearchQuery,
    ChainQuery,
    FeeQuery,
    OperationsQuery,
    RateQuery,
);

impl Query {
    pub(crate) fn new(published: &Published, serving: &Arc<ServingContext>) -> Self {
        let root = QueryRoot { published: published.clone() };
        Self(
            BlockQuery(root.clone()),
            TransactionQuery(root.clone()),
            OpReturnQuery(root.clone()),
            DryRunQuery(root.clone()),
            DecodeQuery::new(root.clone()),
            LedgerQuery(root.clone()),
            AccountQuery { root: root.clone(), serving: serving.clone() },
            SearchQuery { root: root.clone(), serving: serving.clone() },
            ChainQuery(root.clone()),
            FeeQuery(root.clone()),
            OperationsQuery::new(root, serving.clone()),
            RateQuery,
        )
    }
}
