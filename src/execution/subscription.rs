//! A subscription on the threads of the pool: started there, and each event executed there when the client is ready for it.
//!
//! ```text
//!   threads of the pool                                │   the connection's
//!                                                      │
//!   api::Schema ──► Events ──► encode ──► one waits ───┼──► SubscriptionStream ──► socket
//!                     ▲                                │       │
//!                     └───────────── demand ───────────┼───────┘
//! ```
//!
//! Nothing but the first event is executed without demand: a client that does not read costs nothing, and what it is too
//! slow for remains in the schema, which knows how to resume.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant as StdInstant;

use async_graphql::futures_util::future::FutureExt;
use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::{Response, ServerError};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tracing::Instrument;

use super::pool::{AbortOnDrop, ExecutionError, ExecutionPool, PoolSlots};
use crate::api::{Events, ResumePoint};

/// What a subscription yields. Dropping it ends the subscription.
pub(crate) struct SubscriptionStream<T> {
    events: mpsc::Receiver<T>,
    demand: Arc<Notify>,
    /// Whether the next event is demanded.
    has_demand: bool,
    _running: Option<AbortOnDrop<()>>,
}

impl<T> Stream for SubscriptionStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if !self.has_demand {
            self.has_demand = true;
            self.demand.notify_one();
        }
        let event = self.events.poll_recv(context);
        if event.is_ready() {
            self.has_demand = false;
        }
        event
    }
}

/// A response of a subscription.
pub(crate) struct SubscriptionEvent {
    pub(crate) response: Response,
    /// Whether the response may be the reason why the subscription is refused.
    pub(crate) may_refuse: bool,
    /// The cursor of the event, if it has one.
    pub(crate) cursor: Option<Arc<str>>,
    /// Where a client resumes that has nothing yet.
    pub(crate) start: Option<ResumePoint>,
    /// Where a client resumes that has this event.
    pub(crate) resume_point: Option<ResumePoint>,
}

/// Whether a subscription begins, or continues one from behind an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionStart {
    /// In a slot for executions, or refused.
    New,
    /// In a slot for events: its client has a subscription, whose events are not refused.
    Resumed,
}

/// Runs a subscription on this pool, and yields its events as `encode` makes them.
///
/// `start` has no slot, and may wait. What it returns beside the events is dropped when the subscription has begun: when its
/// events were polled once, from when on every event is found.
pub(crate) fn run<T: Send + 'static, H: Send + 'static>(
    pool: &ExecutionPool,
    kind: SubscriptionStart,
    start: impl Future<Output = Result<(Events, H), ServerError>> + Send + 'static,
    encode: impl Fn(&SubscriptionEvent) -> T + Send + 'static,
) -> SubscriptionStream<T> {
    let (sender, events) = mpsc::channel(1);
    let demand = Arc::new(Notify::new());
    let mut outlet = Outlet { encode, sender, demand: demand.clone(), is_first: true, has_begun: false };
    let slots = pool.slots().clone();
    let running = async move {
        let all = AssertUnwindSafe(send_all(slots, kind, start, &mut outlet)).catch_unwind().await;
        if let Err(reason) = all.unwrap_or(Err(ExecutionError::Panicked)) {
            // once it has begun, what is not executed may be an event
            outlet.is_first &= !outlet.has_begun;
            outlet.send_error(reason.into());
        }
    };
    let running = pool.spawn(running.in_current_span());
    SubscriptionStream { events, demand, has_demand: true, _running: running }
}

/// Sends events to the [`SubscriptionStream`].
struct Outlet<T, E> {
    encode: E,
    sender: mpsc::Sender<T>,
    demand: Arc<Notify>,
    /// Whether nothing is sent yet: the next response may be the reason why the subscription is refused.
    is_first: bool,
    /// Whether the events were polled once.
    has_begun: bool,
}

impl<T, E: Fn(&SubscriptionEvent) -> T> Outlet<T, E> {
    fn send(&mut self, response: Response, events: Option<&Events>) {
        let may_refuse = std::mem::take(&mut self.is_first);
        let cursor = events.and_then(Events::take_cursor);
        let (start, resume_point) = (events.and_then(Events::start), events.and_then(Events::place));
        let event = SubscriptionEvent { response, may_refuse, cursor, start, resume_point };
        // there is space for what is demanded, and without a receiver this is about to be aborted
        let _ = self.sender.try_send((self.encode)(&event));
    }

