//! Pages of the unconfirmed transactions, in any order that the mempool keeps.
//!
//! A row is found again by its rank: what it is ordered by, and the number of its arrival. Its cursor holds both with its
//! txid, and is good while that transaction waits without interruption. So a page goes on from the same place whatever
//! came and went in between, even if the feerate that the row was ordered by is another by now.
//!
//! ```text
//!   order ── walk ──► entries from the cursor on ── filter ──► PageRequest::page ──► Connection
//!               cursor: base64url( version ‖ fee 8 ‖ weight 8 ‖ number 8 ‖ txid 32 ‖ seal )
//! ```

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use async_graphql::{Context, Enum};
use bitcoin::Txid;
use bitcoin::hashes::Hash;

use super::mempool::unconfirmed;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::{GivenCursor, Scope};
use crate::api::pagination::page::{Page, PageArgs, PageRequest};
use crate::api::scalars::{self, UInt53};
use crate::api::types::enums::TxState;
use crate::api::types::transaction::{SCAN_BYTES, Transaction, TransactionFilter};
use crate::view::{Entry, FeeFraction, MempoolSnapshot, Rank, View};

/// The order of unconfirmed transactions. Equal transactions are ordered by arrival, earliest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(crate) enum MempoolOrder {
    /// By the transaction's own feerate, highest first.
    #[default]
    FeeRate,
    /// By effective feerate, the feerate of the package with which the transaction is mined, highest first. Roughly the
    /// order of upcoming blocks.
    EffectiveFeeRate,
    /// By time of arrival, newest first.
    Arrival,
    /// By the sum of the outputs, highest first.
    Value,
}

/// Whether a filter lets a row through, and whether it can let any through behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterVerdict {
    Keep,
    Pass,
    End,
}

/// What a filter says to a row of a list in this order.
fn judge(filter: &TransactionFilter, entry: &Entry, order: MempoolOrder, forwards: bool) -> FilterVerdict {
    // in the order of what is asked about, all that follows is as much out of bounds
    let bounds = match order {
        MempoolOrder::FeeRate => Some(filter.of_rate(entry.feerate().to_sat_per_vb())),
        MempoolOrder::Value => Some(filter.of_value(entry.output_value)),
        MempoolOrder::EffectiveFeeRate | MempoolOrder::Arrival => None,
    };
    if bounds.is_some_and(|bounds| if forwards { bounds.too_low } else { bounds.too_high }) {
        FilterVerdict::End
    } else if filter.keeps_unconfirmed(entry) {
        FilterVerdict::Keep
    } else {
        FilterVerdict::Pass
    }
}

/// Where an unconfirmed transaction stands in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderPlace {
    /// What it is ordered by: a feerate, or a number by itself. Arrivals are not ordered by anything else.
    by: FeeFraction,
    /// The number of its arrival.
    pub(crate) sequence: u64,
    pub(crate) txid: Txid,
}

impl OrderPlace {
    /// In a list that is not ordered by anything that a transaction keeps.
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { by: FeeFraction::ZERO, sequence: entry.sequence, txid: entry.txid }
    }

    fn rank(self) -> Rank<FeeFraction> {
        Rank { by: self.by, sequence: self.sequence }
    }

    fn value_rank(self) -> Rank<u64> {
        Rank { by: self.by.fee(), sequence: self.sequence }
    }

    pub(crate) fn cursor(self, scope: &Scope) -> String {
        let mut content = Vec::with_capacity(56);
        for number in [self.by.fee(), self.by.weight(), self.sequence] {
            content.extend(number.to_be_bytes());
        }
        content.extend(self.txid.to_byte_array());
        scope.sealed(&content)
    }

    fn read(content: &[u8]) -> Option<Self> {
        let (fee, rest) = content.split_first_chunk()?;
        let (weight, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let txid = <[u8; 32]>::try_from(rest).ok()?;
        let by = FeeFraction::new(u64::from_be_bytes(*fee), u64::from_be_bytes(*weight));
        Some(Self { by, sequence: u64::from_be_bytes(*sequence), txid: Txid::from_byte_array(txid) })
    }

    /// Where a cursor of this connection points to.
    ///
    /// Errors: BAD_USER_INPUT for a text that is none; CURSOR_ORPHANED, with what became of the transaction, if it left
    /// the mempool, were it to return.
    pub(crate) fn find(scope: &Scope, given: GivenCursor<'_>, view: &View) -> Result<Self, ApiError> {
        let stand = scope.opened(given.text).and_then(|content| Self::read(&content));
        let stand = stand.ok_or_else(|| scope.refusal(given))?;
        let waits = view.mempool().by_sequence(stand.sequence).is_some_and(|entry| entry.txid == stand.txid);
        if !waits {
            let (state, block) = view.current_state(&stand.txid)?.unzip();
            return Err(ApiError::cursor_departed(state.map(TxState::from), block.flatten()));
        }
        Ok(stand)
    }
}

type Rows<'m> = Box<dyn Iterator<Item = (OrderPlace, &'m Arc<Entry>)> + 'm>;

