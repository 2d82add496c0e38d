use std::ops::Range;
use std::sync::Arc;

use async_graphql::{Context, InputObject};
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash, sha256};

use crate::api::costs;
use crate::api::error::{ApiError, shown};
use crate::api::pagination::page::{Page, PageRequest, count_of, height_at};
use crate::api::scalars::{Hex, UInt53};
use crate::api::types::enums::SortOrder;
use crate::api::types::filter_rules::check_not_both;
use crate::chain::Height;
use crate::chain::pools::PoolId;
use crate::chain::script::never_spendable;
use crate::limits::Limits;
use crate::view::{Dependency, Ledger, View};

/// Conditions on blocks, of which all must be met. Conditions that contradict each other are BAD_USER_INPUT. A list that has
/// `miner`, `minerScript` or `isEmpty: true` is found through an index, and by `minTxCount` alone the index leaves out groups of 64
/// blocks without so large a one. What is left of the conditions is checked row by row, at most `server.limits.pages.scanRows` rows
/// per page. The page then ends early. Three rows that are read cost 1, whether they are returned or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, InputObject)]
pub(crate) struct BlockFilter {
    /// Only blocks that are ascribed to this mining pool, by its slug (`Miner.slug`). NOT_READY while the blocks of the chain are
    /// still assigned to pools.
    pub(crate) miner: Option<String>,
    /// Only blocks whose coinbase pays this scriptPubKey. BAD_USER_INPUT for one that can never be spent (OP_RETURN, or above 10,000
    /// bytes).
    pub(crate) miner_script: Option<Hex>,
    /// Only blocks with (false) or without (true) transactions beside the coinbase.
    pub(crate) is_empty: Option<bool>,
    /// Only blocks with at least this many transactions, coinbase included.
    pub(crate) min_tx_count: Option<i32>,
    /// Only blocks whose version signals this bit, from 0 to 28: its top bits are 001, and the bit is set (BIP9).
    pub(crate) signals_bit: Option<i32>,
}

/// The conditions, with what they name looked up.
#[derive(Default)]
struct Conditions {
    miner: Option<PoolId>,
    payee: Option<Ledger>,
    is_empty: Option<bool>,
    min_tx_count: Option<u32>,
    /// The bit of BIP9.
    signals_bit: Option<u32>,
}

/// The bits of a version that BIP9 leaves to deployments.
const SIGNAL_BITS: std::ops::RangeInclusive<i32> = 0..=28;

/// Whether a block version signals a bit (BIP9).
fn signals(version: u32, bit: u32) -> bool {
    version >> 29 == 0b001 && version >> bit & 1 == 1
}

impl Conditions {
    fn are_none(&self) -> bool {
        self.miner.is_none() && self.payee.is_none() && !self.are_of_rows()
    }

    /// Whether some are about the row of a block.
    fn are_of_rows(&self) -> bool {
        self.is_empty.is_some() || self.min_tx_count.is_some() || self.signals_bit.is_some()
    }

    /// Whether the block at a height meets all of them.
    fn are_met(&self, view: &View, height: Height) -> Result<bool, ApiError> {
        if let Some(miner) = self.miner
            && !view.is_block_of(Some(miner), height)?
        {
            return Ok(false);
        }
        if let Some(payee) = &self.payee
            && view.payouts(payee, &(height..height.next()), true)?.next().transpose()?.is_none()
        {
            return Ok(false);
        }
        if !self.are_of_rows() {
            return Ok(true);
        }
        let block = view.main_block(height)?;
        let version = block.row.header.version.to_consensus().cast_unsigned();
        if self.signals_bit.is_some_and(|bit| !signals(version, bit)) {
            return Ok(false);
        }
        let transactions = block.row.transactions;
        let has_kind = self.is_empty.is_none_or(|is_empty| (transactions == 1) == is_empty);
        Ok(has_kind && self.min_tx_count.is_none_or(|least| transactions >= least))
    }
}

