use std::ops::Range;
use std::time::SystemTime;

use async_graphql::{InputObject, OneofObject};

use super::height_of;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::scalars::DateTime;
use crate::api::types::enums::SeriesGroupEnum;
use crate::chain::Height;
use crate::view::{Dependency, View};

/// How many years of a chain a series is taken to have where its range does not say so.
const YEARS: usize = 25;
/// Halvings until the subsidy is zero, and what comes behind them.
const HALVINGS: usize = 34;

/// Consecutive blocks of the main chain, given in exactly one of three ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, OneofObject)]
#[graphql(name = "BlockRange")]
pub(crate) enum BlockRangeInput {
    /// By their heights.
    Heights(HeightRange),
    /// By their median time past.
    Times(TimeRange),
    /// So many blocks up to the tip, at least 1. All blocks if the chain has fewer.
    LastBlocks(i32),
}

/// Blocks from one height to another. Both ends are included, and both are optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, InputObject)]
pub(crate) struct HeightRange {
    /// The height of the first block; the genesis block if not given.
    from: Option<i32>,
    /// The height of the last block; the tip if not given.
    to: Option<i32>,
}

/// From one time to another. Both ends are included, and both are optional. Of blocks, the median time past counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, InputObject)]
pub(crate) struct TimeRange {
    /// Only what is at or after this time.
    from: Option<DateTime>,
    /// Only what is at or before this time.
    to: Option<DateTime>,
}

/// How many points a series of all blocks has at most.
fn points_of_all(group: SeriesGroupEnum) -> usize {
    match group {
        SeriesGroupEnum::Block | SeriesGroupEnum::Hour | SeriesGroupEnum::Day => costs::POINTS,
        SeriesGroupEnum::Week => YEARS * 53,
        SeriesGroupEnum::Month => YEARS * 12,
        // of 2,016 blocks in ten minutes each
        SeriesGroupEnum::Epoch => YEARS * 27,
        SeriesGroupEnum::Halving => HALVINGS,
    }
}

/// How many points a series has at most whose range has so many seconds; `None` if they are no hours, days, weeks or months.
/// The time of a block may be two hours beside its median time past.
fn points_within(group: SeriesGroupEnum, seconds: u32) -> Option<usize> {
    let hours = match group {
        SeriesGroupEnum::Hour => 1,
        SeriesGroupEnum::Day => 24,
        SeriesGroupEnum::Week => 7 * 24,
        SeriesGroupEnum::Month => 28 * 24,
        SeriesGroupEnum::Block | SeriesGroupEnum::Epoch | SeriesGroupEnum::Halving => return None,
    };
    let periods = seconds / (hours * 3_600);
    Some(usize::try_from(periods).unwrap_or(usize::MAX).saturating_add(6))
}

impl BlockRangeInput {
    /// Whether it ends at a block or a time, and not at the tip.
    pub(crate) fn has_end(&self) -> bool {
        match self {
            Self::Heights(heights) => heights.to.is_some(),
            Self::Times(times) => times.to.is_some(),
            Self::LastBlocks(_) => false,
        }
    }

    /// How many blocks these are at most, as far as the range says so, and no more than `most`.
    pub(crate) fn most_blocks(&self, most: usize) -> usize {
        let blocks = match self {
            Self::Heights(HeightRange { from, to: Some(to) }) => to.saturating_sub(from.unwrap_or(0)).saturating_add(1),
            Self::LastBlocks(count) => *count,
            Self::Heights(_) | Self::Times(_) => return most,
        };
        usize::try_from(blocks).unwrap_or(0).min(most)
    }

    /// What a series over these blocks costs at most, if a point costs so much.
    pub(crate) fn series_cost(
        range: Option<Self>,
        group: Option<SeriesGroupEnum>,
        include_empty: Option<bool>,
        point: usize,
    ) -> usize {
        let points = Self::most_points(range, group.unwrap_or_default(), include_empty.unwrap_or_default());
        // one period more is looked for than there are
        costs::list(points, point.saturating_add(costs::PERIOD)).saturating_add(costs::PERIOD).saturating_add(1)
    }

