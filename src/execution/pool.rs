//! A bounded pool of executions: how many run at once, on which threads, for how long.
//!
//! ```text
//!   request ──► a slot is free ──────────────────► executed on threads of the pool ──► response
//!           ──► all are taken ──► a short queue ──┘             │
//!           ──► that is full, too: RESOURCE_EXHAUSTED           └ after the timeout: TIMEOUT, and it is dropped
//! ```
//!
//! Executions read the index, which keeps a thread busy without waiting. On threads of their own they cannot keep the
//! server from accepting connections, reporting its health, or noticing that it is to stop. A dropped execution releases
//! the state that it read: an old one would keep the index from reusing its space.
//!
//! To wake another thread and be woken by it takes an eighth of the time of an answer that takes a millisecond. So while no
//! other has a slot, an execution begins on the thread of its connection ([`runtime`]), and continues in the pool if it is not
//! done with its first turn: validation, then two milliseconds of fields, and none if the answer may cost much. A single field may
//! take longer. Other connections may wait for all of that: of the threads of a runtime one waits for all sockets, and it
//! may be this one.
//!
//! A subscription is validated and started like a query, in the same slots. Its events do not wait behind queries and are
//! not refused. A client that is too slow for a shared subscription continues alone, which only a lack of memory refuses:
//!
//! ```text
//!   event ──► its first poll, a millisecond ──► sent         cheap events, which thousands of clients receive
//!                  │ there is more to it
//!                  └──► a slot for long events ──► sent
//!                                 └ after the timeout: TIMEOUT, and the subscription ends with that
//! ```

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::num::NonZero;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use async_graphql::ServerError;
use async_graphql::futures_util::{FutureExt, poll};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::api::code;
use crate::execution::error::{error, internal_error};
use crate::limits::Limits;

/// Why something is not executed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExecutionError {
    /// Slots and queue are full.
    #[error("the server is busy: retry later")]
    Busy,
    /// It exceeds the timeout.
    #[error("the request took longer than {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// It panicked; the log says where.
    #[error("the server failed to answer")]
    Panicked,
}

impl From<ExecutionError> for ServerError {
    fn from(reason: ExecutionError) -> Self {
        match reason {
            ExecutionError::Busy => error(code::RESOURCE_EXHAUSTED, reason.to_string()),
            ExecutionError::TimedOut(_) => error(code::TIMEOUT, reason.to_string()),
            ExecutionError::Panicked => internal_error(&reason),
        }
    }
}

/// The threads and the slots on them.
pub(crate) struct ExecutionPool {
    threads: Threads,
    slots: Arc<PoolSlots>,
    /// Whether reads of the index may wait for another machine, for as long as that takes.
    reads_wait: bool,
}

/// The slots, which outlive the threads in executions that still have one.
pub(crate) struct PoolSlots {
    /// For queries, mutations, and the starts of subscriptions.
    executions: Arc<Semaphore>,
    /// For executions that wait for one of these.
    queue: Semaphore,
    /// For events that take more than one poll. What waits for one of these is a subscription, and their number is bounded.
    events: Arc<Semaphore>,
    limits: Limits,
}

impl PoolSlots {
    fn new(limits: &Limits) -> Self {
        let semaphore = |slots: usize| Semaphore::new(slots.min(Semaphore::MAX_PERMITS));
        let (executions, events) = (Arc::new(semaphore(limits.executions)), Arc::new(semaphore(limits.executions)));
        Self { executions, queue: semaphore(limits.waiting), events, limits: *limits }
    }

    /// A slot to execute in, and the deadline of the execution.
    pub(crate) async fn take(&self) -> Result<(OwnedSemaphorePermit, Instant), ExecutionError> {
        let deadline = Instant::now() + self.limits.timeout;
        let slot = self.by_deadline(deadline, self.wait()).await??;
        Ok((slot, deadline))
    }

