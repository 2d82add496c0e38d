//! Unspent outputs of a ledger, page by page, those that wait in the mempool at the new end.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use async_graphql::{Context, InputObject, Object, SimpleObject};
use bitcoin::OutPoint;

use super::holdings::{Holdings, ROW_BYTES};
use super::spendability::{Spendability, effective_value};
use crate::api::allowance::find_transaction;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::{Connection, Edge, PageInfo};
use crate::api::pagination::cursor::{RowPlace, Scope};
use crate::api::pagination::page::{Page, PageArgs, PageRequest, count_of};
use crate::api::pagination::pending_list::{ListPosition, PendingListPlace, PendingListWalk, PendingRow};
use crate::api::scalars::{Sats, SignedSats, Txid, UInt53, int};
use crate::api::types::block::BlockAt;
use crate::api::types::enums::SortOrder;
use crate::api::types::mempool::feerate;
use crate::api::types::transaction::{OutPointObject, Output};
use crate::chain::Height;
use crate::view::{self, Coin, Dependency, Entry, OutputPosition, View, mature_at};

/// Bytes of transactions that one page reads while it looks for what was unspent once.
const SCAN_BYTES: usize = 8 << 20;

/// Conditions on unspent outputs; an output must meet all of them. Three rows that are read to find them cost 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, InputObject)]
pub(crate) struct UtxoFilter {
    /// Only outputs with at least this many confirmations, up to the requested block: 1 in that block. 0 includes
    /// mempool outputs, unless `at` is given.
    #[graphql(default_with = "Some(0)")]
    min_confirmations: Option<i32>,
    /// Only outputs of at least this many satoshis.
    min_value: Option<Sats>,
    /// Whether to include outputs that a mempool transaction spends. Has no effect with `at`.
    #[graphql(default_with = "Some(false)")]
    include_spent_in_mempool: Option<bool>,
    /// Whether to include coinbase outputs that are not mature enough for the next block to spend them.
    #[graphql(default_with = "Some(true)")]
    include_immature: Option<bool>,
}

impl UtxoFilter {
    /// Without further marks.
    const DEFAULT: Self = Self {
        min_confirmations: Some(0),
        min_value: None,
        include_spent_in_mempool: Some(false),
        include_immature: Some(true),
    };

    /// The filter that is meant: null is the default.
    fn of(given: Option<Self>) -> Self {
        let given = given.unwrap_or(Self::DEFAULT);
        Self {
            min_confirmations: given.min_confirmations.or(Self::DEFAULT.min_confirmations),
            min_value: given.min_value,
            include_spent_in_mempool: given.include_spent_in_mempool.or(Self::DEFAULT.include_spent_in_mempool),
            include_immature: given.include_immature.or(Self::DEFAULT.include_immature),
        }
    }

    fn leaves_immature_out(&self) -> bool {
        self.include_immature == Some(false)
    }

    fn leaves_spent_out(&self) -> bool {
        self.include_spent_in_mempool != Some(true)
    }

    /// How many blocks confirm what it leaves at least. Errors: BAD_USER_INPUT below 0.
    fn fewest_confirmations(&self) -> Result<u32, ApiError> {
        count_of("filter.minConfirmations", self.min_confirmations.unwrap_or_default())
    }

    /// Whether rows are left out that lie between others, but for those that are spent in the mempool.
    fn scans(&self) -> bool {
        self.min_value.is_some() || self.leaves_immature_out()
    }

    fn is_worth(&self, value: u64) -> bool {
        self.min_value.is_none_or(|least| value >= least.to_sat())
    }

    fn keeps(&self, coin: Coin, height: impl Fn() -> Result<Height, ApiError>, at: Height) -> Result<bool, ApiError> {
        if !self.is_worth(coin.value) {
            return Ok(false);
        }
        Ok(!self.leaves_immature_out() || !coin.is_coinbase || mature_at(height()?) <= at.next())
    }
}

/// An output that no block has spent.
#[derive(Clone)]
enum Unspent {
    Confirmed(Coin),
    Pending { entry: Arc<Entry>, vout: u32, value: u64 },
}

