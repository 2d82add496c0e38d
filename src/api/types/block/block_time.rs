//! Which block stands at a time. The times of headers may go back from one block to the next; the median time past never does.

use async_graphql::Enum;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::scalars::DateTime;
use crate::chain::Height;
use crate::view::{self, BlockTime, Dependency, View};

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

impl TimeLookup {
    /// What looking for a block costs at most.
    pub(crate) fn cost(lookup: Option<Self>) -> usize {
        let searches = if lookup.unwrap_or_default() == Self::Nearest { 2 } else { 1 };
        costs::BISECTION.saturating_mul(searches)
    }

    /// The block of the main chain on this side of a time, if there is one. The answer is as lasting as the block behind which all
    /// are later.
    pub(crate) fn find(self, clock: BlockClock, time: DateTime, view: &View) -> Result<Option<view::Block>, ApiError> {
        let clock = match clock {
            BlockClock::MedianTime => BlockTime::MedianTimePast,
            BlockClock::HeaderTime => BlockTime::Header,
        };
        let seconds = time.to_unix();
        let settled = view.first_height_after(seconds)?;
        if settled <= view.tip().height {
            view.note_chain_up_to(settled);
        } else {
            view.read_set().depends_on(Dependency::Chain);
        }
        let before = || -> Result<_, ApiError> {
            match view.first_height_later(clock, seconds)?.previous() {
                Some(height) => Ok(view.block_at(height)?),
                None => Ok(None),
            }
        };
        let after = || -> Result<_, ApiError> {
            let first = seconds.checked_sub(1).map(|earlier| view.first_height_later(clock, earlier));
            Ok(view.block_at(first.transpose()?.unwrap_or(Height::GENESIS))?)
        };
        Ok(match self {
            Self::AtOrBefore => before()?,
            Self::AtOrAfter => after()?,
            Self::Nearest => match (before()?, after()?) {
                (Some(before), Some(after)) => {
                    let distance = |block: &view::Block| clock.of(&block.row).abs_diff(seconds);
                    Some(if distance(&after) < distance(&before) { after } else { before })
                }
                (before, after) => before.or(after),
            },
        })
    }
}
