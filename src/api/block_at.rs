use std::ops::Range;

use async_graphql::OneofObject;

use super::error::ApiError;
use super::scalars::{BlockHash, DateTime};
use crate::chain::Height;
use crate::view::{self, ChainMembership, View};

/// A block of the main chain, named in exactly one of three ways. What is asked for is told as it was right after that
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, OneofObject)]
pub(super) enum BlockAt {
    /// The block at this height.
    Height(i32),
    /// The block with this hash. It must be on the main chain.
    Hash(BlockHash),
    /// The newest block whose median time past is at this moment or before it; the tip if that is before it.
    Time(DateTime),
}

impl BlockAt {
    /// The block that is named; the tip if none is.
    ///
    /// Errors: BAD_USER_INPUT for a block that does not exist (yet), or is not on the main chain.
    pub(super) fn resolve(at: Option<Self>, view: &View) -> Result<view::Block, ApiError> {
        let tip = view.tip().height;
        match at {
            None => Ok(view.tip_block()?),
            Some(Self::Height(height)) => view.block_at(height_of("height", height)?)?.ok_or_else(|| {
                ApiError::bad_user_input(format!("there is no block at height {height} yet: the tip is at {tip}"))
            }),
            Some(Self::Hash(hash)) => match view.block(hash.0)? {
                Some(block) if block.membership == ChainMembership::Main => Ok(block),
                Some(_) => {
                    Err(ApiError::bad_user_input(format!("block {} is stale: give one of the main chain", hash.0)))
                }
                None => Err(ApiError::bad_user_input(format!("there is no block {}", hash.0))),
            },
            Some(Self::Time(time)) => view.block_before(time.to_unix())?.ok_or_else(|| {
                ApiError::bad_user_input("at that time there was no block yet: the chain begins later".to_owned())
            }),
        }
    }
}

/// A height as it was given under this name. Errors: BAD_USER_INPUT below 0.
pub(super) fn height_of(name: &str, height: i32) -> Result<Height, ApiError> {
    u32::try_from(height)
        .map(Height::from)
        .map_err(|_| ApiError::bad_user_input(format!("{name} is {height}, and the first block is at height 0")))
}

/// The heights from one to another, both included, and either left open.
///
/// Errors: BAD_USER_INPUT for a negative one, and if they are the wrong way round.
pub(super) fn height_range(view: &View, (from, to): (Option<i32>, Option<i32>)) -> Result<Range<Height>, ApiError> {
    let from = from.map(|from| height_of("fromHeight", from)).transpose()?;
    let to = to.map(|to| height_of("toHeight", to)).transpose()?;
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(ApiError::bad_user_input(format!("fromHeight is {from}, and toHeight is {to}, which is below it")));
    }
    let end = view.tip().height.next();
    Ok(from.unwrap_or(Height::GENESIS)..to.map_or(end, |to| to.next().min(end)))
}
