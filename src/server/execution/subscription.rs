//! A subscription on the threads of executions: begun there, and each event executed there, once it is asked for.
//!
//! ```text
//!   threads of executions                             │   the connection's
//!                                                     │
//!   api::Schema ──► Events ──► write ──► one waits ───┼──► SubscriptionStream ──► socket
//!                     ▲                               │       │
//!                     └─────────────── asked ─────────┼───────┘
//! ```
//!
//! Nothing is executed before it is asked for, but for the first: a client that does not read costs nothing, and what it
//! is too slow for stays in the schema, which knows how to resume.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant as Moment;

use async_graphql::futures_util::future::FutureExt;
use async_graphql::futures_util::stream::{Stream, StreamExt};
use async_graphql::{Response, ServerError};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::pool::{AbortOnDrop, ExecutionError, ExecutionPool, PoolSlots};
use crate::api::{Events, ResumePoint};

/// What a subscription yields. Dropping it ends the subscription.
pub(crate) struct SubscriptionStream<T> {
    told: mpsc::Receiver<T>,
    asked: Arc<Notify>,
    /// Whether the next was asked for.
    is_asked: bool,
    _running: Option<AbortOnDrop<()>>,
}

impl<T> Stream for SubscriptionStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if !self.is_asked {
            self.is_asked = true;
            self.asked.notify_one();
        }
        let told = self.told.poll_recv(context);
        if told.is_ready() {
            self.is_asked = false;
        }
        told
    }
}

impl ExecutionPool {
    /// What comes of the events that `begin` gives once they may be executed, each as `write` makes it, which is given with
    /// it whether the subscription may be refused by it still, and where its reader is then. What else `begin` gives is held until they have begun:
    /// until they were looked at once, from when on nothing that happens is missed.
    ///
    /// `begin` has no place, and may wait.
    pub(crate) fn follow<T: Send + 'static, H: Send + 'static>(
        &self,
        begin: impl Future<Output = Result<(Events, H), ServerError>> + Send + 'static,
        write: impl Fn(Response, bool, ResumePoints) -> T + Send + 'static,
    ) -> SubscriptionStream<T> {
        let (teller, told) = mpsc::channel(1);
        let asked = Arc::new(Notify::new());
        let mut telling = Telling { write, teller, asked: asked.clone(), is_first: true, has_begun: false };
        let places = self.places.clone();
        let telling = async move {
            let all = AssertUnwindSafe(tell_all(places, begin, &mut telling)).catch_unwind().await;
            let end = all.unwrap_or(Err(ExecutionError::Failed));
            if let Err(reason) = end {
                // once it has begun an event may be what was not executed
                telling.is_first &= !telling.has_begun;
                telling.tell(Response::from_errors(vec![reason.into()]), ResumePoints::default());
            }
        };
        let running = self.threads.0.as_ref().map(|threads| AbortOnDrop::new(threads.spawn(telling.in_current_span())));
        SubscriptionStream { told, asked, is_asked: true, _running: running }
    }
}

/// Where readers of a subscription are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResumePoints {
    /// Who have nothing yet.
    pub(crate) start: Option<ResumePoint>,
    /// Who have what was told last.
    pub(crate) place: Option<ResumePoint>,
}

/// The way to the client.
struct Telling<T, W> {
    write: W,
    teller: mpsc::Sender<T>,
    asked: Arc<Notify>,
    /// Whether nothing was sent: what is next may be why the subscription is refused.
    is_first: bool,
    /// Whether it was looked at once, so that what happens from then on is not missed.
    has_begun: bool,
}

impl<T, W: Fn(Response, bool, ResumePoints) -> T> Telling<T, W> {
    fn tell(&mut self, response: Response, reached: ResumePoints) {
        let is_first = std::mem::take(&mut self.is_first);
        // there is room for what was asked for, and if nobody is there any more this is about to end
        let _ = self.teller.try_send((self.write)(response, is_first, reached));
    }
}

/// Tells all until there is no more. Errors: why there is no more, which is yet to be told.
async fn tell_all<T, H, W: Fn(Response, bool, ResumePoints) -> T>(
    places: Arc<PoolSlots>,
    begin: impl Future<Output = Result<(Events, H), ServerError>>,
    telling: &mut Telling<T, W>,
) -> Result<(), ExecutionError> {
    let (mut events, held) = match begin.await {
        Ok(ready) => ready,
        Err(error) => {
            telling.tell(Response::from_errors(vec![error]), ResumePoints::default());
            return Ok(());
        }
    };
    let (place, deadline) = places.take().await?;
    let first = poll_fn(|context| Poll::Ready(look(&mut events, context))).await;
    drop(held);
    telling.has_begun = true;
    let mut next = match first {
        Poll::Ready(Look::Next(next)) => {
            drop(place);
            next.map(|response| *response)
        }
        // in the place that it has
        Poll::Ready(Look::Executing(_)) => places.rest(&mut events, deadline, place).await?,
        Poll::Pending => {
            drop(place);
            places.next(&mut events).await?
        }
    };
    while let Some(response) = next {
        telling.tell(response, ResumePoints { start: events.start(), place: events.place() });
        telling.asked.notified().await;
        next = places.next(&mut events).await?;
    }
    Ok(())
}

/// What is found where events come from.
enum Look {
    /// One, or that there are no more.
    Next(Option<Box<Response>>),
    /// One that is being executed since then, and was not done in its first turn.
    Executing(Moment),
}

fn look(events: &mut Events, context: &mut Context<'_>) -> Poll<Look> {
    match events.poll_next_unpin(context) {
        Poll::Ready(next) => Poll::Ready(Look::Next(next.map(Box::new))),
        Poll::Pending => events.executing_since().map_or(Poll::Pending, |since| Poll::Ready(Look::Executing(since))),
    }
}

impl PoolSlots {
    /// The next event, however long it does not come.
    async fn next(&self, events: &mut Events) -> Result<Option<Response>, ExecutionError> {
        match poll_fn(|context| look(events, context)).await {
            Look::Next(next) => Ok(next.map(|response| *response)),
            Look::Executing(since) => {
                let deadline = Instant::from_std(since) + self.limits.timeout;
                let late = |_| ExecutionError::Late(self.limits.timeout);
                let place = timeout_at(deadline, self.events.clone().acquire_owned()).await.map_err(late)?;
                let place = place.map_err(|_| ExecutionError::Failed)?;
                self.rest(events, deadline, place).await
            }
        }
    }

    /// The rest of an event that is being executed, in its place.
    async fn rest(
        &self,
        events: &mut Events,
        deadline: Instant,
        _place: OwnedSemaphorePermit,
    ) -> Result<Option<Response>, ExecutionError> {
        timeout_at(deadline, events.next()).await.map_err(|_| ExecutionError::Late(self.limits.timeout))
    }
}
