//! How many requests are executed at once, where, and for how long.
//!
//! ```text
//!   request ──► a place is free ──────────────────► executed on threads of its own ──► answered
//!           ──► all are taken ──► a short queue ──┘             │
//!           ──► that is full, too: RESOURCE_EXHAUSTED           └ time is over: TIMEOUT, and it is dropped
//! ```
//!
//! ExecutionPool read the index, which keeps a thread busy and never waits. On threads of their own they cannot keep the
//! server from accepting connections, telling that it lives, or hearing that it is to stop. An execution that is dropped
//! lets go of the state that it read: an old one would keep the index from reusing its space.
//!
//! A subscription is validated and begun as a query is executed, in the same places. What it is told of then does not
//! wait behind queries, nor is it refused:
//!
//! ```text
//!   event ──► its first turn, a millisecond ──► told         the light ones, by which thousands of clients are told
//!                  │ there is more to it
//!                  └──► a place among the long ones ──► told
//!                                 └ time is over: TIMEOUT, and the subscription ends with that
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::ServerError;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::payload::internal_error;
use crate::api::code;
use crate::limits::Limits;
use crate::server::http::response::error;

/// Why something was not executed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExecutionError {
    /// Too many are, or wait.
    #[error("the server is busy: retry later")]
    Busy,
    /// It took too long.
    #[error("the request took longer than {} s", .0.as_secs_f64())]
    Late(Duration),
    /// It panicked; the log says where.
    #[error("the server failed to answer")]
    Failed,
}

impl From<ExecutionError> for ServerError {
    fn from(reason: ExecutionError) -> Self {
        match reason {
            ExecutionError::Busy => error(code::RESOURCE_EXHAUSTED, reason.to_string()),
            ExecutionError::Late(_) => error(code::TIMEOUT, reason.to_string()),
            ExecutionError::Failed => internal_error(&reason),
        }
    }
}

/// The threads, and the places on them.
pub(crate) struct ExecutionPool {
    pub(crate) threads: Threads,
    pub(crate) places: Arc<PoolSlots>,
}

/// The places, which outlive the threads in those who still have one.
pub(crate) struct PoolSlots {
    /// For queries, mutations, and the beginnings of subscriptions.
    executions: Arc<Semaphore>,
    /// For those who wait for one of these.
    queue: Semaphore,
    /// For events that take more than their first turn. Who waits for one of these is a subscription, of which there are
    /// no more than there may be.
    pub(crate) events: Arc<Semaphore>,
    pub(crate) limits: Limits,
}

impl PoolSlots {
    fn new(limits: &Limits) -> Self {
        let semaphore = |places: usize| Semaphore::new(places.min(Semaphore::MAX_PERMITS));
        let (executions, events) = (Arc::new(semaphore(limits.executions)), Arc::new(semaphore(limits.executions)));
        Self { executions, queue: semaphore(limits.waiting), events, limits: *limits }
    }

