use std::sync::Arc;

use async_graphql::futures_util::stream::{self, Stream};
use async_graphql::{Context, Subscription};

use super::block::Block;
use super::error::ApiError;
use super::follow::Follower;
use super::request::limits;
use super::running::Running;
use crate::live::Live;
use crate::view::Published;

/// The root of all subscriptions.
pub(super) struct Subscription {
    published: Published,
    live: Live,
    running: Arc<Running>,
}

impl Subscription {
    pub(super) fn new(published: Published, live: Live, running: Arc<Running>) -> Self {
        Self { published, live, running }
    }
}

/// What can be listened to. One field a subscription.
#[Subscription]
impl Subscription {
    /// Every block that joins the main chain from now on, in order, each told from the state it made. None is left
    /// out: a reader that is too slow is told what it missed. After a reorganisation the blocks of the new branch
    /// follow, beginning with the first above the fork.
    async fn new_block(
        &self,
        ctx: &Context<'_>,
    ) -> Result<impl Stream<Item = Result<Block, ApiError>> + use<>, ApiError> {
        // the Head is read first: what is published between the two is then told by the next event
        let head = self.published.head().ok_or_else(|| ApiError::not_ready(&self.published.state()))?;
        let allowance = limits(ctx)?.transaction_bytes;
        let follower = Follower::new(self.live.subscribe(), head.tip, self.published.clone(), allowance);
        drop(head);
        let blocks = stream::unfold(Some(follower), |follower| async {
            let mut follower = follower?;
            match follower.next().await? {
                Ok((view, block)) => Some((Ok(Block::new(&Arc::new(view), block)), Some(follower))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Running::count(&self.running, blocks))
    }
}