    /// A slot for an event that has executed since then, and its deadline.
    pub(crate) async fn take_for_event(
        &self,
        since: std::time::Instant,
    ) -> Result<(OwnedSemaphorePermit, Instant), ExecutionError> {
        let deadline = Instant::from_std(since) + self.limits.timeout;
        let slot = self.by_deadline(deadline, self.events.clone().acquire_owned()).await?;
        Ok((slot.map_err(|_| ExecutionError::Panicked)?, deadline))
    }

    /// The output of a future.
    ///
    /// Errors: it is not ready by then.
    pub(crate) async fn by_deadline<T>(
        &self,
        deadline: Instant,
        future: impl Future<Output = T>,
    ) -> Result<T, ExecutionError> {
        timeout_at(deadline, future).await.map_err(|_| ExecutionError::TimedOut(self.limits.timeout))
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, ExecutionError> {
        if let Ok(slot) = self.executions.clone().try_acquire_owned() {
            return Ok(slot);
        }
        let _waiting = self.queue.try_acquire().map_err(|_| ExecutionError::Busy)?;
        self.executions.clone().acquire_owned().await.map_err(|_| ExecutionError::Panicked)
    }
}

/// A runtime that may be dropped within another.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A task that is aborted when this is dropped.
pub(crate) struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    pub(crate) fn new(task: JoinHandle<T>) -> Self {
        Self(task)
    }

    /// The output of the task.
    pub(crate) async fn join(&mut self) -> Result<T, ExecutionError> {
        (&mut self.0).await.map_err(|error| {
            tracing::error!(%error, "a request ended without a response");
            ExecutionError::Panicked
        })
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The stack of a thread, in bytes: some 20 KiB of it are needed for each level of nested fields, of which there may be 64, and four
/// times as much by a program without optimisation.
const STACK: usize = 8 << 20;

const THREAD_NAME: &str = "execution";

/// The most threads beside those of the cores, for executions and events that wait for another machine.
const MOST_WAITING: usize = 64;

thread_local! {
    /// Whether the thread has [`STACK`].
    static HAS_STACK: Cell<bool> = const { Cell::new(false) };
}

/// A runtime for connections, on whose threads executions may begin.
///
/// Errors: the operating system refuses.
pub fn runtime() -> io::Result<Runtime> {
    on_threads_with_stack(&mut Builder::new_multi_thread())
}

fn on_threads_with_stack(builder: &mut Builder) -> io::Result<Runtime> {
    builder.enable_all().thread_stack_size(STACK).on_thread_start(|| HAS_STACK.set(true)).build()
}

impl ExecutionPool {
    /// Starts as many threads as there are cores; and if reads of the index may wait for another machine, one for each slot
    /// beside them, up to [`MOST_WAITING`], so that executions that wait do not keep others from their threads.
    ///
    /// Errors: the operating system refuses.
    pub(crate) fn start(limits: &Limits, reads_wait: bool) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.thread_name(THREAD_NAME).thread_stack_size(STACK).enable_all();
        if reads_wait {
            let cores = available_parallelism().map_or(1, NonZero::get);
            builder.worker_threads(cores + limits.executions.saturating_mul(2).min(MOST_WAITING));
        }
        let runtime = builder.build()?;
        Ok(Self { threads: Threads(Some(runtime)), slots: Arc::new(PoolSlots::new(limits)), reads_wait })
    }

    /// How many executions run now, and how many wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let PoolSlots { executions, queue, limits, .. } = &*self.slots;
        let taken = |of: usize, free: &Semaphore| of.saturating_sub(free.available_permits());
        (taken(limits.executions, executions), taken(limits.waiting, queue))
    }

    pub(crate) fn slots(&self) -> &Arc<PoolSlots> {
        &self.slots
    }

