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
    /// The block from which on no block is before it.
    AtOrAfter,
    /// Of these two the one whose time is closer; AT_OR_BEFORE if both are as close.
    Nearest,
}

impl BlockClock {
    /// The time of a block by this clock, in seconds since 1970.
    fn time_of(self, block: &view::Block) -> u32 {
        match self {
            Self::MedianTime => block.row.median_time,
            Self::HeaderTime => block.row.header.time,
        }
    }

    /// The height of the first block from which on every block is later than this second.
    fn first_later(self, seconds: u32, view: &View) -> Result<Height, ApiError> {
        let by_median = view.first_height_after(seconds)?;
        Ok(match self {
            Self::MedianTime => by_median,
            Self::HeaderTime => view.first_height_with_later_headers(seconds, by_median)?,
        })
    }
}

impl TimeLookup {
    /// What looking for a block costs: a bisection for each side, and a last one for how lasting the answer is.
    pub(crate) fn cost(lookup: Option<Self>) -> usize {
        let searches = if lookup.unwrap_or_default() == Self::Nearest { 3 } else { 2 };
        costs::BISECTION.saturating_mul(searches)
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
        let before = || -> Result<_, ApiError> {
            match clock.first_later(seconds, view)?.previous() {
                Some(height) => Ok(view.block_at(height)?),
                None => Ok(None),
            }
        };
        let after = || -> Result<_, ApiError> {
            let first = seconds.checked_sub(1).map_or(Ok(Height::GENESIS), |earlier| clock.first_later(earlier, view));
            Ok(view.block_at(first?)?)
        };
        Ok(match self {
            Self::AtOrBefore => before()?,
            Self::AtOrAfter => after()?,
            Self::Nearest => match (before()?, after()?) {
                (Some(before), Some(after)) => {
                    let distance = |block: &view::Block| clock.time_of(block).abs_diff(seconds);
                    Some(if distance(&after) < distance(&before) { after } else { before })
                }
                (before, after) => before.or(after),
            },
        })
    }
}
