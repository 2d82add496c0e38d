//! The periods that a range of blocks consists of: hours, days, weeks or months of the calendar, epochs, halvings, or blocks
//! one by one. Each is found by seeks from a block within it; nothing in between is read.

use std::ops::Range;

use super::super::View;
use crate::chain::subsidy::halving_interval;
use crate::chain::{BLOCKS_PER_EPOCH, CalendarUnit, Height, SeriesGroup};
use crate::index::{IndexError, TxNum};

/// A period, as far as it lies within a range of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its blocks within the range, none if no block has a median time past within it.
    pub blocks: Range<Height>,
    /// Its first and its last second, if it is one of the calendar.
    pub seconds: Option<(u32, u32)>,
}

/// The periods of a range of blocks, and of the calendar those without blocks around it that are asked for.
pub(in crate::view) struct Periods<'v> {
    view: &'v View,
    blocks: Range<u32>,
    group: SeriesGroup,
    /// The mean of the seconds between two blocks, by which the next period is guessed.
    interval: u32,
    /// The second that the first period contains, and that of the last: the median time past of the first block and of the last,
    /// unless more is asked for.
    times: (u32, u32),
}

impl<'v> Periods<'v> {
    /// Of periods of the calendar those without blocks count from the one second to the other of `within`, but for what is before
    /// the genesis block and after the tip; without it, between the blocks. `None` if there is no period.
    pub(in crate::view) fn of(
        view: &'v View,
        blocks: &Range<Height>,
        group: SeriesGroup,
        within: Option<(u32, u32)>,
    ) -> Result<Option<Self>, IndexError> {
        let blocks = blocks.start.to_u32()..blocks.end.to_u32();
        let mut around = None;
        if let (Some((from, to)), SeriesGroup::Calendar(_)) = (within, group) {
            let (genesis, tip) = (view.median_time(0)?, view.median_time(view.tip().height.to_u32())?);
            around = Some((from.max(genesis), to.min(tip))).filter(|(from, to)| from <= to);
        }
        if blocks.is_empty() {
            return Ok(around.map(|times| Self { view, blocks, group, interval: 1, times }));
        }
        let (first, last) = (view.median_time(blocks.start)?, view.median_time(blocks.end - 1)?);
        let interval = last.saturating_sub(first) / (blocks.end - blocks.start);
        let times = around.map_or((first, last), |(from, to)| (from.min(first), to.max(last)));
        Ok(Some(Self { view, blocks, group, interval: interval.max(1), times }))
    }

    /// How many there are, those without blocks among them.
    pub(in crate::view) fn count(&self) -> u32 {
        let (first, last) = (self.blocks.start, self.blocks.end.saturating_sub(1));
        let before = match self.group {
            SeriesGroup::Block => last - first,
            SeriesGroup::Calendar(unit) => unit.index(self.times.1).saturating_sub(unit.index(self.times.0)),
            SeriesGroup::Epoch | SeriesGroup::Halving => last / self.length() - first / self.length(),
        };
        before.saturating_add(1)
    }

    /// The last.
    pub(in crate::view) fn last(&self) -> Result<Period, IndexError> {
        match self.group {
            SeriesGroup::Calendar(unit) => self.of_calendar(unit, unit.index(self.times.1), self.blocks.end),
            _ => Ok(self.counted(self.blocks.end - 1)),
        }
    }

    /// The last with blocks; `None` if there is none.
    pub(in crate::view) fn last_with_blocks(&self) -> Result<Option<Period>, IndexError> {
        if self.blocks.is_empty() { Ok(None) } else { self.ending_before(self.blocks.end).map(Some) }
    }

    /// The one before this, whether it has blocks or not; `None` in front of the first.
    pub(in crate::view) fn before(&self, period: &Period) -> Result<Option<Period>, IndexError> {
        let end = period.blocks.start.to_u32();
        let (SeriesGroup::Calendar(unit), Some((start, _))) = (self.group, period.seconds) else {
            return if end <= self.blocks.start { Ok(None) } else { self.ending_before(end).map(Some) };
        };
        let second = start.checked_sub(1).filter(|second| unit.index(*second) >= unit.index(self.times.0));
        second.map(|second| self.of_calendar(unit, unit.index(second), end)).transpose()
    }