    /// Spawns a task on the threads of the pool, outside of its slots. `None` once the pool stops.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<AbortOnDrop<T>> {
        self.threads.0.as_ref().map(|threads| AbortOnDrop::new(threads.spawn(task)))
    }

    /// Executes in a slot.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        execution: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ExecutionError> {
        let (slot, deadline) = self.slots.take().await?;
        // the slot is free when the execution has really ended
        let execution = async move {
            let _slot = slot;
            execution.await
        };
        let mut execution = Box::pin(AssertUnwindSafe(execution).catch_unwind());
        if self.may_begin_here()
            && let Poll::Ready(output) = poll!(&mut execution)
        {
            return output.map_err(|panic| panicked(panic.as_ref()));
        }
        let mut running = self.spawn(execution).ok_or(ExecutionError::Panicked)?;
        self.slots.by_deadline(deadline, running.join()).await??.map_err(|panic| panicked(panic.as_ref()))
    }

    /// Whether an execution that has taken a slot may begin on this thread: no other has one.
    fn may_begin_here(&self) -> bool {
        let has_others = || Handle::try_current().is_ok_and(|runtime| runtime.metrics().num_workers() > 1);
        !self.reads_wait && HAS_STACK.get() && self.load().0 == 1 && has_others()
    }
}

fn panicked(panic: &(dyn Any + Send)) -> ExecutionError {
    let reason = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref().map(String::as_str));
    tracing::error!(reason, "a request ended without a response");
    ExecutionError::Panicked
}

#[cfg(test)]
mod tests {
    use std::future;
    use std::thread::{self, ThreadId};

    use tokio::sync::oneshot;

    use super::*;

    fn pool(at_once: usize, waiting: usize, timeout: Duration) -> Arc<ExecutionPool> {
        let limits = Limits { executions: at_once, waiting, timeout, ..Limits::default() };
        Arc::new(ExecutionPool::start(&limits, false).unwrap())
    }

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn executions_that_wait_for_a_store_leave_threads_to_others() {
        let cores = available_parallelism().unwrap().get();
        let limits = Limits { executions: cores + 2, ..Limits::default() };
        let pool = Arc::new(ExecutionPool::start(&limits, true).unwrap());
        let (answer, answered) = std::sync::mpsc::channel::<()>();
        let answered = Arc::new(std::sync::Mutex::new(answered));
        // each keeps its thread, as a read of a missing block does, until the last one has run
        let waiting: Vec<_> = (0..=cores)
            .map(|_| {
                let (pool, answered) = (pool.clone(), answered.clone());
                tokio::spawn(async move { pool.run(async move { answered.lock().unwrap().recv().is_ok() }).await })
            })
            .collect();
        while pool.load().0 < waiting.len() {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(future::ready(16)).await.unwrap(), 16);
        for _ in &waiting {
            answer.send(()).unwrap();
        }
        for waiting in waiting {
            assert!(waiting.await.unwrap().unwrap());
        }
    }

