//! The roots of the subscriptions, by what they listen to.

mod blocks;
mod figures;
mod followed;
mod ledgers;
mod unconfirmed;

use std::sync::Arc;

use async_graphql::futures_util::stream::Stream;
use async_graphql::{Context, MergedSubscription};

use super::error::ApiError;
use super::follow::Follower;
use super::follow_mempool::MempoolFollower;
use super::follow_reorgs::ReorgFollower;
use super::request::limits;
use super::resume::{ChainPlace, MempoolPlace};
use super::running::Running;
use super::scalars::UInt53;
use crate::live::Live;
use crate::view::{Head, Published};

/// What can be listened to. One field a subscription.
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
            followed::FollowedSubscription(source.clone()),
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

    /// The changes of the chain from now on, or behind a cursor.
    fn chain(&self, ctx: &Context<'_>, after: Option<&str>) -> Result<Follower, ApiError> {
        let events = self.live.subscribe_chain();
        let (head, allowance) = (self.head()?, limits(ctx)?.transaction_bytes);
        match after {
            None => Ok(Follower::at(&head, events, self.published.clone(), allowance)),
            Some(cursor) => {
                Follower::after(ChainPlace::read(cursor)?, &head, events, self.published.clone(), allowance)
            }
        }
    }

    /// The reorganisations from now on.
    fn reorgs(&self, ctx: &Context<'_>) -> Result<ReorgFollower, ApiError> {
        let events = self.live.subscribe_chain();
        ReorgFollower::at(self.head()?, events, self.published.clone(), limits(ctx)?.transaction_bytes)
    }

    /// What happens in the mempool from now on, or behind a cursor.
    fn mempool(&self, ctx: &Context<'_>, after: Option<&str>) -> Result<MempoolFollower, ApiError> {
        let events = self.live.subscribe();
        let (head, allowance) = (self.head()?, limits(ctx)?.transaction_bytes);
        let sequence = match after.map(MempoolPlace::read).transpose()? {
            None => head.mempool.sequence(),
            Some(MempoolPlace { run, sequence }) if run == self.live.run() => sequence,
            Some(_) => {
                return Err(ApiError::cursor_expired(
                    "this cursor is of another run of the server, which has forgotten what happened in the mempool \
                     then: subscribe again, and read `mempool` anew",
                ));
            }
        };
        MempoolFollower::after(sequence, head, events, self.published.clone(), allowance)
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