/// Heights, in the direction of a walk.
type Heights<'v> = Box<dyn Iterator<Item = Result<Height, ApiError>> + 'v>;

impl BlockFilter {
    /// The filter as it was given, `None` if it has no condition.
    ///
    /// Errors: BAD_USER_INPUT for conditions that no block can meet.
    pub(crate) fn checked(given: Option<Self>) -> Result<Option<Self>, ApiError> {
        let Some(given) = given.filter(Self::leaves_out) else { return Ok(None) };
        let least = given.min_tx_count.unwrap_or_default();
        let excludes = given.is_empty == Some(true) && least > 1;
        let why = "a block without transactions beside the coinbase has 1";
        check_not_both(excludes, ("isEmpty", true), ("minTxCount", least), why)?;
        Ok(Some(given))
    }

    /// Whether there is a condition at all.
    pub(crate) fn leaves_out(&self) -> bool {
        *self != Self::default()
    }

    /// Whether rows are read that may not meet them: one condition that an index knows leads, and all others are checked.
    pub(crate) fn scans(&self) -> bool {
        let indexed = [self.miner.is_some(), self.miner_script.is_some(), self.is_empty == Some(true)];
        let checked = [self.is_empty == Some(false), self.min_tx_count.is_some(), self.signals_bit.is_some()];
        checked.contains(&true) || indexed.into_iter().filter(|is_given| *is_given).count() > 1
    }

    /// What a page of the blocks that a filter lets through costs before it is known.
    pub(crate) fn page_cost(filter: Option<&Self>, first: Option<i32>, last: Option<i32>, per_row: usize) -> usize {
        let scan = costs::worst_scan(filter.is_some_and(Self::scans), costs::SCANNED_ROWS / costs::ROWS_APART);
        let is_by_bisection = filter.is_some_and(|filter| filter.is_empty == Some(true));
        let bisection = if is_by_bisection { costs::BISECTION } else { 0 };
        // the one behind the page is looked for, too
        costs::page(first, last, per_row.saturating_add(bisection)).saturating_add(bisection).saturating_add(scan)
    }

