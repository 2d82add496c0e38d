//! The chain period by period, from the running totals of the blocks at the ends of the periods.
//!
//! Read from the newest period to the oldest. A period has the row of its last block and of the block before it, which is the
//! last of the period before: so each row is read once, and nothing in between.

use std::ops::Range;
use std::sync::Arc;

use super::super::View;
use super::super::ledger::{SeriesShape, TooManyPeriods};
use super::BlockRange;
use super::period::{Period, Periods};
use crate::chain::{Height, SeriesGroup};
use crate::index::{BlockRow, IndexError};

/// A period of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPeriod {
    /// The period.
    pub period: Period,
    /// Its blocks, `None` if it has none.
    pub blocks: Option<BlockRange>,
    /// The newest block at its end, within the period or before it.
    pub last: Arc<BlockRow>,
}

impl View {
    /// The periods of a range of blocks with their totals, oldest first. `may_read` is called before each period is read.
    ///
    /// Errors: those of the index and of `may_read`. The inner error is for too many periods.
    pub fn series<E: From<IndexError>>(
        &self,
        blocks: &Range<Height>,
        shape: SeriesShape,
        mut may_read: impl FnMut() -> Result<(), E>,
    ) -> Result<Result<Vec<ChainPeriod>, TooManyPeriods>, E> {
        let Some(periods) = Periods::of(self, blocks, shape.group, shape.empty_within)? else {
            return Ok(Ok(Vec::new()));
        };
        // only periods of the calendar can be without blocks
        let counts_all = shape.include_empty || !matches!(shape.group, SeriesGroup::Calendar(_));
        if counts_all && periods.count() > shape.most {
            return Ok(Err(TooManyPeriods(periods.count())));
        }
        let tip = blocks
            .end
            .previous()
            .ok_or_else(|| IndexError::corrupt("blocks", "a range ends before the genesis block"))?;
        let mut last = self.shared_row(tip)?;
        let mut found: Vec<ChainPeriod> = Vec::new();
        loop {
            may_read()?;
            let period = match found.last() {
                None if shape.include_empty => Some(periods.last()?),
                None => periods.last_with_blocks()?,
                Some(newer) if shape.include_empty => periods.before(&newer.period)?,
                Some(newer) => periods.before_with_blocks(&newer.period)?,
            };
            let Some(period) = period else { break };
            if found.len() >= usize::try_from(shape.most).unwrap_or(usize::MAX) {
                return Ok(Err(TooManyPeriods(shape.most.saturating_add(1))));
            }
            let Range { start, end } = period.blocks;
            let Some(to) = end.previous().filter(|to| *to >= start) else {
                found.push(ChainPeriod { period, blocks: None, last: last.clone() });
                continue;
            };
            let before = start.previous().map(|height| self.shared_row(height)).transpose()?;
            let range = self.range_after(before.clone(), start, last.clone(), to)?;
            found.push(ChainPeriod { period, blocks: Some(range), last: last.clone() });
            // without one, this was the oldest period
            last = before.unwrap_or(last);
        }
        found.reverse();
        Ok(Ok(found))
    }
}
