//! What there is one of in a process: since when it runs, its limits, and how many subscriptions are open.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use async_graphql::futures_util::stream::{BoxStream, Stream, StreamExt};

use super::features::Features;
use super::limits::Limits;
use crate::view::NodeLimits;

/// A schema that is being served.
pub(super) struct Running {
    pub(super) started_at: SystemTime,
    pub(super) limits: Limits,
    pub(super) features: Features,
    pub(super) node_limits: NodeLimits,
    subscriptions: AtomicU32,
}

impl Running {
    /// From now on.
    pub(super) fn start(limits: Limits, features: Features, node_limits: NodeLimits) -> Self {
        Self { started_at: SystemTime::now(), limits, features, node_limits, subscriptions: AtomicU32::new(0) }
    }

    /// How many subscriptions are open now.
    pub(super) fn subscriptions(&self) -> u32 {
        self.subscriptions.load(Ordering::Relaxed)
    }

    /// The events of a subscription, which counts as open until they are dropped.
    pub(super) fn count<T>(running: &Arc<Self>, events: impl Stream<Item = T> + Send + 'static) -> Counted<T> {
        running.subscriptions.fetch_add(1, Ordering::Relaxed);
        Counted { events: events.boxed(), running: running.clone() }
    }
}

/// A subscription that is open.
pub(super) struct Counted<T> {
    events: BoxStream<'static, T>,
    running: Arc<Running>,
}

impl<T> Stream for Counted<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.events.poll_next_unpin(context)
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.running.subscriptions.fetch_sub(1, Ordering::Relaxed);
    }
}
