//! The history of a ledger, page by page, with what waits in the mempool at its new end.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use async_graphql::{Context, Enum, InputObject, Object};

use super::holdings::{Holdings, ROW_BYTES};
use crate::api::allowance::{find_transaction, newest_copy_together};
use crate::api::context::limits;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::{Connection, asks_for_total_count};
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::page::{PageArgs, txnum_at};
use crate::api::pagination::pending_list::{ListPosition, PendingListWalk, PendingRow};
use crate::api::scalars::{DateTime, Sats, SignedSats, UInt53};
use crate::api::types::block::BlockRangeInput;
use crate::api::types::enums::SortOrder;
use crate::api::types::filter_rules::check_not_both;
use crate::api::types::rates::CurrencyValue;
use crate::api::types::transaction::{Input, Output, Transaction};
use crate::view::{self, LostMovement, Movement, PendingMovement, ScriptKey, TxNum, View};

/// How many scripts of a ledger a transaction is taken to touch; one that pays out to a set can touch thousands.
pub(super) const TOUCHED: usize = 4;

/// The direction of a ledger transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(crate) enum Direction {
    /// Transactions with an output to the ledger, including change.
    In,
    /// Transactions that spend an output of the ledger.
    Out,
    /// All transactions.
    #[default]
    Both,
}

/// Conditions on the transactions of a ledger; a transaction must meet all of them. A range of blocks uses the index.
/// The other conditions scan row by row, at most `server.limits.pages.scanRows` rows per page; three rows that are read cost 1,
/// whether they are returned or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, InputObject)]
pub(crate) struct LedgerFilter {
    /// Only transactions in this direction.
    #[graphql(default_with = "Some(Direction::Both)")]
    direction: Option<Direction>,
    /// Only transactions in these blocks. A range with a last height, which may be above the tip, or a last time excludes
    /// unconfirmed transactions.
    range: Option<BlockRangeInput>,
    /// Only transactions that change the balance by at least this many satoshis in either direction.
    min_abs_net: Option<Sats>,
    /// Whether to include mempool transactions.
    #[graphql(default_with = "Some(true)")]
    include_mempool: Option<bool>,
    /// Only coinbases that pay the ledger. They spend nothing, so `direction: OUT` with it is BAD_USER_INPUT.
    #[graphql(default_with = "Some(false)")]
    coinbase_only: Option<bool>,
}

impl LedgerFilter {
    /// The filter that is meant: null is the default. Errors: BAD_USER_INPUT for conditions that no transaction can meet.
    fn of(given: Option<Self>) -> Result<Self, ApiError> {
        let given = given.unwrap_or_default();
        let excludes = given.is_coinbase_only() && given.direction() == Direction::Out;
        check_not_both(excludes, ("coinbaseOnly", true), ("direction", "OUT"), "a coinbase spends nothing")?;
        Ok(Self {
            direction: Some(given.direction()),
            include_mempool: Some(given.include_mempool.unwrap_or(true)),
            coinbase_only: Some(given.is_coinbase_only()),
            ..given
        })
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

    /// Whether it leaves transactions of the mempool, none of which is in a block or a coinbase.
    fn leaves_waiting(&self) -> bool {
        let ends = self.range.is_some_and(|range| range.has_end());
        self.include_mempool != Some(false) && !ends && !self.is_coinbase_only()
    }

    fn keeps(&self, moved: &EntryMovement) -> bool {
        let (pays, spends) = moved.ways();
        let right_way = match self.direction() {
            Direction::In => pays,
            Direction::Out => spends,
            Direction::Both => true,
        };
        let large_enough =
            self.min_abs_net.is_none_or(|least| moved.net().unsigned_abs() >= u128::from(least.to_sat()));
        right_way && large_enough && (moved.is_coinbase() || !self.is_coinbase_only())
    }

    /// The transactions within the range.
    fn txnums(&self, view: &View) -> Result<Range<TxNum>, ApiError> {
        Ok(view.txnums(BlockRangeInput::heights("filter.range", self.range, view)?)?)
    }
}

/// A transaction, as far as it concerns a ledger.
#[derive(Clone)]
pub(crate) struct LedgerEntry {
    holdings: Holdings,
    moved: EntryMovement,
}

/// What a transaction did or is about to do to a ledger.
#[derive(Clone)]
enum EntryMovement {
    Confirmed(Movement),
    Pending {
        movement: PendingMovement,
        /// What the ledger holds where the page begins.
        begin: Arc<PageStart>,
        /// By how much that differs from what it holds after this transaction, in sat.
        since: i128,
    },
    /// It is not where it did that any more.
    Lost(LostMovement),
}

impl EntryMovement {
    fn net(&self) -> i128 {
        match self {
            Self::Confirmed(movement) => movement.net(),
            Self::Pending { movement, .. } => movement.net(),
            Self::Lost(movement) => movement.net(),
        }
    }

