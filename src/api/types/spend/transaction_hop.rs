//! Transactions that are connected with one by spending: from which its coins come, and where they go.

use std::collections::HashSet;
use std::sync::Arc;

use async_graphql::{Context, SimpleObject};
use bitcoin::OutPoint;

use crate::api::allowance::{find_transaction, read_transaction};
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::page::{count_of, list_size};
use crate::api::scalars::{Sats, int_of};
use crate::api::types::transaction::{OutPointObject, Transaction};
use crate::view::{self, View};

/// A transaction that is connected with another by spending, over one or more hops.
#[derive(Clone, SimpleObject)]
pub(crate) struct TransactionHop {
    /// The transaction.
    transaction: Transaction,
    /// The number of hops to it, from 1. A transaction that is connected in several ways has the lowest.
    depth: i32,
    /// The output of the last hop, the first one if there are several: of an ancestor its own output that is spent; of a
    /// descendant the output that it spends.
    outpoint: OutPointObject,
    /// The value of that output, in satoshis.
    value: Sats,
}

impl FieldCacheability for TransactionHop {
    const IMMUTABLE: &'static str = "transaction depth outpoint value";
}

/// Which way to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HopDirection {
    /// To the transactions that create what is spent.
    Ancestors,
    /// To the transactions that spend the outputs.
    Descendants,
}

type Hop = (OutPoint, Arc<view::Transaction>);

/// The transactions within so many hops, the nearest first, at most `first`.
///
/// Errors: BAD_USER_INPUT for a negative number; QUERY_LIMIT_EXCEEDED beyond a page, and for transactions with too many inputs
/// or outputs to look at.
pub(crate) fn hops(
    ctx: &Context<'_>,
    view: &Arc<View>,
    start: &Arc<view::Transaction>,
    direction: HopDirection,
    (depth, first): (i32, i32),
) -> Result<Vec<TransactionHop>, ApiError> {
    let (depth, size) = (count_of("depth", depth)?, list_size(limits(ctx)?, first)?);
    let mut seen = HashSet::from([start.txid]);
    let (mut level, mut found) = (vec![Arc::clone(start)], Vec::new());
    for depth in 1..=depth {
        let mut next: Vec<Arc<view::Transaction>> = Vec::new();
        for transaction in &level {
            let count = match direction {
                HopDirection::Ancestors => transaction.parts.input.len(),
                HopDirection::Descendants => transaction.parts.output.len(),
            };
            for index in 0..count {
                if found.len() >= size {
                    return Ok(found);
                }
                costs::spend(ctx, 1)?;
                let hop = match direction {
                    HopDirection::Ancestors => parent(view, transaction, index, &seen)?,
                    HopDirection::Descendants => child(view, transaction, index)?,
                };
                let Some((outpoint, reached)) = hop.filter(|(_, reached)| seen.insert(reached.txid)) else { continue };
                let funding = match direction {
                    HopDirection::Ancestors => &reached,
                    HopDirection::Descendants => transaction,
                };
                found.push(TransactionHop {
                    transaction: Transaction::new(view, reached.clone()),
                    depth: int_of(depth)?,
                    outpoint: OutPointObject::new(outpoint)?,
                    value: value_of(funding, outpoint)?,
                });
                next.push(reached);
            }
        }
        // each level has at least one transaction, so the size of the list bounds the depth, too
        if next.is_empty() {
            break;
        }
        level = next;
    }
    Ok(found)
}

/// The value of an output of this transaction.
fn value_of(funding: &view::Transaction, outpoint: OutPoint) -> Result<Sats, ApiError> {
    let output =
        funding.output(outpoint.vout).ok_or_else(|| ApiError::internal("an output that is spent does not exist"))?;
    Sats::new(output.value.to_sat())
}

/// The transaction whose output an input spends, if it is known and was not seen before.
fn parent(
    view: &View,
    transaction: &view::Transaction,
    vin: usize,
    seen: &HashSet<bitcoin::Txid>,
) -> Result<Option<Hop>, ApiError> {
    let outpoint = transaction.parts.input.get(vin).map(|input| input.previous_output);
    let Some(outpoint) = outpoint.filter(|outpoint| !outpoint.is_null() && !seen.contains(&outpoint.txid)) else {
        return Ok(None);
    };
    let found = find_transaction(view, |view| view.transaction(&outpoint.txid))?;
    Ok(found.map(|found| (outpoint, Arc::new(found))))
}

/// The transaction that spends an output, on the main chain or in the mempool.
fn child(view: &View, transaction: &view::Transaction, vout: usize) -> Result<Option<Hop>, ApiError> {
    let vout = u32::try_from(vout).map_err(|_| ApiError::internal("a transaction has too many outputs"))?;
    let outpoint = OutPoint { txid: transaction.txid, vout };
    if let Some(spender) = view.spender(transaction, vout)? {
        let found = read_transaction(view, |view| view.spending_transaction(spender))?;
        return Ok(Some((outpoint, Arc::new(found))));
    }
    let Some((entry, _)) = view.spender_in_mempool(transaction, vout) else { return Ok(None) };
    let found = find_transaction(view, |view| Ok(view.unconfirmed(&entry)))?;
    Ok(found.map(|found| (outpoint, Arc::new(found))))
}
