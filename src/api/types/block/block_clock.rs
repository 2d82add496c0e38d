//! Which block stands at a time. The times of headers may go back from one block to the next; the median time past never does.

use async_graphql::Enum;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::scalars::DateTime;
use crate::chain::Height;
use crate::view::{self, Dependency, View};

/// Which time of a block counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(crate) enum BlockClock {
    /// The median time past (`Block.medianTime`, BIP113), which never goes back.
    #[default]
    MedianTime,
    /// The time in the header (`Block.time`), by the clock of the miner: up to two hours ahead, and at times before that of the
    /// block in front.
    HeaderTime,
}

/// On which side of a time to look for a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(crate) enum TimeLookup {
    /// The highest block whose time is at or before it.
    #[default]
    AtOrBefore,
    /// The lowest block whose time is at or after it. By HEADER_TIME, of the 144 blocks up to the one whose median time past
    /// reaches it, or up to the tip.
    AtOrAfter,
    /// The block whose time is closest to it; if two are as close, the earlier time counts. By HEADER_TIME, of the same blocks.
    Nearest,
}

/// How many blocks below the one whose median time past reaches a time are compared by their headers. Nodes accept headers of at
/// most two hours ahead, in which a dozen blocks are usual. Above it none is closer: its header is later than that median (Bitcoin
/// Core, `ContextualCheckBlockHeader`), and the median is one of the headers that are compared.
const HEADERS_BELOW: u32 = 144;

/// The height of the first block whose median time past is at or after this second; one above the tip if there is none.
fn height_reaching(seconds: u32, view: &View) -> Result<Height, ApiError> {
    Ok(seconds.checked_sub(1).map_or(Ok(Height::GENESIS), |earlier| view.first_height_after(earlier))?)
}

impl BlockClock {
    /// The highest block whose time is at or before this second.
    fn last_at_or_before(self, seconds: u32, view: &View) -> Result<Option<view::Block>, ApiError> {
        let by_median = view.first_height_after(seconds)?;
        let first_later = match self {
            Self::MedianTime => by_median,
            Self::HeaderTime => view.first_height_with_later_headers(seconds, by_median)?,
        };
        match first_later.previous() {
            Some(height) => Ok(view.block_at(height)?),
            None => Ok(None),
        }
    }

    /// The lowest block whose time is at or after this second.
    fn first_at_or_after(self, seconds: u32, view: &View) -> Result<Option<view::Block>, ApiError> {
        let by_median = height_reaching(seconds, view)?;
        if self == Self::MedianTime {
            return Ok(view.block_at(by_median)?);
        }
        // most of the eleven blocks up to that one are at or after it
        let times = header_times(by_median, view)?;
        match times.into_iter().find(|(_, time)| *time >= seconds) {
            Some((height, _)) => Ok(view.block_at(height)?),
            None => Ok(None),
        }
    }

    /// The block whose time is closest to this second.
    fn nearest(self, seconds: u32, view: &View) -> Result<Option<view::Block>, ApiError> {
        if self == Self::HeaderTime {
            let by_median = height_reaching(seconds, view)?;
            let times = header_times(by_median, view)?;
            let rank = |(height, time): &(Height, u32)| {
                let is_after = *time > seconds;
                let steps = if is_after { height.to_u32() } else { u32::MAX - height.to_u32() };
                (time.abs_diff(seconds), is_after, steps)
            };
            return match times.into_iter().min_by_key(rank) {
                Some((height, _)) => Ok(view.block_at(height)?),
                None => Ok(None),
            };
        }
        let (before, after) = (self.last_at_or_before(seconds, view)?, self.first_at_or_after(seconds, view)?);
        let distance = |block: &view::Block| block.row.median_time.abs_diff(seconds);
        Ok(match (before, after) {
            (Some(before), Some(after)) => Some(if distance(&after) < distance(&before) { after } else { before }),
            (before, after) => before.or(after),
        })
    }
}

/// The times of the headers that are compared, lowest block first.
fn header_times(by_median: Height, view: &View) -> Result<Vec<(Height, u32)>, ApiError> {
    let highest = by_median.min(view.tip().height);
    let lowest = Height::from(highest.to_u32().saturating_sub(HEADERS_BELOW));
    Ok(view.header_times(lowest..highest.next())?)
}

impl TimeLookup {
    /// What looking for a block costs: a bisection for each side, and a last one for how lasting the answer is.
    pub(crate) fn cost(lookup: Option<Self>, clock: Option<BlockClock>) -> usize {
        let lookup = lookup.unwrap_or_default();
        let searches = if lookup == Self::Nearest { 3 } else { 2 };
        let headers = match (clock.unwrap_or_default(), lookup) {
            (BlockClock::HeaderTime, Self::AtOrAfter | Self::Nearest) => HEADERS_BELOW,
            _ => 0,
        };
        costs::BISECTION.saturating_mul(searches).saturating_add(costs::rows_in_a_row(headers))
    }

    /// The block of the main chain on this side of a time, if there is one.
    pub(crate) fn find(self, clock: BlockClock, time: DateTime, view: &View) -> Result<Option<view::Block>, ApiError> {
        let seconds = time.to_unix();
        // above the first block with a later median time past, every block is later by either clock: once that block is there,
        // later ones cannot change the answer
        let decisive = view.first_height_after(seconds)?;
        if decisive <= view.tip().height {
            view.note_chain_up_to(decisive);
        } else {
            view.read_set().depends_on(Dependency::Chain);
        }
        match self {
            Self::AtOrBefore => clock.last_at_or_before(seconds, view),
            Self::AtOrAfter => clock.first_at_or_after(seconds, view),
            Self::Nearest => clock.nearest(seconds, view),
        }
    }
}