    /// How many points a series has at most: a point is a block or has one, unless it may be empty, and no two are of one time.
    fn most_points(range: Option<Self>, group: SeriesGroupEnum, include_empty: bool) -> usize {
        let of_all = points_of_all(group);
        match range {
            Some(Self::Times(TimeRange { from: Some(from), to: Some(to) })) => {
                let seconds = to.to_unix().saturating_sub(from.to_unix());
                points_within(group, seconds).map_or(of_all, |points| points.min(of_all))
            }
            Some(range) if !include_empty => range.most_blocks(of_all),
            _ => of_all,
        }
    }

    /// The seconds that the range is given in, if it is.
    pub(crate) fn seconds(&self) -> Option<(u32, u32)> {
        let Self::Times(TimeRange { from, to }) = self else { return None };
        Some((from.map_or(0, DateTime::to_unix), to.map_or(u32::MAX, DateTime::to_unix)))
    }

    /// The time from its start to its end, so many seconds up to now without a range, if no block has to be read for it.
    pub(crate) fn given_time(range: Option<Self>, seconds: u32) -> Option<(DateTime, DateTime)> {
        match range {
            None => Some(TimeRange::default().ends_within(seconds)),
            Some(Self::Times(times)) => Some(times.ends_within(seconds)),
            Some(Self::Heights(_) | Self::LastBlocks(_)) => None,
        }
    }

    /// The time from its start to its end: of blocks, from the median time past of the first to that of the last, or to now if
    /// that is the tip. Without a range, so many seconds up to now. `None` for a range without blocks, or in the future. An
    /// answer with a time up to now is not cached.
    ///
    /// Errors: BAD_USER_INPUT for an end before its start, and as [`BlockRangeInput::heights`].
    pub(crate) fn time(
        name: &str,
        range: Option<Self>,
        seconds: u32,
        view: &View,
    ) -> Result<Option<(DateTime, DateTime)>, ApiError> {
        let has_end = range.is_some_and(|range| range.has_end());
        let up_to_now = || view.read_set().depends_on(Dependency::External);
        let (from, to) = match Self::given_time(range, seconds) {
            Some((from, to)) if has_end && from.to_unix() > to.to_unix() => return Err(out_of_order(name, from, to)),
            Some(given) => {
                if !has_end {
                    up_to_now();
                }
                given
            }
            None => {
                let blocks = Self::heights(name, range, view)?;
                let Some(last) = blocks.end.previous().filter(|last| *last >= blocks.start) else { return Ok(None) };
                let from = DateTime::from_unix(view.main_block(blocks.start)?.row.median_time);
                let end = if last == view.tip().height {
                    up_to_now();
                    None
                } else {
                    Some(view.main_block(last)?.row.median_time)
                };
                TimeRange { from: Some(from), to: end.map(DateTime::from_unix) }.ends_within(seconds)
            }
        };
        Ok((from.to_unix() <= to.to_unix()).then_some((from, to)))
    }

    /// The heights of those of these blocks that exist; of all blocks without a range. Which they are is as lasting as the
    /// block that ends them. `name` is that of the argument, with its path.
    ///
    /// Errors: BAD_USER_INPUT for a negative height, an end before its beginning, and less than one of the last blocks.
    pub(crate) fn heights(name: &str, range: Option<Self>, view: &View) -> Result<Range<Height>, ApiError> {
        let tip = view.tip().height;
        // the block that no other can come in front of
        let (blocks, closing) = match range {
            None => (Height::GENESIS..tip.next(), None),
            Some(Self::Heights(heights)) => {
                let (from, to) = heights.ends(name)?;
                let to = to.filter(|to| *to <= tip);
                (from..to.unwrap_or(tip).next(), to)
            }
            Some(Self::Times(times)) => times.blocks(name, view)?,
            Some(Self::LastBlocks(count)) => {
                let before = count_of_last(name, count)?.saturating_sub(1);
                (tip.to_u32().saturating_sub(before).into()..tip.next(), None)
            }
        };
        match closing {
            Some(closing) => view.note_chain_up_to(closing),
            None => view.read_set().depends_on(Dependency::Chain),
        }
        Ok(blocks.start..blocks.end.max(blocks.start))
    }