    /// What it received and spent.
    fn sums(&self) -> (u64, u64) {
        match self {
            Self::Confirmed(movement) => (movement.received, movement.spent),
            Self::Pending { movement, .. } => (movement.received, movement.spent),
            Self::Lost(movement) => (movement.received, movement.spent),
        }
    }

    /// Whether it pays, and whether it spends.
    fn ways(&self) -> (bool, bool) {
        match self {
            Self::Confirmed(movement) => (movement.pays, movement.spends),
            Self::Pending { movement, .. } => (movement.pays, movement.spends),
            Self::Lost(movement) => (movement.pays, movement.spends),
        }
    }

    /// How many outputs of the ledger it spends, if that is known without looking for them.
    fn own_inputs(&self) -> Option<u32> {
        match self {
            Self::Confirmed(movement) => Some(movement.outputs_spent),
            Self::Pending { .. } | Self::Lost(_) => (!self.ways().1).then_some(0),
        }
    }

    fn is_coinbase(&self) -> bool {
        matches!(self, Self::Confirmed(Movement { is_coinbase: true, .. }))
    }

    fn scripts(&self) -> &[ScriptKey] {
        match self {
            Self::Confirmed(movement) => &movement.scripts,
            Self::Pending { movement, .. } => &movement.scripts,
            Self::Lost(movement) => &movement.scripts,
        }
    }
}

/// Where a page of the mempool's transactions begins, and what the ledger holds there if those count that arrived
/// before. It takes reading all that lies between there and the end of the list, so it is computed on demand.
struct PageStart {
    holdings: Holdings,
    /// The numbers of arrival between the end of the list that the page is read from and the page.
    between: Range<u64>,
    ascending: bool,
    /// More transactions than these are not read.
    most: u32,
    found: OnceLock<Result<Option<i128>, ApiError>>,
}

impl LedgerEntry {
    fn net_sats(&self) -> Result<SignedSats, ApiError> {
        SignedSats::new(self.moved.net())
    }

    /// When it happened: the median time past of its block; now, if it is in none.
    fn time(&self) -> Result<DateTime, ApiError> {
        let EntryMovement::Confirmed(movement) = &self.moved else {
            return Ok(DateTime::from_system(SystemTime::now()));
        };
        let view = &self.holdings.view;
        let block = view.main_block(view.height_of(movement.txnum)?)?;
        Ok(DateTime::from_unix(block.row.median_time))
    }

    /// A transaction of the main chain.
    pub(crate) fn confirmed(holdings: Holdings, movement: Movement) -> Self {
        Self { holdings, moved: EntryMovement::Confirmed(movement) }
    }

    /// A transaction of the mempool. For its `balanceAfter` at most this many others are read.
    pub(crate) fn waiting(holdings: Holdings, movement: PendingMovement, most: u32) -> Self {
        let (between, found) = (0..movement.entry.sequence, OnceLock::new());
        let begin = Arc::new(PageStart { holdings: holdings.clone(), between, ascending: true, most, found });
        let since = movement.net();
        Self { holdings, moved: EntryMovement::Pending { movement, begin, since } }
    }