/// An unspent output.
#[derive(Clone)]
pub(crate) struct Utxo {
    view: Arc<View>,
    unspent: Unspent,
    /// The height of the block that created it.
    height: Option<Height>,
    /// The block after which the list is read.
    at: Height,
    /// Whether that is a block that was asked for, so that there is no mempool.
    past: bool,
}

impl Utxo {
    fn vout(&self) -> u32 {
        match &self.unspent {
            Unspent::Confirmed(coin) => coin.position.vout,
            Unspent::Pending { vout, .. } => *vout,
        }
    }

    fn transaction(&self) -> Result<Arc<view::Transaction>, ApiError> {
        let found = find_transaction(&self.view, |view| match &self.unspent {
            Unspent::Confirmed(coin) => view.newest_copy(coin.position.txnum).map(Some),
            Unspent::Pending { entry, .. } => Ok(view.unconfirmed(entry)),
        })?;
        found.map(Arc::new).ok_or_else(|| ApiError::internal("a transaction of the mempool cannot be parsed"))
    }

    fn outpoint_of(&self) -> Result<OutPoint, ApiError> {
        let txid = match &self.unspent {
            Unspent::Confirmed(coin) => self.view.txid_at(coin.position.txnum)?,
            Unspent::Pending { entry, .. } => entry.txid,
        };
        Ok(OutPoint { txid, vout: self.vout() })
    }

    fn is_from_coinbase(&self) -> bool {
        matches!(self.unspent, Unspent::Confirmed(Coin { is_coinbase: true, .. }))
    }

    fn spender(&self) -> Result<Option<Txid>, ApiError> {
        if self.past {
            return Ok(None);
        }
        Ok(self.view.mempool().spender(&self.outpoint_of()?).map(|(txid, _)| Txid(txid)))
    }

    fn sat(&self) -> u64 {
        match self.unspent {
            Unspent::Confirmed(coin) => coin.value,
            Unspent::Pending { value, .. } => value,
        }
    }

    fn effective(&self, fee_rate: f64) -> Result<Option<SignedSats>, ApiError> {
        let (price, transaction) = (feerate("feeRate", fee_rate)?, self.transaction()?);
        let output = transaction.output(self.vout());
        let output = output.ok_or_else(|| ApiError::internal("an unspent output is missing in its transaction"))?;
        effective_value(self.sat(), output.script_pubkey, price).map(SignedSats::new).transpose()
    }
}

impl FieldCacheability for Utxo {
    const IMMUTABLE: &'static str = "output outpoint value height confirmations isCoinbase matureAtHeight \
        spentInMempoolByTxid spendability effectiveValue";
}

/// An output that is unspent right after the requested block, or that no main chain block has spent yet. Value, height
/// and confirmations refer to that block; `output` refers to the current state.
#[Object]
impl Utxo {
    /// The output, in its current state.
    async fn output(&self) -> Result<Output, ApiError> {
        Ok(Output::new(&self.view, &self.transaction()?, self.vout()))
    }

    /// The outpoint: the txid and the output index.
    async fn outpoint(&self) -> Result<OutPointObject, ApiError> {
        OutPointObject::new(self.outpoint_of()?)
    }

    /// The amount in satoshis.
    async fn value(&self) -> Result<Sats, ApiError> {
        Sats::new(self.sat())
    }

    /// The height of the block that created the output. Null while it is unconfirmed.
    async fn height(&self) -> Option<Result<i32, ApiError>> {
        self.height.map(|height| int(height.to_u32()))
    }

    /// The number of blocks that confirm the output, up to the requested block: 1 in that block, 0 while it is
    /// unconfirmed.
    async fn confirmations(&self) -> Result<i32, ApiError> {
        int(self.height.map_or(0, |height| (self.at.to_u32() + 1).saturating_sub(height.to_u32())))
    }

    /// Whether a coinbase created the output, which then must mature before it can be spent.
    async fn is_coinbase(&self) -> bool {
        self.is_from_coinbase()
    }

    /// The lowest height of a block that may spend the output: 100 above its own height. Null unless a coinbase created
    /// it.
    async fn mature_at_height(&self) -> Option<Result<i32, ApiError>> {
        let height = self.height.filter(|_| self.is_from_coinbase())?;
        Some(int(mature_at(height).to_u32()))
    }

