//! The open subscriptions, counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use async_graphql::futures_util::stream::{BoxStream, Stream, StreamExt};

/// How many subscriptions are open. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct OpenSubscriptions(Arc<AtomicU32>);

impl OpenSubscriptions {
    /// How many there are now.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// One more, until it is dropped. The schema counts each that it executes; the part that hands the events of one to several
    /// clients counts the others.
    #[must_use]
    pub fn one_more(&self) -> OpenSubscription {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenSubscription(self.clone())
    }
}

/// One of the subscriptions that are open.
#[derive(Debug)]
pub struct OpenSubscription(OpenSubscriptions);

impl Drop for OpenSubscription {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The events of a subscription that is open.
pub(crate) struct CountedEvents<T> {
    events: BoxStream<'static, T>,
    _open: OpenSubscription,
}

impl<T> CountedEvents<T> {
    /// These events, one more of the open subscriptions until they are dropped.
    pub(crate) fn new(events: impl Stream<Item = T> + Send + 'static, open: &OpenSubscriptions) -> Self {
        Self { events: events.boxed(), _open: open.one_more() }
    }
}

impl<T> Stream for CountedEvents<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.events.poll_next_unpin(context)
    }
}
