//! The history of a ledger, page by page.

use std::ops::Range;

use async_graphql::{Context, Enum, InputObject, Object};

use super::super::block_at::Between;
use super::super::connection::Connection;
use super::super::cursor::Scope;
use super::super::enums::SortOrder;
use super::super::error::ApiError;
use super::super::page::{self, PageArgs, txnum_at};
use super::super::request::limits;
use super::super::scalars::{DateTime, Sats, SignedSats, UInt53};
use super::super::transaction::Transaction;
use super::{Holdings, ROW_BYTES};
use crate::view::{Movement, TxNum, View};

/// How many scripts of a ledger a transaction is taken to touch; one that pays out to a set can touch thousands.
const TOUCHED: usize = 4;

/// Which way coins go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(in crate::api) enum Direction {
    /// Transactions with an output to the ledger, change included.
    In,
    /// Transactions that spend an output of the ledger.
    Out,
    /// All transactions.
    #[default]
    Both,
}

/// Which transactions of a ledger to tell: those that meet all of these conditions. Heights and times are found at
/// once; for the others rows are read one by one, at most `server.limits.scanRows` a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, InputObject)]
pub(in crate::api) struct LedgerFilter {
    /// Only transactions that move coins this way.
    #[graphql(default_with = "Some(Direction::Both)")]
    direction: Option<Direction>,
    /// Only transactions in blocks at this height or above.
    from_height: Option<i32>,
    /// Only transactions in blocks at this height or below, which may be above the tip.
    to_height: Option<i32>,
    /// Only transactions in blocks whose median time past is at this moment or after it.
    from_time: Option<DateTime>,
    /// Only transactions in blocks whose median time past is at this moment or before it.
    to_time: Option<DateTime>,
    /// Only transactions by which what the ledger holds grows or shrinks by at least this many satoshis.
    min_abs_net: Option<Sats>,
    /// Only coinbases that pay the ledger.
    #[graphql(default_with = "Some(false)")]
    coinbase_only: Option<bool>,
}

impl LedgerFilter {
    /// The filter that is meant: null is the default.
    fn of(given: Option<Self>) -> Self {
        let given = given.unwrap_or_default();
        Self { direction: Some(given.direction()), coinbase_only: Some(given.is_coinbase_only()), ..given }
    }

    fn direction(&self) -> Direction {
        self.direction.unwrap_or_default()
    }

    fn is_coinbase_only(&self) -> bool {
        self.coinbase_only.unwrap_or_default()
    }

    /// Whether rows are left out that lie between others.
    fn scans(&self) -> bool {
        self.direction() != Direction::Both || self.min_abs_net.is_some() || self.is_coinbase_only()
    }

    fn keeps(&self, movement: &Movement) -> bool {
        let right_way = match self.direction() {
            Direction::In => movement.pays,
            Direction::Out => movement.spends,
            Direction::Both => true,
        };
        let large_enough =
            self.min_abs_net.is_none_or(|least| movement.net().unsigned_abs() >= u128::from(least.to_sat()));
        right_way && large_enough && (movement.is_coinbase || !self.is_coinbase_only())
    }

    /// The transactions that the heights and times leave.
    fn txnums(&self, view: &View) -> Result<Range<TxNum>, ApiError> {
        let Self { from_height, to_height, from_time, to_time, .. } = *self;
        Ok(view.txnums(Between { from_height, to_height, from_time, to_time }.heights(view)?)?)
    }
}

/// A transaction, as far as it concerns a ledger.
#[derive(Clone)]
pub(in crate::api) struct LedgerEntry {
    holdings: Holdings,
    movement: Movement,
}

/// A transaction that paid or spent a ledger, and what it did to it.
#[Object]
impl LedgerEntry {
    /// The transaction. Of a txid that the chain holds twice (BIP30) the later copy, whichever of them this is.
    async fn transaction(&self) -> Result<Transaction, ApiError> {
        let view = &self.holdings.view;
        Ok(Transaction::new(view, Transaction::read_one(view, |view| view.newest_copy(self.movement.txnum))?))
    }

    /// By how many satoshis the ledger grew, or shrank: received minus spent.
    async fn net(&self) -> Result<SignedSats, ApiError> {
        SignedSats::new(self.movement.net())
    }

    /// The sum of its outputs to the ledger, change included, in satoshis. What they overwrite (BIP30) is taken off.
    async fn received(&self) -> Result<Sats, ApiError> {
        Sats::new(self.movement.received)
    }

    /// The sum of the ledger's outputs that it spends, in satoshis.
    async fn spent(&self) -> Result<Sats, ApiError> {
        Sats::new(self.movement.spent)
    }

    /// What the ledger held right after it, in satoshis.
    async fn balance_after(&self) -> Option<Result<Sats, ApiError>> {
        Some(Sats::new(self.movement.balance_after))
    }

    /// Whether it both spends outputs of the ledger and pays it: change, or coins that only moved.
    async fn sent_to_self(&self) -> bool {
        self.movement.pays && self.movement.spends
    }

    /// The addresses of the ledger that it paid or spent, in alphabetical order; of a script without address the
    /// scriptPubKey in hexadecimal digits.
    #[graphql(complexity = "page::list_cost(TOUCHED, 1)")]
    async fn touched(&self) -> Vec<String> {
        let names = self.movement.scripts.iter().filter_map(|script| self.holdings.name(*script));
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        // the ledger's own order follows from the salt of this index
        names.sort_unstable();
        names
    }
}

impl Holdings {
    /// A page of the transactions that paid or spent the ledger.
    pub(super) fn transactions(
        &self,
        ctx: &Context<'_>,
        filter: Option<LedgerFilter>,
        order: Option<SortOrder>,
        args: &PageArgs,
    ) -> Result<Connection<LedgerEntry, Option<UInt53>>, ApiError> {
        let (filter, order) = (LedgerFilter::of(filter), order.unwrap_or(SortOrder::Desc));
        let scope = Scope::new("transactions", self.owner.clone()).filtered(format!("{filter:?} {order:?}"));
        let request = args.read(&scope, &self.view, limits(ctx)?)?;
        self.count_scripts()?;
        let txnums = filter.txnums(&self.view)?;
        let walk = request.walk(u64::from(txnums.start.0)..u64::from(txnums.end.0), order);
        let within = txnum_at(walk.positions.start)?..txnum_at(walk.positions.end)?;
        let rows = self.view.movements(&self.ledger, &within, walk.ascending)?.map(|movement| {
            let movement = movement?;
            // a row of each script that the transaction touched
            self.view.count(ROW_BYTES.saturating_mul(movement.scripts.len()))?;
            let kept = filter.keeps(&movement);
            Ok::<_, ApiError>((movement.txnum.0.into(), kept.then_some(movement)))
        });
        let scan_rows = limits(ctx)?.scan_rows;
        let page = request.page(|read| filter.scans() && read >= scan_rows, rows)?;
        let counted = if filter.scans() { None } else { self.count_movements(&txnums, scan_rows)? };
        let held_by = |position| Ok(Some(self.view.block_hash_of(txnum_at(position)?)?));
        let total_count = counted.map(|counted| counted.transactions.into());
        Connection::new(&scope, page, total_count, held_by, |_, movement| {
            Ok(LedgerEntry { holdings: self.clone(), movement })
        })
    }
}