    /// The txid of the mempool transaction that spends the output. Null if there is none, and with `at`.
    async fn spent_in_mempool_by_txid(&self) -> Option<Result<Txid, ApiError>> {
        self.spender().transpose()
    }

    /// Whether the output can be spent in the block after the requested one, or in the next block: it is confirmed and
    /// mature, and no mempool transaction spends it.
    async fn spendability(&self) -> Result<Spendability, ApiError> {
        Spendability::of(self.height, self.is_from_coinbase(), self.at, self.spender()?.is_some())
    }

    /// The value of the output minus the fee to spend it at a feerate, in satoshis. Negative if the fee exceeds the
    /// value. Assumes a signature of the maximum size, a compressed key, and a key-path spend for taproot. Null if the
    /// input size cannot be known: P2SH, P2WSH and nonstandard scripts.
    async fn effective_value(
        &self,
        #[graphql(desc = "The feerate of the spending transaction, in sat/vB, to a thousandth.")] fee_rate: f64,
    ) -> Option<Result<SignedSats, ApiError>> {
        self.effective(fee_rate).transpose()
    }
}

/// A page of unspent outputs.
#[derive(SimpleObject)]
pub(crate) struct UtxoConnection {
    /// The items of this page with their cursors.
    edges: List<Edge<Utxo>>,
    /// The items of this page.
    nodes: List<Utxo>,
    /// Whether there are more items before or after this page, and the cursors to continue with.
    page_info: PageInfo,
    /// The number of items in the whole list, on all pages. Null with `minValue`, with `includeImmature: false`, and
    /// with `minConfirmations` of 2 or more.
    total_count: Option<UInt53>,
    /// The sum of the whole list, on all pages, in satoshis. Null if `totalCount` is null.
    total_value: Option<Sats>,
}

impl FieldCacheability for UtxoConnection {
    // besides those of every connection
    const IMMUTABLE: &'static str = "totalValue";
}

/// Rows that a page passes over because the mempool spends them or has none of its outputs there.
struct PassedOver {
    count: Cell<u32>,
    /// How many of them one page may read.
    most: u32,
}

impl PassedOver {
    /// One more. `true` if the page has to hear of it, since it may end there.
    fn pass(&self) -> bool {
        self.count.set(self.count.get().saturating_add(1));
        self.count.get() >= self.most
    }

    fn is_enough(&self) -> bool {
        self.count.get() > self.most
    }
}

type UtxoRow = Result<(ListPosition, Option<Unspent>), ApiError>;

impl Holdings {
    /// A page of the unspent outputs, newest first.
    pub(crate) fn utxos(
        &self,
        ctx: &Context<'_>,
        filter: Option<UtxoFilter>,
        at: Option<BlockAt>,
        args: &PageArgs,
    ) -> Result<UtxoConnection, ApiError> {
        let filter = UtxoFilter::of(filter);
        let scope = Scope::new("utxos", self.owner.clone()).filtered(format!("{filter:?} {at:?}"));
        let request = args.read_by(limits(ctx)?, |given| self.pending_list_place(&scope, given))?;
        self.count_scripts()?;
        let place = match request.from() {
            Some(PendingListPlace::Confirmed(place)) => Some(place),
            Some(PendingListPlace::Pending(_)) | None => None,
        };
        // a page goes on from where the one before it was taken, whatever a moment means by now
        let (past, at) = match (at, place) {
            (Some(_), Some(RowPlace { block: Some(block), .. })) => (true, Some(BlockAt::Hash(block.into()))),
            (at, _) => (at.is_some(), at),
        };
        let at = self.resolve(at)?;
        let totals = self.utxo_totals(&filter, &at, past)?;
        let scan_rows = limits(ctx)?.scan_rows;
        let node = |unspent| {
            let height = match &unspent {
                Unspent::Confirmed(coin) => Some(self.view.height_of(coin.position.txnum)?),
                Unspent::Pending { .. } => None,
            };
            Ok(Utxo { view: self.view.clone(), unspent, height, at: at.height, past })
        };
        let Connection { edges, nodes, page_info, .. } = if past {
            let page = self.past_page(ctx, &request.going_on(place), &filter, &at, scan_rows)?;
            let held_by = |_| Ok(Some(at.row.hash));
            Connection::new(&scope, page, None, held_by, |_, coin| node(Unspent::Confirmed(coin)))?
        } else {
            let page = self.present_page(ctx, &request, &filter, &at, scan_rows)?;
            let txnum = |position| Ok(OutputPosition::from_u64(position).txnum);
            let cursor = |position| self.pending_list_cursor(&scope, position, txnum);
            Connection::with_cursors(page, None, cursor, |_, unspent| node(unspent))?
        };
        let (total_count, total_value) = match totals {
            Some((count, value)) => (Some(UInt53::new(count)?), Some(Sats::new(value)?)),
            None => (None, None),
        };
        Ok(UtxoConnection { edges, nodes, page_info, total_count, total_value })
    }

