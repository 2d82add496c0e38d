use std::sync::Arc;

use async_graphql::futures_util::stream::{self, Stream, StreamExt};
use async_graphql::{Context, Subscription};

use super::block::Block;
use super::chain_event::ChainEvent;
use super::error::ApiError;
use super::follow::{Change, Follower};
use super::follow_mempool::MempoolFollower;
use super::mempool_event::MempoolEvent;
use super::request::limits;
use super::resume::{ChainPlace, MempoolPlace};
use super::running::Running;
use super::scalars::UInt53;
use super::transaction::Transaction;
use crate::live::Live;
use crate::view::{self, Head, MempoolEventKind, Published, View};

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

    /// The state to begin with. What is published after it is told by an event to whoever listens then.
    fn head(&self) -> Result<Arc<Head>, ApiError> {
        self.published.head().ok_or_else(|| ApiError::not_ready(&self.published.state()))
    }

    /// The changes of the chain from now on, or behind a cursor.
    fn chain(&self, ctx: &Context<'_>, after: Option<&str>) -> Result<Follower, ApiError> {
        let events = self.live.subscribe();
        let (head, allowance) = (self.head()?, limits(ctx)?.transaction_bytes);
        match after {
            None => Ok(Follower::at(&head, events, self.published.clone(), allowance)),
            Some(cursor) => {
                Follower::after(ChainPlace::read(cursor)?, &head, events, self.published.clone(), allowance)
            }
        }
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
}

/// What a follower of the chain finds, up to its first error.
fn changes(follower: Follower) -> impl Stream<Item = Result<Change, ApiError>> + Send {
    stream::unfold(Some(follower), |follower| async {
        let mut follower = follower?;
        let found = follower.next().await?;
        let goes_on = found.is_ok().then_some(follower);
        Some((found, goes_on))
    })
}

/// What a follower of the mempool finds, up to its first error.
fn happenings(follower: MempoolFollower) -> impl Stream<Item = Result<(View, view::MempoolEvent), ApiError>> + Send {
    stream::unfold(Some(follower), |follower| async {
        let mut follower = follower?;
        let found = follower.next().await?;
        let goes_on = found.is_ok().then_some(follower);
        Some((found, goes_on))
    })
}

/// The number of an event by its place in its stream.
fn seq(place: usize) -> Result<UInt53, ApiError> {
    UInt53::new(u64::try_from(place).unwrap_or(u64::MAX).saturating_add(1))
}

/// What can be listened to. One field a subscription.
#[Subscription]
impl Subscription {
    /// Every block that joins the main chain and every block that leaves it, in order. After a reorganisation the blocks
    /// that left come first, the newest of them before the others, and then those that took their place.
    async fn chain_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Only what comes behind the event with this cursor, however long ago that was. Changes that were \
                    taken back meanwhile are left out."
        )]
        after: Option<String>,
    ) -> Result<impl Stream<Item = Result<ChainEvent, ApiError>> + use<>, ApiError> {
        let changes = changes(self.chain(ctx, after.as_deref())?).enumerate();
        let events = changes.map(|(place, change)| Ok(ChainEvent::new(change?, seq(place)?)));
        Ok(Running::count(&self.running, events))
    }

    /// Every block that joins the main chain from now on, in order, each told from a state that holds it. None is left
    /// out: a reader that is too slow is told what it missed. After a reorganisation the blocks of the new branch
    /// follow, beginning with the first above the fork.
    async fn new_block(
        &self,
        ctx: &Context<'_>,
    ) -> Result<impl Stream<Item = Result<Block, ApiError>> + use<>, ApiError> {
        let joined = changes(self.chain(ctx, None)?).filter_map(|change| async {
            let joined = change.map(|change| {
                let Change { view, block, joined } = change;
                joined.then(|| Block::new(&Arc::new(view), block))
            });
            joined.transpose()
        });
        Ok(Running::count(&self.running, joined))
    }

    /// Every transaction that enters the mempool and every one that leaves it, in order.
    async fn mempool_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Only what comes behind the event with this cursor: CURSOR_EXPIRED if that was in another run of the \
                    server, or more events ago than it remembers."
        )]
        after: Option<String>,
    ) -> Result<impl Stream<Item = Result<MempoolEvent, ApiError>> + use<>, ApiError> {
        let run = self.live.run();
        let happenings = happenings(self.mempool(ctx, after.as_deref())?).enumerate();
        let events = happenings.map(move |(place, found)| {
            let (view, event) = found?;
            Ok(MempoolEvent::new(view, event, run, seq(place)?))
        });
        Ok(Running::count(&self.running, events))
    }

    /// Every transaction that enters the mempool from now on. One that is gone again by the time it could be told is
    /// left out; `mempoolEvents` leaves out none.
    async fn unconfirmed_transaction(
        &self,
        ctx: &Context<'_>,
    ) -> Result<impl Stream<Item = Result<Transaction, ApiError>> + use<>, ApiError> {
        let added = happenings(self.mempool(ctx, None)?).filter_map(|found| async {
            match found {
                Ok((view, event)) => added(view, event.kind).transpose(),
                Err(error) => Some(Err(error)),
            }
        });
        Ok(Running::count(&self.running, added))
    }
}

/// The transaction that entered the mempool, if it is still there.
fn added(view: View, event: MempoolEventKind) -> Result<Option<Transaction>, ApiError> {
    let MempoolEventKind::Added { txid, .. } = event else { return Ok(None) };
    let Some(entry) = view.mempool().get(&txid).cloned() else { return Ok(None) };
    let found = Transaction::read(&view, |view| Ok(view.unconfirmed(&entry)))?;
    let view = Arc::new(view);
    Ok(found.map(|found| Transaction::new(&view, found)))
}