    /// The first and the last of these blocks, of which there must be at least one; a height that is given must exist.
    ///
    /// Errors: as [`BlockRangeInput::heights`], and BAD_USER_INPUT for blocks that do not exist (yet).
    pub(crate) fn first_and_last(name: &str, range: Option<Self>, view: &View) -> Result<(Height, Height), ApiError> {
        let tip = view.tip().height;
        if let Some(Self::Heights(heights)) = range {
            let (from, to) = heights.ends(name)?;
            for (end, height) in [("heights.from", Some(from)), ("heights.to", to)] {
                if let Some(height) = height.filter(|height| *height > tip) {
                    let fault = format!("is {height}, and there is no such block yet: the tip is at {tip}");
                    return Err(ApiError::bad_argument(format!("{name}.{end}"), fault));
                }
            }
        }
        let blocks = Self::heights(name, range, view)?;
        let last = blocks.end.previous().filter(|last| *last >= blocks.start);
        let last = last.ok_or_else(|| {
            // only times can be such that no block is within them
            let (from, to) = range.and_then(|range| range.seconds()).unwrap_or_default();
            let (from, to) = (DateTime::from_unix(from), DateTime::from_unix(to));
            let fault = format!("is {from} to {to}, and no block has a median time past within it");
            ApiError::bad_argument(format!("{name}.times"), fault)
        })?;
        Ok((blocks.start, last))
    }
}

impl HeightRange {
    fn ends(&self, name: &str) -> Result<(Height, Option<Height>), ApiError> {
        let from = self.from.map_or(Ok(Height::GENESIS), |from| height_of(&format!("{name}.heights.from"), from))?;
        let to = self.to.map(|to| height_of(&format!("{name}.heights.to"), to)).transpose()?;
        match to.filter(|to| from > *to) {
            Some(to) => {
                let fault = format!("is {from}, and {name}.heights.to is {to}, which is below it");
                Err(ApiError::bad_argument(format!("{name}.heights.from"), fault))
            }
            None => Ok((from, to)),
        }
    }
}

impl TimeRange {
    /// Both ends: now if the end is not given, and so many seconds before the end if the start is not.
    fn ends_within(self, seconds: u32) -> (DateTime, DateTime) {
        let to = self.to.unwrap_or_else(|| DateTime::from_system(SystemTime::now()));
        (self.from.unwrap_or_else(|| DateTime::from_unix(to.to_unix().saturating_sub(seconds))), to)
    }

    /// The blocks, and the first that is later: no block behind it is earlier again.
    fn blocks(&self, name: &str, view: &View) -> Result<(Range<Height>, Option<Height>), ApiError> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from.to_unix() > to.to_unix()
        {
            return Err(out_of_order(name, from, to));
        }
        // the first block at that time or after it is the first after the second before
        let before = self.from.and_then(|from| from.to_unix().checked_sub(1));
        let first = before.map_or(Ok(Height::GENESIS), |before| view.first_height_after(before))?;
        let Some(to) = self.to else { return Ok((first..view.tip().height.next(), None)) };
        let later = view.first_height_after(to.to_unix())?;
        Ok((first..later, Some(later).filter(|later| *later <= view.tip().height)))
    }
}

fn out_of_order(name: &str, from: DateTime, to: DateTime) -> ApiError {
    let fault = format!("is {from}, and {name}.times.to is {to}, which is before it");
    ApiError::bad_argument(format!("{name}.times.from"), fault)
}

fn count_of_last(name: &str, count: i32) -> Result<u32, ApiError> {
    let blocks = u32::try_from(count).ok().filter(|blocks| *blocks > 0);
    blocks.ok_or_else(|| {
        ApiError::bad_argument(format!("{name}.lastBlocks"), format!("is {count}: a range has at least one block"))
    })
}