    /// How many rows the whole list has, and their sum in sat; `None` where that takes reading them.
    fn utxo_totals(&self, filter: &UtxoFilter, at: &view::Block, past: bool) -> Result<Option<(u64, u64)>, ApiError> {
        let fewest = filter.fewest_confirmations()?;
        if filter.scans() || fewest > 1 {
            return Ok(None);
        }
        let totals = self.view.totals(&self.ledger, at)?;
        let (mut count, mut value) = (totals.utxo_count()?, totals.balance()?);
        if !past {
            let pending = self.view.pending(&self.ledger);
            let waits = fewest == 0;
            if waits {
                (count, value) =
                    (count.saturating_add(pending.created.count), value.saturating_add(pending.created.value));
            }
            let left_out = filter.leaves_spent_out();
            for (applies, coins) in [(left_out, pending.spent_confirmed), (left_out && waits, pending.spent_created)] {
                if applies {
                    (count, value) = (count.saturating_sub(coins.count), value.saturating_sub(coins.value));
                }
            }
        }
        Ok(Some((count, value)))
    }

    /// The positions of outputs with enough confirmations right after a block.
    fn confirmed_positions(&self, filter: &UtxoFilter, at: &view::Block) -> Result<Range<u64>, ApiError> {
        let fewest = filter.fewest_confirmations()?;
        let heights = at.height.next().to_u32().saturating_sub(fewest.saturating_sub(1));
        let txnums = self.view.txnums(Height::GENESIS..Height::from(heights))?;
        Ok(0..OutputPosition::first_of(txnums.end).to_u64())
    }

    fn present_page(
        &self,
        ctx: &Context<'_>,
        request: &PageRequest<PendingListPlace>,
        filter: &UtxoFilter,
        at: &view::Block,
        scan_rows: u32,
    ) -> Result<Page<Unspent, ListPosition>, ApiError> {
        let walk = request.pending_list_walk(self.confirmed_positions(filter, at)?, SortOrder::Desc);
        let passed = PassedOver { count: Cell::new(0), most: scan_rows };
        let confirmed = self.confirmed_coins(filter, &walk, at, &passed)?;
        let waiting = self.waiting_coins(filter, &walk, &passed)?;
        let enough = |read| passed.is_enough() || (filter.scans() && read >= scan_rows);
        let rows_for_one = filter.scans().then_some(costs::ROWS_APART);
        let page = if walk.ascending {
            request.page(enough, costs::charged_rows(ctx, rows_for_one, confirmed.chain(waiting)))?
        } else {
            request.page(enough, costs::charged_rows(ctx, rows_for_one, waiting.chain(confirmed)))?
        };
        let passed = usize::try_from(passed.count.get()).unwrap_or(usize::MAX);
        costs::spend(ctx, passed / costs::ROWS_APART)?;
        Ok(page)
    }

