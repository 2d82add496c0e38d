//! What there is one of in a process: since when it runs, its limits, and how many subscriptions are open.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use async_graphql::futures_util::stream::{BoxStream, Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::ApiError;
use super::features::Features;
use crate::limits::Limits;

/// A schema that is being served.
pub(super) struct Running {
    pub(super) started_at: SystemTime,
    pub(super) limits: Limits,
    pub(super) features: Features,
    pub(super) open: OpenSubscriptions,
    /// For those that wait until a block comes.
    pub(super) places: WaitingPlaces,
}

impl Running {
    /// From now on.
    pub(super) fn start(limits: &Limits, features: Features) -> Self {
        let places = WaitingPlaces::new(limits.waiting);
        let open = OpenSubscriptions::default();
        Self { started_at: SystemTime::now(), limits: *limits, features, open, places }
    }

    /// How many subscriptions are open now.
    pub(super) fn subscriptions(&self) -> u32 {
        self.open.count()
    }

    /// The events of a subscription, which counts as open until they are dropped.
    pub(super) fn count<T>(running: &Arc<Self>, events: impl Stream<Item = T> + Send + 'static) -> Counted<T> {
        Counted { events: events.boxed(), _open: running.open.one_more() }
    }
}

/// Places for requests that wait until the server has a block. Each holds memory and nothing else, but there is no other
/// end to how many there may be. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(super) struct WaitingPlaces {
    free: Arc<Semaphore>,
    most: usize,
}

impl WaitingPlaces {
    fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), most }
    }

    /// A place, until it is dropped. Errors: RESOURCE_EXHAUSTED.
    pub(super) fn take(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.free.clone().try_acquire_owned().map_err(|_| ApiError::too_many_waiting(self.most))
    }
}

/// How many subscriptions are open. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct OpenSubscriptions(Arc<AtomicU32>);

impl OpenSubscriptions {
    /// How many there are now.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// One more, until it is dropped. The schema counts each that it executes; who hands the events of one to several
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
pub(super) struct Counted<T> {
    events: BoxStream<'static, T>,
    _open: OpenSubscription,
}

impl<T> Stream for Counted<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.events.poll_next_unpin(context)
    }
}
