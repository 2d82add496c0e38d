use std::sync::Arc;

use async_graphql::{Context, Object};

use super::holdings::{Holdings, ROW_BYTES};
use crate::api::context::limits;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BigInt, DateTime, Sats, SignedSats, UInt53, int};
use crate::api::types::block::{Block, BlockRangeInput};
use crate::api::types::enums::SeriesGroupEnum;
use crate::chain::Height;
use crate::view::{LedgerPeriod, SeriesRead, SeriesShape, TooManyPeriods, View};

/// A period of the history of a ledger.
#[derive(Clone)]
pub(crate) struct BalancePoint {
    view: Arc<View>,
    found: Arc<LedgerPeriod>,
    /// Rows that may be read to count transactions.
    scan_rows: u32,
}

/// What a ledger received and spent in a period.
pub(crate) struct TurnoverTotals(BalancePoint);

impl BalancePoint {
    /// The first block of the period, or the last; `None` without blocks.
    fn block(&self, height: Height) -> Option<Result<Block, ApiError>> {
        if self.found.period.blocks.is_empty() {
            return None;
        }
        Block::maybe(&self.view, self.view.block_at(height))
    }

    fn last_height(&self) -> Height {
        self.found.period.blocks.end.previous().unwrap_or(Height::GENESIS)
    }

    /// A bound of the period: of one of the calendar its own, else that of its block.
    fn time(&self, of_calendar: fn((u32, u32)) -> u32, height: Height) -> Result<DateTime, ApiError> {
        if let Some(seconds) = self.found.period.seconds {
            return Ok(DateTime::from_unix(of_calendar(seconds)));
        }
        Ok(DateTime::from_unix(self.view.main_block(height)?.row.median_time))
    }
}

impl FieldCacheability for BalancePoint {
    const IMMUTABLE: &'static str = "startAt endAt firstBlock lastBlock blockCount balanceAfter net turnover";
}

/// A period of the history of a ledger: the balance at its end, and what it received and spent.
#[Object]
impl BalancePoint {
    /// The beginning of the period. Of an hour, a day, a week or a month its first second in UTC, even if the range begins
    /// later; of other groups the median time past of the first block.
    async fn start_at(&self) -> Result<DateTime, ApiError> {
        self.time(|(first, _)| first, self.found.period.blocks.start)
    }

    /// The end of the period. Of an hour, a day, a week or a month its last second in UTC, even if the range, or the chain,
    /// ends earlier; of other groups the median time past of the last block.
    async fn end_at(&self) -> Result<DateTime, ApiError> {
        self.time(|(_, last)| last, self.last_height())
    }

    /// The first block of the period within the range. Null if the period has no block.
    async fn first_block(&self) -> Option<Result<Block, ApiError>> {
        self.block(self.found.period.blocks.start)
    }

    /// The last block of the period within the range. Null if the period has no block.
    async fn last_block(&self) -> Option<Result<Block, ApiError>> {
        self.block(self.last_height())
    }

    /// The number of blocks of the period within the range.
    async fn block_count(&self) -> Result<i32, ApiError> {
        let blocks = &self.found.period.blocks;
        int(blocks.end.to_u32().saturating_sub(blocks.start.to_u32()))
    }

    /// The confirmed balance right after the last block of the period, in satoshis: `balance(at:)` of that block.
    async fn balance_after(&self) -> Result<Sats, ApiError> {
        Sats::new(self.found.balance)
    }

    /// The change of the balance in the period, in satoshis: what the ledger received minus what it spent.
    async fn net(&self) -> Result<SignedSats, ApiError> {
        let (received, spent) = (i128::try_from(self.found.received), i128::try_from(self.found.spent));
        let net = received.ok().zip(spent.ok()).and_then(|(received, spent)| received.checked_sub(spent));
        SignedSats::new(net.ok_or_else(|| ApiError::internal("the turnover of a ledger exceeds 80 bits"))?)
    }

    /// What the ledger received and spent in the period.
    async fn turnover(&self) -> TurnoverTotals {
        TurnoverTotals(self.clone())
    }
}

impl FieldCacheability for TurnoverTotals {
    const IMMUTABLE: &'static str = "received spent txCount receivedFromSelf";
}