    /// The page of the blocks at these heights that meet the conditions, and how many do, if that is known without reading them.
    ///
    /// Errors: BAD_USER_INPUT for a pool that is unknown and a negative count; NOT_READY.
    pub(crate) fn page(
        &self,
        ctx: &Context<'_>,
        view: &Arc<View>,
        request: &PageRequest,
        (heights, order): (Range<Height>, SortOrder),
        limits: &Limits,
    ) -> Result<(Page<Height>, Option<UInt53>), ApiError> {
        // where such a page ends is for the server's settings to say, and so are the pools
        let depends_on = if self.miner.is_some() { Dependency::Head } else { Dependency::Chain };
        view.read_set().depends_on(depends_on);
        let mut conditions = self.conditions(view)?;
        let end = heights.end.min(view.tip().height.next());
        let heights = heights.start.min(end)..end;
        let walk = request.walk(u64::from(heights.start.to_u32())..u64::from(heights.end.to_u32()), order);
        let walked = height_at(walk.positions.start)?..height_at(walk.positions.end)?;
        // the first condition that an index knows leads, and the others are checked
        let (mut total, ascending) = (None, walk.ascending);
        let rows: Heights<'_> = if let Some(miner) = conditions.miner.take() {
            total = Some(view.miner_totals(Some(miner), &heights)?.blocks);
            Box::new(view.miner_blocks(Some(miner), &walked, ascending)?.map(|row| Ok(row?)))
        } else if let Some(payee) = conditions.payee.take() {
            let counted = view.count_movements(&payee, &view.txnums(heights.clone())?, |_| Ok::<_, ApiError>(false))?;
            total = counted.map(|counted| counted.coinbases);
            Box::new(view.payouts(&payee, &walked, ascending)?.map(|row| Ok(row?)))
        } else if conditions.is_empty == Some(true) {
            conditions.is_empty = None;
            let (before, through) = (view.empty_blocks_below(heights.start)?, view.empty_blocks_below(heights.end)?);
            total = through.checked_sub(before);
            Box::new(empty_blocks(ctx, view, walked, ascending))
        } else {
            // without that condition, these are all blocks
            Box::new(large_blocks(view, walked, conditions.min_tx_count.unwrap_or_default(), ascending))
        };
        let is_seek = conditions.are_none();
        let rows = rows.map(|height| {
            let height = height?;
            let is_met = is_seek || conditions.are_met(view, height)?;
            Ok::<_, ApiError>((u64::from(height.to_u32()), is_met.then_some(height)))
        });
        let rows = costs::charged_rows(ctx, (!is_seek).then_some(costs::ROWS_APART), rows);
        let page = request.page(|rows| !is_seek && rows >= limits.scan_rows, rows)?;
        Ok((page, total.filter(|_| is_seek).map(UInt53::from)))
    }

    fn conditions(&self, view: &View) -> Result<Conditions, ApiError> {
        let miner = self.miner.as_deref().map(|slug| {
            view.pools().find(slug).ok_or_else(|| {
                let fault = format!("is {}, and the server knows no mining pool with this slug", shown(slug));
                ApiError::bad_argument("filter.miner", fault)
            })
        });
        let payee = self.miner_script.as_ref().map(|script| {
            let script = ScriptBuf::from(script.as_bytes().to_vec());
            if never_spendable(&script) {
                let given = shown(&script.to_hex_string());
                let fault = format!("is {given}, which can never be spent: what is paid to such is not in the index");
                return Err(ApiError::bad_argument("filter.minerScript", fault));
            }
            Ok(view.ledger([sha256::Hash::hash(script.as_bytes())]))
        });
        let min_tx_count = self.min_tx_count.map(|count| count_of("filter.minTxCount", count)).transpose()?;
        let signals_bit = self.signals_bit.map(|bit| {
            let bit = u32::try_from(bit).ok().filter(|_| SIGNAL_BITS.contains(&bit));
            bit.ok_or_else(|| {
                let given = self.signals_bit.unwrap_or_default();
                let fault = format!("is {given}: deployments have the bits 0 to 28 (BIP9)");
                ApiError::bad_argument("filter.signalsBit", fault)
            })
        });
        let (miner, payee, signals_bit) = (miner.transpose()?, payee.transpose()?, signals_bit.transpose()?);
        Ok(Conditions { miner, payee, is_empty: self.is_empty, min_tx_count, signals_bit })
    }
}

/// The blocks at these heights that may have so many transactions.
fn large_blocks(
    view: &View,
    heights: Range<Height>,
    transactions: u32,
    ascending: bool,
) -> impl Iterator<Item = Result<Height, ApiError>> + '_ {
    let mut left = heights;
    std::iter::from_fn(move || {
        let found = view.next_large_block(left.clone(), transactions, ascending).transpose()?;
        if let Ok(found) = &found {
            if ascending {
                left.start = found.next();
            } else {
                left.end = *found;
            }
        }
        Some(found.map_err(ApiError::from))
    })
}

/// The blocks at these heights that have only a coinbase, each found by bisection.
fn empty_blocks<'v>(
    ctx: &'v Context<'_>,
    view: &'v View,
    heights: Range<Height>,
    ascending: bool,
) -> impl Iterator<Item = Result<Height, ApiError>> + 'v {
    let mut left = heights;
    std::iter::from_fn(move || {
        let mut next = || -> Result<Option<Height>, ApiError> {
            costs::spend(ctx, costs::BISECTION)?;
            let Some(found) = view.empty_block(&left, ascending)? else { return Ok(None) };
            if ascending {
                left.start = found.next();
            } else {
                left.end = found;
            }
            Ok(Some(found))
        };
        next().transpose()
    })
}
