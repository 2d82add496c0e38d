use std::future::ready;
use std::sync::Arc;

use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::{Context, Subscription};

use super::super::block::Block;
use super::super::chain_event::ChainEvent;
use super::super::error::ApiError;
use super::super::follow::{Change, up_to_an_error};
use super::super::progress::{Place, Progress};
use super::super::reorg::Reorg;
use super::super::resume::ChainPlace;
use super::{Source, seq};

/// What is told of blocks.
pub(super) struct BlockSubscription(pub(super) Source);

#[Subscription]
impl BlockSubscription {
    /// Every block that joins the main chain and every block that leaves it, in order. After a reorganisation the blocks
    /// that left come first, the newest of them before the others, and then those that took their place.
    async fn chain_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Only what comes behind the event with this cursor, however long ago that was. Changes that were \
                    taken back meanwhile are left out. A block that this server does not have yet is waited for, up to \
                    10 seconds; CURSOR_EXPIRED if it does not come."
        )]
        after: Option<String>,
    ) -> Result<impl Stream<Item = Result<ChainEvent, ApiError>> + use<>, ApiError> {
        let after = after.as_deref().map(ChainPlace::read).transpose()?;
        let changes = up_to_an_error(self.0.chain(ctx, after).await?).enumerate();
        let events = changes.map(|(place, change)| ChainEvent::new(change?, seq(place)?));
        Ok(self.0.counted(events))
    }

    /// Every block of the main chain when it has so many confirmations, from now on and in order, each told from a state
    /// that holds it, in which it may have more of them by then. With 1, that is every block that joins the chain; with
    /// n, each block that joins tells the one n - 1 below it. None is left out: a reader that is too slow is told what
    /// it missed. A reorganisation takes confirmations from the blocks around the fork: each is told anew when it has as
    /// many of them on the new branch, so once for every block that stands n - 1 above it, were it told before or not.
    async fn new_block(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "When to tell it: 1 as soon as it joins the chain, n when n - 1 others stand on it. At least 1.",
            default_with = "Some(1)"
        )]
        confirmations: Option<i32>,
    ) -> Result<impl Stream<Item = Result<Block, ApiError>> + use<>, ApiError> {
        let below = below(confirmations.unwrap_or(1))?;
        let (follower, progress) = (self.0.chain(ctx, Place::in_chain(ctx)).await?, Progress::of(ctx));
        progress.reach_in_chain(follower.place());
        let told = up_to_an_error(follower).filter_map(move |change| {
            let told = change.and_then(|change| {
                progress.reach_in_chain(change.place());
                let Change { view, block, joined } = change;
                if !joined {
                    return Ok(None);
                }
                let view = Arc::new(view);
                match block.height.to_u32().checked_sub(below) {
                    // what joined is on the chain of this view, and so is all that it stands on
                    Some(height) if below > 0 => Ok(Some(Block::new(&view, view.main_block(height.into())?))),
                    Some(_) => Ok(Some(Block::new(&view, block))),
                    None => Ok(None),
                }
            });
            ready(told.transpose())
        });
        Ok(self.0.counted(told))
    }

    /// Every reorganisation from now on, once it is over: which blocks left the main chain, which took their place, and what
    /// that did to transactions. None is left out as long as it is kept.
    async fn reorg(&self, ctx: &Context<'_>) -> Result<impl Stream<Item = Result<Reorg, ApiError>> + use<>, ApiError> {
        let reorgs = up_to_an_error(self.0.reorgs(ctx)?).map(|found| {
            let (view, reorg) = found?;
            Reorg::new(&Arc::new(view), reorg)
        });
        Ok(self.0.counted(reorgs))
    }
}

/// How many blocks stand on one with so many confirmations. Errors: BAD_USER_INPUT below 1.
fn below(confirmations: i32) -> Result<u32, ApiError> {
    let others = u32::try_from(confirmations).ok().and_then(|confirmations| confirmations.checked_sub(1));
    others.ok_or_else(|| {
        ApiError::bad_user_input(format!(
            "confirmations is {confirmations}, and a block of the main chain has 1 at least"
        ))
    })
}