    fn send_error(&mut self, error: ServerError) {
        self.send(Response::from_errors(vec![error]), None);
    }
}

/// Sends all events. Errors: why there are no more, which is yet to be sent.
async fn send_all<T, H, E: Fn(&SubscriptionEvent) -> T>(
    slots: Arc<PoolSlots>,
    kind: SubscriptionStart,
    start: impl Future<Output = Result<(Events, H), ServerError>>,
    outlet: &mut Outlet<T, E>,
) -> Result<(), ExecutionError> {
    let (mut events, until_begun) = match start.await {
        Ok(started) => started,
        Err(error) => {
            outlet.send_error(error);
            return Ok(());
        }
    };
    let (slot, deadline) = match kind {
        SubscriptionStart::New => slots.take().await?,
        SubscriptionStart::Resumed => slots.take_for_event(StdInstant::now()).await?,
    };
    let first = poll_fn(|context| Poll::Ready(poll(&mut events, context))).await;
    drop(until_begun);
    outlet.has_begun = true;
    let mut next = match first {
        Poll::Ready(Polled::Next(next)) => {
            drop(slot);
            next.map(|response| *response)
        }
        // in the slot that it has
        Poll::Ready(Polled::Executing(_)) => finish(&slots, &mut events, deadline, slot).await?,
        Poll::Pending => {
            drop(slot);
            next_event(&slots, &mut events).await?
        }
    };
    while let Some(response) = next {
        outlet.send(response, Some(&events));
        outlet.demand.notified().await;
        next = next_event(&slots, &mut events).await?;
    }
    Ok(())
}

/// The state of the events after a poll.
enum Polled {
    /// An event, or the end.
    Next(Option<Box<Response>>),
    /// An event that executes since then, and takes more than one poll.
    Executing(StdInstant),
}

fn poll(events: &mut Events, context: &mut Context<'_>) -> Poll<Polled> {
    match events.poll_next_unpin(context) {
        Poll::Ready(next) => Poll::Ready(Polled::Next(next.map(Box::new))),
        Poll::Pending => events.executing_since().map_or(Poll::Pending, |since| Poll::Ready(Polled::Executing(since))),
    }
}

/// The next event, whenever it happens.
async fn next_event(slots: &PoolSlots, events: &mut Events) -> Result<Option<Response>, ExecutionError> {
    match poll_fn(|context| poll(events, context)).await {
        Polled::Next(next) => Ok(next.map(|response| *response)),
        Polled::Executing(since) => {
            let (slot, deadline) = slots.take_for_event(since).await?;
            finish(slots, events, deadline, slot).await
        }
    }
}

/// Executes the rest of an event in its slot.
async fn finish(
    slots: &PoolSlots,
    events: &mut Events,
    deadline: Instant,
    _slot: OwnedSemaphorePermit,
) -> Result<Option<Response>, ExecutionError> {
    slots.by_deadline(deadline, events.next()).await
}

#[cfg(test)]
mod tests {
    use async_graphql::Request;

    use super::*;
    use crate::api::{self, Features, code};
    use crate::execution::error::outcome;
    use crate::limits::Limits;

    #[tokio::test]
    #[expect(clippy::default_trait_access, reason = "the view and the events are not for this module to name")]
    async fn a_busy_server_refuses_a_new_subscription_and_not_one_that_continues() {
        let limits = Limits { executions: 1, waiting: 0, ..Limits::default() };
        let pool = ExecutionPool::start(&limits, false).unwrap();
        let _executing = pool.slots().take().await.unwrap();
        let schema = api::schema(Default::default(), Default::default(), limits, Features::default());
        for (kind, expected) in
            [(SubscriptionStart::New, code::RESOURCE_EXHAUSTED), (SubscriptionStart::Resumed, code::NOT_READY)]
        {
            let schema = schema.clone();
            let start =
                async move { Ok((schema.subscribe(Request::new("subscription { newBlock { hash } }"), None), ())) };
            let mut outcomes = run(&pool, kind, start, |event| outcome(&event.response));
            assert_eq!(outcomes.next().await, Some(expected), "{kind:?}");
        }
    }
}