    /// A transaction that is not where it was.
    pub(crate) fn lost(holdings: Holdings, movement: LostMovement) -> Self {
        Self { holdings, moved: EntryMovement::Lost(movement) }
    }

    /// The transaction, as it is found by its txid.
    async fn find(&self) -> Result<Arc<view::Transaction>, ApiError> {
        let view = &self.holdings.view;
        let found = match &self.moved {
            EntryMovement::Confirmed(movement) => return newest_copy_together(view, movement.txnum).await,
            EntryMovement::Pending { movement, .. } => {
                find_transaction(view, |view| Ok(view.unconfirmed(&movement.entry)))
            }
            EntryMovement::Lost(movement) => find_transaction(view, |view| view.transaction(&movement.txid)),
        }?;
        found.map(Arc::new).ok_or_else(|| ApiError::internal("a transaction that was read earlier is missing"))
    }
}

impl PageStart {
    fn of(holdings: &Holdings, walk: &PendingListWalk, most: u32) -> Self {
        let arrivals = walk.arrivals();
        let first = PendingRow { arrival: arrivals.start, vout: 0 };
        let between = match (walk.ascending, walk.waiting.contains(&first)) {
            (true, true) => 0..arrivals.start,
            // the first is the row of the cursor
            (true, false) => 0..arrivals.start.saturating_add(1),
            (false, _) => arrivals.end..u64::MAX,
        };
        Self { holdings: holdings.clone(), between, ascending: walk.ascending, most, found: OnceLock::new() }
    }

    /// In sat; `None` if too much would have to be read for it.
    fn balance(&self) -> Result<Option<i128>, ApiError> {
        self.found.get_or_init(|| self.find()).clone()
    }

    fn find(&self) -> Result<Option<i128>, ApiError> {
        let Holdings { view, ledger, .. } = &self.holdings;
        self.holdings.count_scripts()?;
        let confirmed = i128::from(view.totals(ledger, &view.tip_block()?)?.balance()?);
        let (mut moved, mut read) = (0_i128, 0_u32);
        for entry in view.arrivals(ledger, &self.between, true) {
            read = read.saturating_add(1);
            if read > self.most {
                return Ok(None);
            }
            view.count(ROW_BYTES.saturating_add(entry.raw.len()))?;
            moved = moved.saturating_add(view.pending_movement(ledger, entry).net());
        }
        if self.ascending {
            return Ok(Some(confirmed.saturating_add(moved)));
        }
        let pending = view.pending(ledger);
        let delta = i128::from(pending.created.value) - i128::from(pending.spent());
        Ok(Some(confirmed.saturating_add(delta).saturating_sub(moved)))
    }
}

impl FieldCacheability for LedgerEntry {
    const UNTIL_NEXT_HEAD: &'static str =
        "transaction inputs outputs net received spent balanceAfter sentToSelf touched";
    const NEVER: &'static str = "value";
}

/// A transaction that pays or spends a ledger, confirmed or unconfirmed, and its effect on the ledger.
#[Object]
impl LedgerEntry {
    /// The transaction. For a txid that occurs twice on the main chain (BIP30), the later occurrence, also for the
    /// entry of the earlier one.
    async fn transaction(&self) -> Result<Transaction, ApiError> {
        Ok(Transaction::new(&self.holdings.view, self.find().await?))
    }

    /// The inputs of the transaction that spend outputs of the ledger, in order. The sum of these outputs is `spent`.
    #[graphql(complexity = "costs::parts(first, last, child_complexity)")]
    async fn inputs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 100 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Input>, ApiError>> {
        let (count, args) = (self.moved.own_inputs(), PageArgs { first, after, last, before });
        Some(self.find().await.and_then(|transaction| self.holdings.own_inputs(ctx, &transaction, count, args)))
    }

