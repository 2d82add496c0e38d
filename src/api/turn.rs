//! Long executions let others go on.
//!
//! Resolvers read a pinned view and do not wait, so that the engine would go through a whole answer in one go, and no
//! runtime could do anything else on that thread, nor drop an execution that nobody waits for any more. So each field
//! looks at the time before it is resolved, and once its request's turn is over it waits for the next.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long a turn is.
const TURN: Duration = Duration::from_millis(5);

/// When the turn of a request is over.
pub(super) struct Turn {
    started: Instant,
    /// In nanoseconds from then.
    over: AtomicU64,
}

impl Turn {
    /// Its first turn begins when it is first looked at.
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), over: AtomicU64::new(0) }
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn begin(&self) {
        let turn = u64::try_from(TURN.as_nanos()).unwrap_or(u64::MAX);
        self.over.store(self.elapsed().saturating_add(turn), Ordering::Relaxed);
    }

    /// The execution, each time the runtime comes back to it with a new turn.
    pub(super) async fn take<T>(&self, execution: impl Future<Output = T>) -> T {
        let mut execution = pin!(execution);
        poll_fn(|context| {
            self.begin();
            execution.as_mut().poll(context)
        })
        .await
    }

    /// Goes on at once while the turn lasts, and else with the next.
    pub(super) async fn wait(&self) {
        poll_fn(|context| {
            if self.elapsed() < self.over.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use async_graphql::futures_util::future::join_all;

    use super::*;

    /// A field that keeps its thread busy for a millisecond.
    async fn field(turn: &Turn) {
        turn.wait().await;
        let end = Instant::now() + Duration::from_millis(1);
        while Instant::now() < end {}
    }

    #[tokio::test]
    async fn a_long_execution_lets_others_go_on() {
        let others = AtomicUsize::new(0);
        let turn = Turn::new();
        let long = turn.take(join_all((0..200).map(|_| field(&turn))));
        let other = async {
            loop {
                others.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = long => {}
            () = other => {}
        }
        let others = others.into_inner();
        assert!((10..=100).contains(&others), "others went on {others} times in 200 ms of turns of 5 ms");
    }

    #[tokio::test]
    async fn an_execution_that_is_not_waited_for_ends_with_its_turn() {
        let resolved = AtomicUsize::new(0);
        let turn = Turn::new();
        let fields = (0..10_000).map(|_| async {
            field(&turn).await;
            resolved.fetch_add(1, Ordering::Relaxed);
        });
        let long = turn.take(join_all(fields));
        assert!(tokio::time::timeout(Duration::from_millis(20), long).await.is_err());
        assert!(resolved.into_inner() < 1_000);
    }
}
