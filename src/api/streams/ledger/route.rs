//! The way from one block to another: back to where their chains part, and on from there. Found step by step from where
//! the reader stands, so that it need not be kept while the chain grows.

use bitcoin::BlockHash;

use crate::api::error::ApiError;
use crate::api::streams::follower::block_not_stored;
use crate::chain::Height;
use crate::view::{Block, ChainMembership, View};

/// What comes next on the way.
pub(crate) enum Step {
    /// The block where the reader stands leaves.
    Left(Block),
    /// Blocks join that are on the active chain of the view: those at these heights, both included.
    Main(Height, Height),
    /// A block joins that is stale by now.
    Stale(Block),
}

/// The next step from a block to another; `None` if they are the same.
///
/// Errors: CURSOR_EXPIRED if the way leads over blocks that are not kept.
pub(crate) fn next(view: &View, from: BlockHash, to: BlockHash) -> Result<Option<Step>, ApiError> {
    if from == to {
        return Ok(None);
    }
    let stands = view.block_place(from)?.ok_or_else(|| block_not_stored(from))?;
    let stands_on_main = stands.membership == ChainMembership::Main;
    let left = || Ok(Some(Step::Left(view.block(from)?.ok_or_else(|| block_not_stored(from))?)));
    let (mut at, mut above) = (to, None);
    loop {
        let place = view.block_place(at)?.ok_or_else(|| block_not_stored(at))?;
        if at == from {
            return Ok(above.map(Step::Stale));
        }
        if place.membership == ChainMembership::Main {
            let stands_below = stands_on_main && stands.height < place.height;
            return if stands_below { Ok(Some(Step::Main(stands.height.next(), place.height))) } else { left() };
        }
        if place.height <= stands.height {
            return left();
        }
        let block = view.block(at)?.ok_or_else(|| block_not_stored(at))?;
        at = block.row.header.prev_blockhash;
        above = Some(block);
    }
}