    /// A place to execute something, and until when that is to be done.
    pub(crate) async fn take(&self) -> Result<(OwnedSemaphorePermit, Instant), ExecutionError> {
        let deadline = Instant::now() + self.limits.timeout;
        let place =
            timeout_at(deadline, self.wait()).await.map_err(|_| ExecutionError::Late(self.limits.timeout))??;
        Ok((place, deadline))
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, ExecutionError> {
        if let Ok(place) = self.executions.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _waiting = self.queue.try_acquire().map_err(|_| ExecutionError::Busy)?;
        self.executions.clone().acquire_owned().await.map_err(|_| ExecutionError::Failed)
    }
}

/// A runtime that may be dropped from within another.
pub(crate) struct Threads(pub(crate) Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// An execution that ends when it is not waited for any more.
pub(crate) struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    pub(crate) fn new(task: JoinHandle<T>) -> Self {
        Self(task)
    }

    /// What comes of it.
    pub(crate) async fn end(&mut self) -> Result<T, ExecutionError> {
        (&mut self.0).await.map_err(|error| {
            tracing::error!(%error, "a request ended without a response");
            ExecutionError::Failed
        })
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ExecutionPool {
    /// Starts as many threads as there are cores. Errors: what the operating system says of that.
    pub(crate) fn start(limits: &Limits) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().thread_name("execution").enable_all().build()?;
        Ok(Self { threads: Threads(Some(runtime)), places: Arc::new(PoolSlots::new(limits)) })
    }

    /// How many are executed now, and how many wait.
    pub(crate) fn now(&self) -> (usize, usize) {
        let PoolSlots { executions, queue, limits, .. } = &*self.places;
        let taken = |of: usize, free: &Semaphore| of.saturating_sub(free.available_permits());
        (taken(limits.executions, executions), taken(limits.waiting, queue))
    }

    /// What comes of this.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        execution: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ExecutionError> {
        let (place, deadline) = self.places.take().await?;
        let Some(runtime) = &self.threads.0 else { return Err(ExecutionError::Failed) };
        // the place is free again when the execution has really ended
        let execution = async move {
            let _place = place;
            execution.await
        };
        let mut running = AbortOnDrop::new(runtime.spawn(execution));
        timeout_at(deadline, running.end()).await.map_err(|_| ExecutionError::Late(self.places.limits.timeout))?
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use tokio::sync::oneshot;

    use super::*;

    fn executions(at_once: usize, waiting: usize, timeout: Duration) -> Arc<ExecutionPool> {
        Arc::new(ExecutionPool::start(&Limits { executions: at_once, waiting, timeout, ..Limits::default() }).unwrap())
    }

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn what_finds_no_place_waits_and_what_finds_none_to_wait_is_refused() {
        let executions = executions(1, 1, LONG);
        let (finish, finished) = oneshot::channel::<()>();
        let running = tokio::spawn({
            let executions = executions.clone();
            async move { executions.run(async { finished.await.is_ok() }).await }
        });
        while executions.places.executions.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let waiting = tokio::spawn({
            let executions = executions.clone();
            async move { executions.run(future::ready(2)).await }
        });
        while executions.places.queue.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(executions.run(future::ready(3)).await, Err(ExecutionError::Busy));
        finish.send(()).unwrap();
        assert_eq!(running.await.unwrap(), Ok(true));
        assert_eq!(waiting.await.unwrap(), Ok(2));
        assert_eq!(executions.run(future::ready(4)).await, Ok(4));
    }

    /// Tells when it is dropped.
    struct Held(Option<oneshot::Sender<()>>);

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = self.0.take().map(|dropped| dropped.send(()));
        }
    }

    #[tokio::test]
    async fn what_takes_too_long_is_dropped_with_all_it_holds() {
        let timeout = Duration::from_millis(50);
        let executions = executions(1, 0, timeout);
        let (dropped, was_dropped) = oneshot::channel();
        let held = Held(Some(dropped));
        let execution = async move {
            let _held = held;
            future::pending::<()>().await;
        };
        assert_eq!(executions.run(execution).await, Err(ExecutionError::Late(timeout)));
        assert_eq!(tokio::time::timeout(LONG, was_dropped).await, Ok(Ok(())));
        while executions.places.executions.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(executions.run(future::ready(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn what_is_not_waited_for_any_more_is_dropped() {
        let executions = executions(1, 0, LONG);
        let (dropped, was_dropped) = oneshot::channel();
        let held = Held(Some(dropped));
        let execution = async move {
            let _held = held;
            future::pending::<()>().await;
        };
        assert!(tokio::time::timeout(Duration::from_millis(20), executions.run(execution)).await.is_err());
        assert_eq!(tokio::time::timeout(LONG, was_dropped).await, Ok(Ok(())));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_place() {
        let executions = executions(1, 0, LONG);
        assert_eq!(executions.run(async { assert!(LONG.is_zero(), "on purpose") }).await, Err(ExecutionError::Failed));
        while executions.places.executions.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(executions.run(future::ready(1)).await, Ok(1));
    }
}
