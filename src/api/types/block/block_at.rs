use async_graphql::OneofObject;

use crate::api::error::ApiError;
use crate::api::scalars::{BlockHash, DateTime};
use crate::chain::Height;
use crate::view::{self, ChainMembership, Dependency, View};

/// A block of the main chain, identified in exactly one of three ways. The field returns the state right after that
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, OneofObject)]
pub(crate) enum BlockAt {
    /// The block at this height.
    Height(i32),
    /// The block with this hash. The block must be on the main chain.
    Hash(BlockHash),
    /// The newest block whose median time past is at or before this time. The tip if the time is later than the tip's.
    Time(DateTime),
}

impl BlockAt {
    /// The block that is named; the tip if none is. An answer about it is as cacheable as the block itself, and where it is
    /// named by a moment, as the one after it: that is later.
    ///
    /// Errors: BAD_USER_INPUT for a block that does not exist (yet), or is not on the main chain.
    pub(crate) fn resolve(at: Option<Self>, view: &View) -> Result<view::Block, ApiError> {
        let block = Self::find(at, view)?;
        match at {
            Some(Self::Height(_) | Self::Hash(_)) => view.note_chain_up_to(block.height),
            Some(Self::Time(_)) if block.height < view.tip().height => view.note_chain_up_to(block.height.next()),
            Some(Self::Time(_)) | None => view.read_set().depends_on(Dependency::Chain),
        }
        Ok(block)
    }

    /// Messages name the argument `at`, as all fields call it.
    fn find(at: Option<Self>, view: &View) -> Result<view::Block, ApiError> {
        let tip = view.tip().height;
        match at {
            None => Ok(view.tip_block()?),
            Some(Self::Height(height)) => view.block_at(height_of("at.height", height)?)?.ok_or_else(|| {
                let fault = format!("is {height}, and there is no such block yet: the tip is at {tip}");
                ApiError::bad_argument("at.height", fault)
            }),
            Some(Self::Hash(hash)) => match view.block(hash.0)? {
                Some(block) if block.membership == ChainMembership::Main => Ok(block),
                Some(_) => {
                    let fault = format!("is {}, a stale block: give one of the main chain", hash.0);
                    Err(ApiError::bad_argument("at.hash", fault))
                }
                None => Err(ApiError::bad_argument("at.hash", format!("is {}, and there is no such block", hash.0))),
            },
            Some(Self::Time(time)) => view
                .block_before(time.to_unix())?
                .ok_or_else(|| ApiError::bad_argument("at.time", format!("is {time}, and the chain begins later"))),
        }
    }
}

/// A height as it was given under this name, with its path in the argument. Errors: BAD_USER_INPUT below 0.
pub(crate) fn height_of(name: &str, height: i32) -> Result<Height, ApiError> {
    u32::try_from(height)
        .map(Height::from)
        .map_err(|_| ApiError::bad_argument(name, format!("is {height}, and the first block is at height 0")))
}