    fn confirmed_coins<'h>(
        &'h self,
        filter: &'h UtxoFilter,
        walk: &PendingListWalk,
        at: &'h view::Block,
        passed: &'h PassedOver,
    ) -> Result<impl Iterator<Item = UtxoRow> + use<'h>, ApiError> {
        let coins = self.view.coins(&self.ledger, &output_positions(&walk.confirmed), walk.ascending)?;
        let any_spent = filter.leaves_spent_out() && self.view.pending(&self.ledger).spent_confirmed.count > 0;
        let row = move |found: Result<view::UnspentCandidate, view::IndexError>| {
            let found = found?;
            self.view.count(ROW_BYTES)?;
            let OutputPosition { txnum, vout } = found.position;
            let position = ListPosition::Confirmed(found.position.to_u64());
            let Some(coin) = found.coin else { return Ok(passed.pass().then_some((position, None))) };
            if any_spent {
                let outpoint = OutPoint { txid: self.view.txid_at(txnum)?, vout };
                if self.view.mempool().spender(&outpoint).is_some() {
                    return Ok(passed.pass().then_some((position, None)));
                }
            }
            let kept = filter.keeps(coin, || Ok(self.view.height_of(txnum)?), at.height)?;
            Ok(Some((position, kept.then_some(Unspent::Confirmed(coin)))))
        };
        Ok(coins.filter_map(move |found| row(found).transpose()))
    }

    fn waiting_coins<'h>(
        &'h self,
        filter: &'h UtxoFilter,
        walk: &PendingListWalk,
        passed: &'h PassedOver,
    ) -> Result<impl Iterator<Item = UtxoRow> + use<'h>, ApiError> {
        let (within, ascending) = (walk.waiting.clone(), walk.ascending);
        let any = filter.fewest_confirmations()? == 0;
        let arrivals = any.then(|| self.view.arrivals(&self.ledger, &walk.arrivals(), ascending));
        let outputs = move |entry: &Arc<Entry>| {
            if let Err(error) = self.view.count(ROW_BYTES.saturating_add(entry.raw.len())) {
                return vec![Err(error.into())];
            }
            let mut rows = Vec::new();
            for (vout, value) in self.view.pending_outputs(&self.ledger, entry) {
                let waiting = PendingRow { arrival: entry.sequence, vout };
                let is_spent = || self.view.mempool().spender(&OutPoint { txid: entry.txid, vout }).is_some();
                if within.contains(&waiting) && !(filter.leaves_spent_out() && is_spent()) {
                    let unspent = Unspent::Pending { entry: Arc::clone(entry), vout, value };
                    rows.push(Ok((ListPosition::Pending(waiting), filter.is_worth(value).then_some(unspent))));
                }
            }
            if !ascending {
                rows.reverse();
            }
            if rows.is_empty() && passed.pass() {
                // the end of its outputs that the walk leaves them at
                let vout = if ascending { u32::MAX } else { 0 };
                rows.push(Ok((ListPosition::Pending(PendingRow { arrival: entry.sequence, vout }), None)));
            }
            rows
        };
        Ok(arrivals.into_iter().flatten().flat_map(outputs))
    }

    fn past_page(
        &self,
        ctx: &Context<'_>,
        request: &PageRequest,
        filter: &UtxoFilter,
        at: &view::Block,
        scan_rows: u32,
    ) -> Result<Page<Coin>, ApiError> {
        // where such a page ends is for the server's settings to say
        self.view.read_set().depends_on(Dependency::Chain);
        let walk = request.walk(self.confirmed_positions(filter, at)?, SortOrder::Desc);
        let candidates = self.view.coins_at(&self.ledger, at, &output_positions(&walk.positions), walk.ascending)?;
        let bytes = Cell::new(0_usize);
        let rows = candidates.map(|candidate| {
            let candidate = candidate?;
            bytes.set(bytes.get().saturating_add(candidate.bytes));
            self.view.count(ROW_BYTES.saturating_add(candidate.bytes))?;
            let kept = match candidate.coin {
                Some(coin) => filter.keeps(coin, || Ok(self.view.height_of(coin.position.txnum)?), at.height)?,
                None => false,
            };
            Ok::<_, ApiError>((candidate.position.to_u64(), candidate.coin.filter(|_| kept)))
        });
        let rows = costs::charged_rows(ctx, Some(costs::ROWS_APART), rows);
        request.page(|read| read >= scan_rows || bytes.get() > SCAN_BYTES, rows)
    }
}

fn output_positions(positions: &Range<u64>) -> Range<OutputPosition> {
    OutputPosition::from_u64(positions.start)..OutputPosition::from_u64(positions.end)
}