    /// The outputs of the transaction to the ledger, in order. Their sum is `received`, unless the transaction overwrites
    /// others of them (BIP30).
    #[graphql(complexity = "costs::parts(first, last, child_complexity)")]
    async fn outputs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 100 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Output>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(self.find().await.and_then(|transaction| self.holdings.own_outputs(ctx, &transaction, args)))
    }

    /// The change of the balance, in satoshis: `received` minus `spent`.
    async fn net(&self) -> Result<SignedSats, ApiError> {
        self.net_sats()
    }

    /// The value of `net` in a currency, by the rate at the median time past of the transaction's block, or of now if it is
    /// unconfirmed. Null if there is no rate of that time. Fails with FEATURE_DISABLED if the operator has no table of rates.
    async fn value(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The code of the currency (ISO 4217), such as EUR.")] currency: String,
    ) -> Option<Result<CurrencyValue, ApiError>> {
        let value = || CurrencyValue::of(ctx, self.net_sats()?.to_sat(), &currency, self.time()?);
        value().transpose()
    }

    /// The sum of the transaction's outputs to the ledger, in satoshis, including change, minus the outputs that it
    /// overwrites (BIP30).
    async fn received(&self) -> Result<Sats, ApiError> {
        Sats::new(self.moved.sums().0)
    }

    /// The sum of the ledger's outputs that the transaction spends, in satoshis.
    async fn spent(&self) -> Result<Sats, ApiError> {
        Sats::new(self.moved.sums().1)
    }

    /// The balance right after this transaction, in satoshis. For an unconfirmed transaction, this counts everything
    /// confirmed and every unconfirmed transaction that arrived before it. Null if that sum is negative, as a reorg can
    /// make a transaction arrive after one that spends it; if the entry is behind more than `server.limits.pages.scanRows`
    /// unconfirmed transactions of the ledger; and in an event, if the transaction left the mempool or the main chain.
    async fn balance_after(&self) -> Option<Result<Sats, ApiError>> {
        match &self.moved {
            EntryMovement::Confirmed(movement) => Some(Sats::new(movement.balance_after)),
            EntryMovement::Pending { begin, since, .. } => match begin.balance() {
                Ok(balance) => u64::try_from(balance?.saturating_add(*since)).ok().map(Sats::new),
                Err(error) => Some(Err(error)),
            },
            EntryMovement::Lost(_) => None,
        }
    }

    /// Whether the transaction both spends outputs of the ledger and pays it: change, or a transfer within the ledger.
    async fn sent_to_self(&self) -> bool {
        self.moved.ways() == (true, true)
    }

    /// The ledger's addresses that the transaction pays or spends, in alphabetical order. For a script without an address, the
    /// scriptPubKey in hexadecimal. At most as many as the transaction has inputs and outputs.
    #[graphql(complexity = "costs::list(TOUCHED, 0)")]
    async fn touched(&self) -> Vec<String> {
        let names = self.moved.scripts().iter().filter_map(|script| self.holdings.name(*script));
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        // the ledger's own order follows from the salt of this index
        names.sort_unstable();
        names
    }
}

impl Holdings {
    /// A page of the transactions that paid or spent the ledger, and of those that are about to.
    pub(crate) fn transactions(
        &self,
        ctx: &Context<'_>,
        filter: Option<LedgerFilter>,
        order: Option<SortOrder>,
        args: &PageArgs,
    ) -> Result<Connection<LedgerEntry>, ApiError> {
        let (filter, order) = (LedgerFilter::of(filter)?, order.unwrap_or(SortOrder::Desc));
        let scope = Scope::new("transactions", self.owner.clone()).filtered(format!("{filter:?} {order:?}"));
        let request = args.read_by(limits(ctx)?, |given| self.pending_list_place(&scope, given))?;
        self.count_scripts()?;
        let txnums = filter.txnums(&self.view)?;
        let scan_rows = limits(ctx)?.scan_rows;
        let walk = request.pending_list_walk(u64::from(txnums.start.0)..u64::from(txnums.end.0), order);
        let (confirmed, waiting) =
            (self.confirmed_entries(&filter, &walk)?, self.waiting_entries(&filter, &walk, scan_rows));
        let enough = |read| filter.scans() && read >= scan_rows;
        let rows_for_one = filter.scans().then_some(costs::ROWS_APART);
        let page = if walk.ascending {
            request.page(enough, costs::charged_rows(ctx, rows_for_one, confirmed.chain(waiting)))?
        } else {
            request.page(enough, costs::charged_rows(ctx, rows_for_one, waiting.chain(confirmed)))?
        };
        let total_count = if filter.scans() || !asks_for_total_count(ctx) {
            None
        } else {
            self.count_entries(ctx, &filter, &txnums, scan_rows)?
        };
        let cursor = |position| self.pending_list_cursor(&scope, position, txnum_at);
        Connection::with_cursors(page, total_count, cursor, |_, moved| {
            Ok(LedgerEntry { holdings: self.clone(), moved })
        })
    }

