use std::future::ready;
use std::sync::Arc;

use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::{Context, Subscription};

use super::field_sharing::{FieldSharing, Sharing};
use super::source::{SeqCounter, StreamSource};
use crate::api::error::ApiError;
use crate::api::streams::chain::Change;
use crate::api::streams::follower::events_until_error;
use crate::api::streams::resume::ChainCursor;
use crate::api::streams::resume_point::{LastEventId, ResumeTracker};
use crate::api::types::block::Block;
use crate::api::types::chain::{ChainEventObject, Reorg};

/// The subscriptions to blocks.
pub(crate) struct BlockSubscription(pub(crate) StreamSource);

/// The same blocks for all.
pub(crate) const SHARING: [FieldSharing; 3] = [
    FieldSharing::numbered("chainEvents"),
    FieldSharing::shared("newBlock", Sharing::FromNowOn),
    FieldSharing::shared("reorg", Sharing::FromNowOn),
];

#[Subscription]
impl BlockSubscription {
    /// Every block that joins and every block that leaves the main chain, in order. After a reorg, the disconnected
    /// blocks come first, highest first, then the blocks that replace them.
    /// Example: `subscription { chainEvents { seq cursor __typename ... on BlockConnected { block { height } } } }`.
    async fn chain_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Only events after the event or the snapshot with this cursor, however old it is. Changes that were undone in the \
                    meantime are skipped. If the server does not have the cursor's block yet, it waits for it for up \
                    to 10 seconds, then fails with CURSOR_EXPIRED."
        )]
        after: Option<String>,
    ) -> Result<impl Stream<Item = Result<ChainEventObject, ApiError>> + use<>, ApiError> {
        let after = LastEventId::or_argument(ctx, after);
        let after = after.as_deref().map(ChainCursor::decode).transpose()?;
        let (mut seq, tracker) = (SeqCounter::after(after.as_ref()), ResumeTracker::of(ctx));
        let changes = events_until_error(self.0.chain(ctx, after.map(|after| after.place)).await?);
        let events = changes.map(move |change| {
            let event = ChainEventObject::new(change?, seq.next()?)?;
            tracker.reach_cursor(event.position());
            Ok(event)
        });
        Ok(self.0.counted(events))
    }

    /// Every main chain block once it has the given number of confirmations, from now on and in order. Each event uses
    /// a state that contains the block, in which it can already have more confirmations. With 1, this is every block
    /// that joins the chain; with n, each new block triggers the event of the block n - 1 below it. No block is
    /// omitted: a slow client receives the blocks it has not read yet. A reorg reduces the confirmations of the blocks
    /// around the fork: each is sent again, even if it was sent before, when it reaches the number on the new branch,
    /// once for every block that stands n - 1 above it.
    /// Example: `subscription { newBlock(confirmations: 6) { height hash } }`.
    async fn new_block(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The number of confirmations at which to send a block, at least 1: 1 when it joins the chain, n \
                    when n - 1 blocks follow it.",
            default_with = "Some(1)"
        )]
        confirmations: Option<i32>,
    ) -> Result<impl Stream<Item = Result<Block, ApiError>> + use<>, ApiError> {
        let below = below(confirmations.unwrap_or(1))?;
        let sent = self.0.shared_changes(ctx).await?.filter_map(move |change| {
            let sent = change.and_then(|Change { view, block, joined }| {
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
            ready(sent.transpose())
        });
        Ok(self.0.counted(sent))
    }

    /// Every reorg from now on, once it is complete: the blocks that left the main chain, the blocks that replaced
    /// them, and the effects on transactions. No reorg that the server still stores is omitted.
    /// Example: `subscription { reorg { depth forkHeight conflicted { nodes { txid conflictingTxids } } } }`.
    async fn reorg(&self, ctx: &Context<'_>) -> Result<impl Stream<Item = Result<Reorg, ApiError>> + use<>, ApiError> {
        let reorgs = events_until_error(self.0.reorgs(ctx)?).map(|found| {
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
        ApiError::bad_argument("confirmations", format!("is {confirmations}, and it must be at least 1"))
    })
}