impl MempoolOrder {
    /// The transactions beyond the cursor of a request, in the order in which it reads them.
    fn walk(self, mempool: &MempoolSnapshot, request: PageRequest<OrderPlace>) -> Rows<'_> {
        let (from, forwards) = (request.from(), request.is_forwards());
        let stand = |by, entry: &Entry| OrderPlace { by, ..OrderPlace::of(entry) };
        match self {
            Self::FeeRate => {
                let rows = mempool.by_feerate(beyond(from.map(OrderPlace::rank), forwards));
                directed(rows.map(move |(rank, entry)| (stand(rank.by, entry), entry)), forwards)
            }
            Self::EffectiveFeeRate => {
                let rows = mempool.by_effective_feerate(beyond(from.map(OrderPlace::rank), forwards));
                directed(rows.map(move |(rank, entry)| (stand(rank.by, entry), entry)), forwards)
            }
            Self::Value => {
                let rows = mempool.by_value(beyond(from.map(OrderPlace::value_rank), forwards));
                directed(rows.map(move |(rank, entry)| (stand(FeeFraction::new(rank.by, 1), entry), entry)), forwards)
            }
            Self::Arrival => {
                // answered from the newest on, so that the list runs against the numbers
                let rows = mempool.by_arrival(beyond(from.map(|from| from.sequence), !forwards));
                directed(rows.map(|entry| (OrderPlace::of(entry), entry)), !forwards)
            }
        }
    }
}

/// What lies behind a place, or in front of it.
fn beyond<T>(from: Option<T>, forwards: bool) -> (Bound<T>, Bound<T>) {
    let from = from.map_or(Bound::Unbounded, Bound::Excluded);
    if forwards { (from, Bound::Unbounded) } else { (Bound::Unbounded, from) }
}

fn directed<'m, T>(rows: impl DoubleEndedIterator<Item = T> + 'm, forwards: bool) -> Box<dyn Iterator<Item = T> + 'm> {
    if forwards { Box::new(rows) } else { Box::new(rows.rev()) }
}

/// A page of the transactions that a filter lets through.
pub(crate) fn transactions(
    view: &Arc<View>,
    ctx: &Context<'_>,
    args: &PageArgs,
    order: MempoolOrder,
    filter: &TransactionFilter,
) -> Result<Connection<Transaction>, ApiError> {
    let scope = Scope::new("transactions", crate::api::pagination::global_id::MEMPOOL_ID.to_owned())
        .filtered(format!("{order:?} {filter:?}"));
    let limits = limits(ctx)?;
    let request = args.read_by(limits, |given| OrderPlace::find(&scope, given, view))?;
    let bytes = Cell::new(0_usize);
    let rows = order.walk(view.mempool(), request).map_while(|(stand, entry)| {
        if filter.asks_for_scripts() {
            bytes.set(bytes.get().saturating_add(entry.raw.len()));
            if let Err(error) = view.count(entry.raw.len()) {
                return Some(Err(ApiError::from(error)));
            }
        }
        match judge(filter, entry, order, request.is_forwards()) {
            FilterVerdict::Keep => Some(Ok((stand, Some(entry)))),
            FilterVerdict::Pass => Some(Ok((stand, None))),
            FilterVerdict::End => None,
        }
    });
    let enough = |read| filter.leaves_out() && (read >= limits.scan_rows || bytes.get() > SCAN_BYTES);
    // a row whose scripts are not looked at is in memory as a whole
    let rows_for_one = if filter.asks_for_scripts() { 1 } else { costs::ROWS_APART };
    let page = request.page(enough, costs::charged_rows(ctx, filter.leaves_out().then_some(rows_for_one), rows))?;
    let count = if filter.leaves_out() { None } else { Some(UInt53::new(view.mempool().totals().count)?) };
    Connection::with_cursors(
        page,
        count,
        |stand: OrderPlace| Ok(stand.cursor(&scope)),
        |_, entry| unconfirmed(view, entry),
    )
}

/// A page of all txids, the newest first.
pub(crate) fn txids(view: &View, ctx: &Context<'_>, args: &PageArgs) -> Result<Connection<scalars::Txid>, ApiError> {
    let scope = Scope::new("txids", crate::api::pagination::global_id::MEMPOOL_ID.to_owned());
    let request = args.read_by(limits(ctx)?, |given| OrderPlace::find(&scope, given, view))?;
    let rows = MempoolOrder::Arrival.walk(view.mempool(), request);
    let page: Page<_, OrderPlace> =
        request.page(|_| false, rows.map(|(stand, _)| Ok::<_, ApiError>((stand, Some(stand.txid)))))?;
    let count = Some(UInt53::new(view.mempool().totals().count)?);
    Connection::with_cursors(page, count, |stand| Ok(stand.cursor(&scope)), |_, txid| Ok(scalars::Txid(txid)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_leads_back_to_its_rank(fee: u64, weight in 1_u64.., sequence: u64, txid: [u8; 32]) {
            let scope = Scope::new("transactions", "Mempool:main".to_owned());
            let stand = OrderPlace { by: FeeFraction::new(fee, weight), sequence, txid: Txid::from_byte_array(txid) };
            let read = OrderPlace::read(&scope.opened(&stand.cursor(&scope)).unwrap()).unwrap();
            prop_assert_eq!((read.by.fee(), read.by.weight()), (fee, weight));
            prop_assert_eq!((read.sequence, read.txid), (sequence, stand.txid));
        }
    }

    #[test]
    fn a_cursor_of_a_list_of_another_kind_is_refused() {
        let scope = Scope::new("transactions", "Mempool:main".to_owned());
        for content in [&[][..], &[7; 8], &[7; 40], &[7; 55], &[7; 57]] {
            assert_eq!(OrderPlace::read(content), None, "{}", content.len());
        }
        assert_eq!(scope.opened(&scope.cursor(7, None)).and_then(|content| OrderPlace::read(&content)), None);
    }
}
