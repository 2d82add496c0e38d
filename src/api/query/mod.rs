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

/// The fields to query. All fields of one request are answered from one state of the chain.
#[derive(MergedObject)]
pub(crate) struct Query(
    blocks::BlockQuery,
    transactions::TransactionQuery,
    op_returns::OpReturnQuery,
    dry_run::DryRunQuery,
    decode::DecodeQuery,
    ledgers::LedgerQuery,
    accounts::AccountQuery,
    search::SearchQuery,
    chain::ChainQuery,
    fees::FeeQuery,
    operations::OperationsQuery,
    rates::RateQuery,
);

impl Query {
    pub(crate) fn new(published: &Published, serving: &Arc<ServingContext>) -> Self {
        let root = QueryRoot { published: published.clone() };
        Self(
            blocks::BlockQuery(root.clone()),
            transactions::TransactionQuery(root.clone()),
            op_returns::OpReturnQuery(root.clone()),
            dry_run::DryRunQuery(root.clone()),
            decode::DecodeQuery::new(root.clone()),
            ledgers::LedgerQuery(root.clone()),
            accounts::AccountQuery { root: root.clone(), serving: serving.clone() },
            search::SearchQuery { root: root.clone(), serving: serving.clone() },
            chain::ChainQuery(root.clone()),
            fees::FeeQuery(root.clone()),
            operations::OperationsQuery::new(root, serving.clone()),
            rates::RateQuery,
        )
    }
}