    /// The newest one with blocks before this; `None` in front of the first.
    pub(in crate::view) fn before_with_blocks(&self, period: &Period) -> Result<Option<Period>, IndexError> {
        match period.blocks.start.to_u32() {
            start if start <= self.blocks.start => Ok(None),
            start => self.ending_before(start).map(Some),
        }
    }

    /// The one with this block.
    pub(in crate::view) fn containing(&self, height: u32) -> Result<Period, IndexError> {
        let SeriesGroup::Calendar(unit) = self.group else { return Ok(self.counted(height)) };
        let time = self.view.median_time(height)?;
        let index = unit.index(time);
        let (_, last) = unit.seconds(index);
        let guess = height.saturating_add((last - time) / self.interval);
        self.of_calendar(unit, index, self.first_after(last, height..self.blocks.end, guess)?)
    }

    /// The one whose last block is in front of `end`, which is in the range and not its start.
    fn ending_before(&self, end: u32) -> Result<Period, IndexError> {
        let SeriesGroup::Calendar(unit) = self.group else { return Ok(self.counted(end - 1)) };
        self.of_calendar(unit, unit.index(self.view.median_time(end - 1)?), end)
    }

    /// The one with this block, if periods are counted in blocks.
    fn counted(&self, height: u32) -> Period {
        let first = height - height % self.length();
        let end = first.saturating_add(self.length());
        Period { blocks: first.max(self.blocks.start).into()..end.min(self.blocks.end).into(), seconds: None }
    }

    /// A period of the calendar whose last block is in front of `end`.
    fn of_calendar(&self, unit: CalendarUnit, index: u32, end: u32) -> Result<Period, IndexError> {
        let (first, last) = unit.seconds(index);
        let start = match first.checked_sub(1) {
            Some(before) => {
                let length = (last - first).saturating_add(1);
                let guess = end.saturating_sub(length / self.interval);
                self.first_after(before, self.blocks.start..end, guess)?
            }
            None => self.blocks.start,
        };
        Ok(Period { blocks: start.into()..end.into(), seconds: Some((first, last)) })
    }

    /// Blocks of a period that is counted in blocks.
    fn length(&self) -> u32 {
        match self.group {
            SeriesGroup::Epoch => BLOCKS_PER_EPOCH,
            SeriesGroup::Halving => halving_interval(self.view.network()),
            SeriesGroup::Block | SeriesGroup::Calendar(_) => 1,
        }
    }

    /// The first of these heights whose block has a median time past after this second; their end if there is none. By
    /// interpolation from the time of each block that is read, and after a few reads, if the intervals are uneven, by bisection.
    fn first_after(&self, second: u32, heights: Range<u32>, guess: u32) -> Result<u32, IndexError> {
        const INTERPOLATED: u32 = 6;
        let Range { start: mut low, end: mut high } = heights;
        let (mut at, mut steps) = (guess, 0);
        while low < high {
            at = at.clamp(low, high - 1);
            let time = self.view.median_time(at)?;
            let away = time.abs_diff(second) / self.interval;
            (low, high, at) = if time > second {
                (low, at, at.saturating_sub(away.saturating_add(1)))
            } else {
                (at + 1, high, at.saturating_add(away.saturating_add(1)))
            };
            steps += 1;
            if steps >= INTERPOLATED {
                at = low + (high - low) / 2;
            }
        }
        Ok(low)
    }
}

impl View {
    /// The median time past of the block at a height that is not above the tip.
    pub(in crate::view) fn median_time(&self, height: u32) -> Result<u32, IndexError> {
        self.head.chain.median_time(height.into())
    }

    /// The first transaction of the block at this height, or the end of the chain above the tip.
    pub(in crate::view) fn first_txnum_at(&self, height: Height) -> Result<TxNum, IndexError> {
        match height.previous() {
            Some(before) => self.main_block(before)?.end_txnum(),
            None => Ok(TxNum(0)),
        }
    }
}