    fn confirmed_entries<'h>(
        &'h self,
        filter: &'h LedgerFilter,
        walk: &PendingListWalk,
    ) -> Result<impl Iterator<Item = Result<(ListPosition, Option<EntryMovement>), ApiError>> + use<'h>, ApiError> {
        let within = txnum_at(walk.confirmed.start)?..txnum_at(walk.confirmed.end)?;
        Ok(self.view.movements(&self.ledger, &within, walk.ascending)?.map(|movement| {
            let movement = movement?;
            // a row of each script that the transaction changed
            self.view.count(ROW_BYTES.saturating_mul(movement.scripts.len()))?;
            let (position, moved) =
                (ListPosition::Confirmed(movement.txnum.0.into()), EntryMovement::Confirmed(movement));
            let kept = filter.keeps(&moved);
            Ok((position, kept.then_some(moved)))
        }))
    }

    fn waiting_entries<'h>(
        &'h self,
        filter: &'h LedgerFilter,
        walk: &PendingListWalk,
        most: u32,
    ) -> impl Iterator<Item = Result<(ListPosition, Option<EntryMovement>), ApiError>> + use<'h> {
        let begin = Arc::new(PageStart::of(self, walk, most));
        let (within, ascending, since) = (walk.waiting.clone(), walk.ascending, Cell::new(0_i128));
        let arrivals = filter.leaves_waiting().then(|| self.view.arrivals(&self.ledger, &walk.arrivals(), ascending));
        let rows = arrivals.into_iter().flatten().map(|entry| (PendingRow { arrival: entry.sequence, vout: 0 }, entry));
        rows.filter(move |(waiting, _)| within.contains(waiting)).map(move |(waiting, entry)| {
            self.view.count(ROW_BYTES.saturating_add(entry.raw.len()))?;
            let movement = self.view.pending_movement(&self.ledger, entry);
            let (before, net) = (since.get(), movement.net());
            // read downwards, the page begins behind its first row, and each row takes back what it moved
            since.set(if ascending { before.saturating_add(net) } else { before.saturating_sub(net) });
            let after = if ascending { since.get() } else { before };
            let moved = EntryMovement::Pending { movement, begin: Arc::clone(&begin), since: after };
            let kept = filter.keeps(&moved);
            Ok((ListPosition::Pending(waiting), kept.then_some(moved)))
        })
    }

    /// How many transactions the whole list has; `None` if that takes reading more than `most` rows.
    fn count_entries(
        &self,
        ctx: &Context<'_>,
        filter: &LedgerFilter,
        txnums: &Range<TxNum>,
        most: u32,
    ) -> Result<Option<UInt53>, ApiError> {
        let Some(confirmed) = self.count_movements(ctx, txnums, most)? else { return Ok(None) };
        let waiting = if filter.leaves_waiting() { self.count_pending(ctx, most.into())? } else { Some(0) };
        waiting.map(|waiting| UInt53::new(waiting.saturating_add(confirmed.transactions.into()))).transpose()
    }
}