    #[tokio::test]
    async fn executions_beyond_the_slots_wait_and_beyond_the_queue_are_refused() {
        let pool = pool(1, 1, LONG);
        let (finish, finished) = oneshot::channel::<()>();
        let running = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(async { finished.await.is_ok() }).await }
        });
        while pool.slots.executions.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(future::ready(2)).await }
        });
        while pool.slots.queue.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(future::ready(3)).await, Err(ExecutionError::Busy));
        finish.send(()).unwrap();
        assert_eq!(running.await.unwrap(), Ok(true));
        assert_eq!(waiting.await.unwrap(), Ok(2));
        assert_eq!(pool.run(future::ready(4)).await, Ok(4));
    }

    /// Sends when it is dropped.
    struct SendOnDrop(Option<oneshot::Sender<()>>);

    impl Drop for SendOnDrop {
        fn drop(&mut self) {
            let _ = self.0.take().map(|dropped| dropped.send(()));
        }
    }

    #[tokio::test]
    async fn an_execution_past_its_deadline_is_dropped() {
        let timeout = Duration::from_millis(50);
        let pool = pool(1, 0, timeout);
        let (dropped, was_dropped) = oneshot::channel();
        let guard = SendOnDrop(Some(dropped));
        let execution = async move {
            let _guard = guard;
            future::pending::<()>().await;
        };
        assert_eq!(pool.run(execution).await, Err(ExecutionError::TimedOut(timeout)));
        assert_eq!(tokio::time::timeout(LONG, was_dropped).await, Ok(Ok(())));
        while pool.slots.executions.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(future::ready(1)).await, Ok(1));
    }

    /// Where an execution has its first turn, and where its second.
    #[derive(Debug, PartialEq)]
    enum Place {
        Connection,
        Pool,
        Elsewhere,
    }

    fn place(connection: ThreadId) -> Place {
        match thread::current() {
            current if current.id() == connection => Place::Connection,
            current if current.name() == Some(THREAD_NAME) => Place::Pool,
            _ => Place::Elsewhere,
        }
    }

    /// As a connection of the runtime requests it.
    fn places(runtime: &Runtime, pool: ExecutionPool) -> (Place, Place) {
        let connection = runtime.spawn(async move {
            let connection = thread::current().id();
            let execution = async move {
                let first = place(connection);
                tokio::task::yield_now().await;
                (first, place(connection))
            };
            (pool.run(execution).await.unwrap(), pool)
        });
        runtime.block_on(connection).unwrap().0
    }

    #[test]
    fn an_execution_begins_on_the_thread_of_its_connection_while_no_other_has_a_slot() {
        let pool = |reads_wait| {
            let limits = Limits { executions: 2, timeout: LONG, ..Limits::default() };
            ExecutionPool::start(&limits, reads_wait).unwrap()
        };
        let connections = on_threads_with_stack(Builder::new_multi_thread().worker_threads(2)).unwrap();
        assert_eq!(places(&connections, pool(false)), (Place::Connection, Place::Pool));
        assert_eq!(places(&connections, pool(true)), (Place::Pool, Place::Pool), "it may wait for another machine");

        let busy = pool(false);
        let _executing = busy.slots.executions.clone().try_acquire_owned().unwrap();
        assert_eq!(places(&connections, busy), (Place::Pool, Place::Pool), "another one executes");

        let single = on_threads_with_stack(Builder::new_multi_thread().worker_threads(1)).unwrap();
        assert_eq!(places(&single, pool(false)), (Place::Pool, Place::Pool), "nothing else could go on");
        let small = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        assert_eq!(places(&small, pool(false)), (Place::Pool, Place::Pool), "the stack may be too small");
    }

    #[test]
    fn a_panic_on_the_thread_of_a_connection_is_an_error_and_frees_its_slot() {
        let connections = on_threads_with_stack(Builder::new_multi_thread().worker_threads(2)).unwrap();
        let pool = pool(1, 0, LONG);
        for _ in 0..2 {
            let pool = pool.clone();
            let connection = async move { pool.run(async { assert!(LONG.is_zero(), "on purpose") }).await };
            assert_eq!(connections.block_on(connections.spawn(connection)).unwrap(), Err(ExecutionError::Panicked));
        }
    }

    #[tokio::test]
    async fn an_abandoned_execution_is_dropped() {
        let pool = pool(1, 0, LONG);
        let (dropped, was_dropped) = oneshot::channel();
        let guard = SendOnDrop(Some(dropped));
        let execution = async move {
            let _guard = guard;
            future::pending::<()>().await;
        };
        assert!(tokio::time::timeout(Duration::from_millis(20), pool.run(execution)).await.is_err());
        assert_eq!(tokio::time::timeout(LONG, was_dropped).await, Ok(Ok(())));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_slot() {
        let pool = pool(1, 0, LONG);
        assert_eq!(pool.run(async { assert!(LONG.is_zero(), "on purpose") }).await, Err(ExecutionError::Panicked));
        while pool.slots.executions.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(future::ready(1)).await, Ok(1));
    }
}
