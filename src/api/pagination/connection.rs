//! Connections: a page of rows with a cursor each (Relay cursor connections specification).

use std::sync::Arc;

use async_graphql::{Context, OutputType, SimpleObject};
use bitcoin::BlockHash;

use super::cursor::{Cursor, RowPlace, Scope};
use super::page::{Cut, Page};
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Txid, UInt53};
use crate::api::types::block::{Block, SilentPaymentTweak};
use crate::api::types::chain::{ConflictedTransaction, DifficultyEpochObject, Reorg, ReorgBlock};
use crate::api::types::ledger::{DerivedAddress, LedgerEntry, Utxo};
use crate::api::types::mempool::{RbfNode, ScriptDelta};
use crate::api::types::psbt::{PsbtInput, PsbtOutput};
use crate::api::types::search_result::SearchResultUnion;
use crate::api::types::transaction::{Input, Output, Transaction};

/// Whether there are items before or after a page, and the cursors to continue with.
#[derive(Clone, Debug, SimpleObject)]
pub(crate) struct PageInfo {
    /// Whether there are items after this page; continue with `after: endCursor`. Only false marks the end of the list:
    /// with a filter, a page may have fewer items than requested, or none, while more items follow.
    has_next_page: bool,
    /// Whether there are items before this page; continue with `before: startCursor`.
    has_previous_page: bool,
    /// The cursor of the first item of this page. Null on an empty page. If a backward read stopped at a limit, the
    /// cursor of the last item read, even if a filter excludes it from the page.
    start_cursor: Option<Cursor>,
    /// The cursor of the last item of this page. Null on an empty page. If a forward read stopped at a limit, the
    /// cursor of the last item read, even if a filter excludes it from the page.
    end_cursor: Option<Cursor>,
}

impl FieldCacheability for PageInfo {
    const IMMUTABLE: &'static str = "hasNextPage hasPreviousPage startCursor endCursor";
}

/// An item of a page, with its cursor.
#[derive(Clone, SimpleObject)]
#[graphql(
    concrete(name = "TransactionEdge", params(Transaction)),
    concrete(name = "InputEdge", params(Input)),
    concrete(name = "OutputEdge", params(Output)),
    concrete(name = "BlockEdge", params(Block)),
    concrete(name = "ReorgEdge", params(Reorg)),
    concrete(name = "ReorgBlockEdge", params(ReorgBlock)),
    concrete(name = "ConflictedTransactionEdge", params(ConflictedTransaction)),
    concrete(name = "DifficultyEpochEdge", params(DifficultyEpochObject)),
    concrete(name = "TxidEdge", params(Txid)),
    concrete(name = "DerivedAddressEdge", params(DerivedAddress)),
    concrete(name = "RbfNodeEdge", params(RbfNode)),
    concrete(name = "ScriptDeltaEdge", params(ScriptDelta)),
    concrete(name = "SilentPaymentTweakEdge", params(SilentPaymentTweak)),
    concrete(name = "PsbtInputEdge", params(PsbtInput)),
    concrete(name = "PsbtOutputEdge", params(PsbtOutput)),
    concrete(name = "SearchResultEdge", params(SearchResultUnion)),
    concrete(name = "UtxoEdge", params(Utxo)),
    concrete(name = "LedgerEntryEdge", params(LedgerEntry))
)]
pub(crate) struct Edge<N: OutputType> {
    /// The cursor of this item. Pass it as `after` or `before` to continue from here. It is valid while the block that
    /// contains the item is on the main chain. The cursor of an unconfirmed item is valid while the item stays
    /// unconfirmed and no new block confirms other items of its list.
    cursor: Cursor,
    /// The item.
    node: N,
}

impl<N: OutputType> FieldCacheability for Edge<N> {
    const IMMUTABLE: &'static str = "cursor node";
}

