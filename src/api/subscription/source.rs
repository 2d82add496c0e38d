//! Where the events of all subscriptions come from.

use std::sync::{Arc, Weak};

use async_graphql::Context;
use async_graphql::futures_util::stream::{Stream, StreamExt};
use tokio::time::Instant;

use crate::api::context::{ServingContext, limits};
use crate::api::error::ApiError;
use crate::api::extensions::wait_for_tip::LONGEST;
use crate::api::scalars::UInt53;
use crate::api::streams::chain::{ChainFollower, Change};
use crate::api::streams::follower::events_until_error;
use crate::api::streams::mempool::MempoolFollower;
use crate::api::streams::reorgs::ReorgFollower;
use crate::api::streams::resume::{ChainCursor, MempoolCursor, StreamStart};
use crate::api::streams::resume_point::{ResumePoint, ResumeTracker};
use crate::api::wait_until::wait_until;
use crate::live::Live;
use crate::view::{Head, MempoolEventKind, Published, View};

/// Where the events of all subscriptions come from. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StreamSource {
    pub(crate) published: Published,
    pub(crate) live: Live,
    pub(crate) serving: Arc<ServingContext>,
}

impl StreamSource {
    /// The state to begin with. What is published after it is sent by an event to the part that listens then.
    pub(crate) fn head(&self) -> Result<Arc<Head>, ApiError> {
        self.published.head().ok_or_else(|| ApiError::not_ready(&self.published.state()))
    }

    /// Returns once the block of a cursor is known here. Of several servers of one chain one has a block some moments
    /// before another, and a client may come from that one to this one; or the block is stale, and this one never had it.
    ///
    /// Errors: CURSOR_EXPIRED if it is not known for as long as a request waits for a block, and at once if a crash took it
    /// out of the index and it is awaited no longer; NOT_READY; RESOURCE_EXHAUSTED
    /// if too many wait already.
    pub(crate) async fn wait_for(&self, place: ChainCursor) -> Result<(), ApiError> {
        self.head()?;
        let hash = place.hash();
        let mut looked = Weak::new();
        let mut known = || {
            // blocks come with a new snapshot only
            let head = self.published.head().filter(|head| !looked.ptr_eq(&Arc::downgrade(&head.chain)))?;
            looked = Arc::downgrade(&head.chain);
            let found = View::new(head).block_place(hash);
            found.map_err(ApiError::from).map(|place| place.map(|_| ())).transpose()
        };
        if let Some(known) = known() {
            return known;
        }
        if let Some(lost) = self.published.state().lost_block_with(hash) {
            return Err(ApiError::cursor_lost(lost).of_after());
        }
        let _place = self.serving.waiting_slots.take()?;
        let until = Instant::now() + LONGEST;
        let known = wait_until(&self.live, until, || {
            // again and again, as it is ignored while many others are requested
            self.published.request_block(hash, until.into_std());
            known()
        })
        .await;
        known.unwrap_or_else(|| {
            let message = format!(
                "after is a cursor on block {hash}, which is not in the index and did not arrive within {} seconds: it is of \
                 another chain, or no longer stored: subscribe again, and query what changed since",
                LONGEST.as_secs()
            );
            Err(ApiError::cursor_expired(message).of_after())
        })
    }

    /// The changes of the chain from now on, or behind a place.
    pub(crate) async fn chain(&self, ctx: &Context<'_>, place: Option<ChainCursor>) -> Result<ChainFollower, ApiError> {
        if let Some(place) = place {
            self.wait_for(place).await?;
        }
        let events = self.live.subscribe_chain();
        let (head, allowance) = (self.head()?, limits(ctx)?.transaction_bytes);
        match place {
            None => Ok(ChainFollower::at(&head, events, self.published.clone(), allowance)),
            Some(place) => {
                let following = ChainFollower::after(place, &head, events, self.published.clone(), allowance);
                following.map_err(ApiError::of_after)
            }
        }
    }

    /// The changes of the chain from now on, or behind the resume point, for a subscription whose execution is shared: a reader
    /// that falls behind the others goes on by itself behind the last change that it has, whether that made an event or not.
    pub(crate) async fn shared_changes(
        &self,
        ctx: &Context<'_>,
    ) -> Result<impl Stream<Item = Result<Change, ApiError>> + use<>, ApiError> {
        let (follower, progress) = (self.chain(ctx, ResumePoint::in_chain(ctx)).await?, ResumeTracker::of(ctx));
        progress.advance_chain(follower.place());
        let reached = move |change: &Result<Change, ApiError>| {
            if let Ok(change) = change {
                progress.advance_chain(change.place());
            }
        };
        Ok(events_until_error(follower).inspect(reached))
    }

    /// The reorganisations from now on.
    pub(crate) fn reorgs(&self, ctx: &Context<'_>) -> Result<ReorgFollower, ApiError> {
        // what became of transactions may be known only when the chain does not change any more
        let events = self.live.subscribe();
        ReorgFollower::at(self.head()?, events, self.published.clone(), limits(ctx)?.transaction_bytes)
    }

    /// What happens in the mempool from now on, or behind a place.
    pub(crate) fn mempool(
        &self,
        ctx: &Context<'_>,
        after: Option<MempoolCursor>,
        wanted: fn(&MempoolEventKind) -> bool,
    ) -> Result<MempoolFollower, ApiError> {
        let events = self.live.subscribe();
        let (head, allowance) = (self.head()?, limits(ctx)?.transaction_bytes);
        let sequence = match after {
            None => head.mempool.sequence(),
            Some(MempoolCursor { run, sequence }) if run == self.live.run() => sequence,
            Some(_) => {
                return Err(ApiError::cursor_expired(
                    "after is a cursor of another server, or of an earlier run of this one, whose mempool events are not \
                     stored: subscribe again, and query `mempool` again",
                )
                .of_after());
            }
        };
        let following = MempoolFollower::after(sequence, wanted, head, events, self.published.clone(), allowance);
        following.map_err(ApiError::of_after)
    }

    /// The subscription counts as open until these events are dropped.
    pub(crate) fn counted<T>(
        &self,
        events: impl Stream<Item = T> + Send + 'static,
    ) -> crate::api::streams::open::CountedEvents<T> {
        ServingContext::count(&self.serving, events)
    }
}

/// The numbers of the events of a stream, which go on from the cursor that it resumes from.
pub(crate) struct SeqCounter(u64);

impl SeqCounter {
    pub(crate) fn after<P>(after: Option<&StreamStart<P>>) -> Self {
        Self(after.map_or(0, |after| after.seq))
    }

    /// The number of the next event.
    pub(crate) fn next(&mut self) -> Result<UInt53, ApiError> {
        self.0 = self.0.saturating_add(1);
        UInt53::new(self.0)
    }
}
