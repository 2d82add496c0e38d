//! The roots of the subscriptions, by what they listen to.

mod blocks;
mod figures;
mod followed;
mod ledgers;
mod sharing;
mod unconfirmed;

use std::sync::Arc;

pub(super) use sharing::field_names;
pub use sharing::{Sharing, sharing, subscribed_field};

use async_graphql::futures_util::stream::Stream;
use async_graphql::{Context, MergedSubscription};
use tokio::time::Instant;

use super::error::ApiError;
use super::follow::{Follower, unknown};
use super::follow_mempool::MempoolFollower;
use super::follow_reorgs::ReorgFollower;
use super::request::limits;
use super::resume::{ChainPlace, MempoolPlace};
use super::running::Running;
use super::scalars::UInt53;
use super::until::until;
use super::wait_for_tip::LONGEST;
use crate::live::Live;
use crate::view::{Head, MempoolEventKind, Published, View};

/// The events to subscribe to. One field per subscription.
#[derive(MergedSubscription)]
pub(super) struct Subscription(
    blocks::BlockSubscription,
    ledgers::LedgerSubscription,
    followed::FollowedSubscription,
    unconfirmed::UnconfirmedSubscription,
    figures::FigureSubscription,
);

impl Subscription {
    pub(super) fn new(published: Published, live: Live, running: Arc<Running>) -> Self {
        let source = Source { published, live, running };
        Self(
            blocks::BlockSubscription(source.clone()),
            ledgers::LedgerSubscription::new(source.clone()),
            followed::FollowedSubscription::new(source.clone()),
            unconfirmed::UnconfirmedSubscription(source.clone()),
            figures::FigureSubscription(source),
        )
    }
}

/// Where the events of all subscriptions come from. Cheap to clone.
#[derive(Clone)]
struct Source {
    published: Published,
    live: Live,
    running: Arc<Running>,
}

impl Source {
    /// The state to begin with. What is published after it is told by an event to whoever listens then.
    fn head(&self) -> Result<Arc<Head>, ApiError> {
        self.published.head().ok_or_else(|| ApiError::not_ready(&self.published.state()))
    }

    /// Returns once the block of a cursor is known here. Of several servers of one chain one has a block some moments
    /// before another, and a client may come from that one to this one.
    ///
    /// Errors: CURSOR_EXPIRED if it is not known for as long as a request waits for a block, and at once if a crash took it
    /// out of the index and it is awaited no longer; NOT_READY; RESOURCE_EXHAUSTED
    /// if too many wait already.
    async fn wait_for(&self, place: ChainPlace) -> Result<(), ApiError> {
        self.head()?;
        let hash = place.hash();
        let mut looked = None;
        let mut known = || {
            // blocks come with a new tip only
            let head = self.published.head().filter(|head| looked.replace(head.tip.hash) != Some(head.tip.hash))?;
            let found = View::new(head).block_place(hash);
            found.map_err(ApiError::from).map(|place| place.map(|_| ())).transpose()
        };
        if let Some(known) = known() {
            return known;
        }
        if let Some(lost) = self.published.state().lost_block_with(hash) {
            return Err(ApiError::cursor_lost(lost));
        }
        let _place = self.running.places.take()?;
        let known = until(&self.live, Instant::now() + LONGEST, known).await;
        known.unwrap_or_else(|| Err(unknown(hash)))
    }

    /// The changes of the chain from now on, or behind a place.
    async fn chain(&self, ctx: &Context<'_>, place: Option<ChainPlace>) -> Result<Follower, ApiError> {
        if let Some(place) = place {
            self.wait_for(place).await?;
        }
        let events = self.live.subscribe_chain();
        let (head, allowance) = (self.head()?, limits(ctx)?.transaction_bytes);
        match place {
            None => Ok(Follower::at(&head, events, self.published.clone(), allowance)),
            Some(place) => Follower::after(place, &head, events, self.published.clone(), allowance),
        }
    }

    /// The reorganisations from now on.
    fn reorgs(&self, ctx: &Context<'_>) -> Result<ReorgFollower, ApiError> {
        // what became of transactions may be known only when the chain does not change any more
        let events = self.live.subscribe();
        ReorgFollower::at(self.head()?, events, self.published.clone(), limits(ctx)?.transaction_bytes)
    }

    /// What happens in the mempool from now on, or behind a place.
    fn mempool(
        &self,
        ctx: &Context<'_>,
        after: Option<MempoolPlace>,
        wanted: fn(&MempoolEventKind) -> bool,
    ) -> Result<MempoolFollower, ApiError> {
        let events = self.live.subscribe();
        let (head, allowance) = (self.head()?, limits(ctx)?.transaction_bytes);
        let sequence = match after {
            None => head.mempool.sequence(),
            Some(MempoolPlace { run, sequence }) if run == self.live.run() => sequence,
            Some(_) => {
                return Err(ApiError::cursor_expired(
                    "this cursor belongs to an earlier run of the server, whose mempool events are not stored: \
                     subscribe again, and query `mempool` again",
                ));
            }
        };
        MempoolFollower::after(sequence, wanted, head, events, self.published.clone(), allowance)
    }

    /// The subscription counts as open until these events are dropped.
    fn counted<T>(&self, events: impl Stream<Item = T> + Send + 'static) -> super::running::Counted<T> {
        Running::count(&self.running, events)
    }
}

/// The number of an event by its place in its stream.
fn seq(place: usize) -> Result<UInt53, ApiError> {
    UInt53::new(u64::try_from(place).unwrap_or(u64::MAX).saturating_add(1))
}