/// A page of a list.
#[derive(SimpleObject)]
#[graphql(
    concrete(name = "TransactionConnection", params(Transaction)),
    concrete(name = "InputConnection", params(Input)),
    concrete(name = "OutputConnection", params(Output)),
    concrete(name = "BlockConnection", params(Block)),
    concrete(name = "ReorgConnection", params(Reorg)),
    concrete(name = "ReorgBlockConnection", params(ReorgBlock)),
    concrete(name = "ConflictedTransactionConnection", params(ConflictedTransaction)),
    concrete(name = "DifficultyEpochConnection", params(DifficultyEpochObject)),
    concrete(name = "TxidConnection", params(Txid)),
    concrete(name = "DerivedAddressConnection", params(DerivedAddress)),
    concrete(name = "RbfNodeConnection", params(RbfNode)),
    concrete(name = "ScriptDeltaConnection", params(ScriptDelta)),
    concrete(name = "SilentPaymentTweakConnection", params(SilentPaymentTweak)),
    concrete(name = "PsbtInputConnection", params(PsbtInput)),
    concrete(name = "PsbtOutputConnection", params(PsbtOutput)),
    concrete(name = "SearchResultConnection", params(SearchResultUnion)),
    concrete(name = "LedgerEntryConnection", params(LedgerEntry))
)]
pub(crate) struct Connection<N: OutputType>
where
    Edge<N>: OutputType,
{
    /// The items of this page with their cursors.
    pub(crate) edges: List<Edge<N>>,
    /// The items of this page.
    pub(crate) nodes: List<N>,
    /// Whether there are more items before or after this page, and the cursors to continue with.
    pub(crate) page_info: PageInfo,
    /// The number of items in the whole list, on all pages. Null where the server would have to read the list to count
    /// it: with a filter that it cannot seek, and for very long histories of several scripts.
    total_count: Option<UInt53>,
}

impl<N: OutputType> FieldCacheability for Connection<N>
where
    Edge<N>: OutputType,
{
    const IMMUTABLE: &'static str = "edges nodes pageInfo totalCount";
}

/// Whether `totalCount` is asked for of the connection that a field returns, under whatever name and in whatever fragment. Where
/// counting takes reading the list, a page without it need not do so.
pub(crate) fn asks_for_total_count(ctx: &Context<'_>) -> bool {
    ctx.look_ahead().field("totalCount").exists()
}

impl<N: OutputType + Clone> Connection<N>
where
    Edge<N>: OutputType,
{
    /// The connection of a page. `block` finds the block of the main chain that holds the row at a position (see
    /// [`Scope::cursor`]), `node` makes the node of a row.
    ///
    /// Errors: the first of these two.
    pub(crate) fn new<R>(
        scope: &Scope,
        page: Page<R>,
        total_count: Option<UInt53>,
        block: impl Fn(u64) -> Result<Option<BlockHash>, ApiError>,
        node: impl FnMut(u64, R) -> Result<N, ApiError>,
    ) -> Result<Self, ApiError> {
        let scope = Arc::new(scope.clone());
        let place = |position| Ok::<_, ApiError>(RowPlace { position, block: block(position)? });
        let cursor = |position| Ok(Cursor::OfRow(Arc::clone(&scope), place(position)?));
        Self::paged(page, total_count, cursor, node)
    }

    /// The same for a list with cursors of its own, which `cursor` writes.
    pub(crate) fn with_cursors<R, P: Copy>(
        page: Page<R, P>,
        total_count: Option<UInt53>,
        cursor: impl Fn(P) -> Result<String, ApiError>,
        node: impl FnMut(P, R) -> Result<N, ApiError>,
    ) -> Result<Self, ApiError> {
        Self::paged(page, total_count, |position| cursor(position).map(Cursor::Text), node)
    }

    fn paged<R, P: Copy>(
        page: Page<R, P>,
        total_count: Option<UInt53>,
        cursor: impl Fn(P) -> Result<Cursor, ApiError>,
        mut node: impl FnMut(P, R) -> Result<N, ApiError>,
    ) -> Result<Self, ApiError> {
        let edge = |(position, row)| Ok::<_, ApiError>(Edge { cursor: cursor(position)?, node: node(position, row)? });
        let edges = page.rows.into_iter().map(edge).collect::<Result<Vec<_>, _>>()?;
        let (mut start_cursor, mut end_cursor) =
            (edges.first().map(|edge| edge.cursor.clone()), edges.last().map(|edge| edge.cursor.clone()));
        match page.cut {
            Some(Cut::Front(position)) => start_cursor = Some(cursor(position)?),
            Some(Cut::Back(position)) => end_cursor = Some(cursor(position)?),
            None => {}
        }
        let page_info =
            PageInfo { has_next_page: page.has_next, has_previous_page: page.has_previous, start_cursor, end_cursor };
        let nodes = edges.iter().map(|edge| edge.node.clone()).collect::<Vec<_>>();
        Ok(Self { edges: edges.into(), nodes: nodes.into(), page_info, total_count })
    }
}