/// What a ledger received and spent in the blocks of a period. Over all periods of the chain, the sums are those of `stats`.
#[Object]
impl TurnoverTotals {
    /// The sum of the received outputs, in satoshis, including change, minus the outputs that were overwritten (BIP30).
    async fn received(&self) -> BigInt {
        self.0.found.received.into()
    }

    /// The sum of the spent outputs, in satoshis.
    async fn spent(&self) -> BigInt {
        self.0.found.spent.into()
    }

    /// The number of transactions that paid or spent the ledger. A transaction that involves several of its scripts counts
    /// once. Null for a set whose histories in the period are too long to merge: more than `server.limits.pages.scanRows` rows
    /// together.
    async fn tx_count(&self, ctx: &Context<'_>) -> Option<Result<UInt53, ApiError>> {
        let found = &self.0.found;
        if let [] | [_] = found.changed[..] {
            return Some(Ok(self.rows().into()));
        }
        self.merged(ctx, |view| UInt53::new(view.count_distinct(&found.changed, &found.txnums)?))
    }

    /// The part of `received` that transactions paid which also spent outputs of the ledger, such as change, in satoshis. Null
    /// for histories in the period that are too long to read: more than `server.limits.pages.scanRows` rows together.
    #[graphql(complexity = "costs::more(costs::HISTORIES, 0)")]
    async fn received_from_self(&self, ctx: &Context<'_>) -> Option<Result<BigInt, ApiError>> {
        let found = &self.0.found;
        self.merged(ctx, |view| Ok(view.received_from_self(&found.changed, &found.txnums)?.into()))
    }
}

impl TurnoverTotals {
    /// How many rows the histories of the scripts have in the period.
    fn rows(&self) -> u32 {
        self.0.found.changed.iter().fold(0, |rows, (_, transactions)| rows.saturating_add(*transactions))
    }

    /// What reading these rows finds, `None` if they are too many.
    fn merged<T>(
        &self,
        ctx: &Context<'_>,
        read: impl FnOnce(&View) -> Result<T, ApiError>,
    ) -> Option<Result<T, ApiError>> {
        let BalancePoint { view, found, scan_rows } = &self.0;
        let rows = self.rows();
        if rows > *scan_rows {
            return None;
        }
        let spend = || {
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            let together = usize::try_from(costs::ROWS_IN_A_ROW).unwrap_or(1);
            costs::spend(ctx, found.changed.len().saturating_add(rows / together))?;
            Ok(view.count(rows.saturating_mul(ROW_BYTES))?)
        };
        Some(spend().and_then(|()| read(view)))
    }
}

impl Holdings {
    /// The balance period by period, oldest first.
    ///
    /// Errors: BAD_USER_INPUT for a range that is none; QUERY_LIMIT_EXCEEDED for too many points.
    pub(super) fn balance_history(
        &self,
        ctx: &Context<'_>,
        range: Option<BlockRangeInput>,
        group: Option<SeriesGroupEnum>,
        include_empty: Option<bool>,
    ) -> Result<Vec<BalancePoint>, ApiError> {
        let limits = limits(ctx)?;
        let group = group.unwrap_or_default().into();
        let blocks = BlockRangeInput::heights("range", range, &self.view)?;
        let include_empty = include_empty.unwrap_or_default();
        let empty_within = range.filter(|_| include_empty).and_then(|range| range.seconds());
        let shape = SeriesShape { group, include_empty, empty_within, most: limits.points };
        let spend = |read| {
            costs::spend(ctx, if read == SeriesRead::Period { costs::PERIOD } else { 1 })?;
            Ok::<_, ApiError>(self.view.count(ROW_BYTES)?)
        };
        let found = self.view.balance_history(&self.ledger, &blocks, shape, spend)?;
        let found = found.map_err(|TooManyPeriods(periods)| {
            ApiError::argument_exceeds("range", "pointsPerSeries", limits.points.into(), periods.into())
        })?;
        let point =
            |found| BalancePoint { view: self.view.clone(), found: Arc::new(found), scan_rows: limits.scan_rows };
        Ok(found.into_iter().map(point).collect())
    }
}
