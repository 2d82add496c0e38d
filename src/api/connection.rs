//! Connections: a page of rows with a cursor each (Relay cursor connections specification).

use async_graphql::{OutputType, SimpleObject};

use super::cursor::Scope;
use super::input::Input;
use super::output::Output;
use super::page::Window;
use super::scalars::UInt53;
use super::transaction::Transaction;

/// Whether there is more around a page, and the cursors to go on from.
#[derive(Clone, Debug, SimpleObject)]
pub(super) struct PageInfo {
    /// Whether there are rows behind this page: go on with `after: endCursor`.
    has_next_page: bool,
    /// Whether there are rows in front of this page: go on with `before: startCursor`.
    has_previous_page: bool,
    /// The cursor of the first row of this page; null on an empty page.
    start_cursor: Option<String>,
    /// The cursor of the last row of this page; null on an empty page.
    end_cursor: Option<String>,
}

/// A row of a page.
#[derive(Clone, SimpleObject)]
#[graphql(
    concrete(name = "TransactionEdge", params(Transaction)),
    concrete(name = "InputEdge", params(Input)),
    concrete(name = "OutputEdge", params(Output))
)]
pub(super) struct Edge<N: OutputType> {
    /// Where this row stands: give it as `after` or `before` to go on from here. It holds while the block that holds
    /// the row is on the main chain.
    cursor: String,
    /// The row itself.
    node: N,
}

/// A page of a list.
#[derive(SimpleObject)]
#[graphql(
    concrete(name = "TransactionConnection", params(Transaction, "Option<UInt53>")),
    concrete(name = "InputConnection", params(Input, i32)),
    concrete(name = "OutputConnection", params(Output, "Option<UInt53>"))
)]
pub(super) struct Connection<N: OutputType, C: OutputType>
where
    Edge<N>: OutputType,
{
    /// The rows of this page with their cursors.
    edges: Vec<Edge<N>>,
    /// The rows of this page.
    nodes: Vec<N>,
    /// Whether there is more around this page.
    page_info: PageInfo,
    /// How many rows the whole list has.
    total_count: C,
}

impl<N: OutputType + Clone, C: OutputType> Connection<N, C>
where
    Edge<N>: OutputType,
{
    /// The page of these rows, which are those of the window.
    pub(super) fn new(scope: &Scope, window: &Window, nodes: Vec<N>, total_count: C) -> Self {
        let edges: Vec<Edge<N>> = nodes
            .iter()
            .zip(window.rows.clone())
            .map(|(node, position)| Edge { cursor: scope.cursor(position), node: node.clone() })
            .collect();
        let page_info = PageInfo {
            has_next_page: window.has_next,
            has_previous_page: window.has_previous,
            start_cursor: edges.first().map(|edge| edge.cursor.clone()),
            end_cursor: edges.last().map(|edge| edge.cursor.clone()),
        };
        Self { edges, nodes, page_info, total_count }
    }
}
