//! Long executions let others go on.
//!
//! Resolvers read a pinned view and do not wait, so that the engine would go through a whole answer in one go, and no
//! runtime could do anything else on that thread, nor drop an execution that no client waits for any more. So fields
//! look at the time before they are resolved, and once their request's turn is over they wait for the next. While it lasts every
//! fourth looks, because that takes longer than many a field: a turn may last three fields longer.
//!
//! The events of a subscription are executed one by one, and between them nothing is: [`Events`] says which it is, so that
//! the part that drives them can tell one that takes long from one that does not come.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use async_graphql::Response;
use async_graphql::futures_util::stream::{BoxStream, Stream, StreamExt};

use crate::api::streams::resume_point::{ResumePoint, ResumeTracker};

/// How long a turn is.
const SLICE: Duration = Duration::from_millis(5);

/// How long the first turn of a query is. It may be where it keeps connections waiting; so a query that may cost more than
/// [`LIGHT`] has none, because a single field of it may take long.
const FIRST_SLICE: Duration = Duration::from_millis(2);

/// The cost of a light query at most, in units of some 0.9 us (`benches/README.md`).
const LIGHT: u64 = 10_000;

/// How long the first turn of an event is. A light one needs no other; so where many heavy ones came with it, it waits for
/// this much of each at most.
const FIRST_SLICE_OF_EVENT: Duration = Duration::from_millis(1);

/// Fields for each look at the time while a turn lasts.
const FIELDS_A_LOOK: u32 = 4;

/// When the turn of a request is over.
pub(crate) struct TimeSlice {
    started: Instant,
    /// How many fields went on. It stays where it is while they wait for the next turn, so that all of them look.
    fields: AtomicU32,
    /// In nanoseconds from then.
    over: AtomicU64,
    /// Since when something is executed, in nanoseconds from then; [`NOTHING`] while nothing is.
    executing: AtomicU64,
    /// How long its first turn is once something is executed, if that costs at most so much.
    first: (Duration, u64),
}

/// That nothing is executed.
const NOTHING: u64 = u64::MAX;

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NOTHING - 1)
}

/// While something is executed.
pub(crate) struct Executing<'t>(&'t TimeSlice);

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        self.0.executing.store(NOTHING, Ordering::Relaxed);
    }
}

impl TimeSlice {
    /// Of a query or a mutation. It has no turn before `take` or `execute` begins one.
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            fields: AtomicU32::new(0),
            over: AtomicU64::new(0),
            executing: AtomicU64::new(NOTHING),
            first: (FIRST_SLICE, LIGHT),
        }
    }

    /// Of a subscription.
    fn of_events() -> Self {
        Self { first: (FIRST_SLICE_OF_EVENT, u64::MAX), ..Self::new() }
    }

    fn elapsed(&self) -> u64 {
        nanoseconds(self.started.elapsed())
    }

    fn begin(&self, slice: Duration) {
        self.over.store(self.elapsed().saturating_add(nanoseconds(slice)), Ordering::Relaxed);
    }

    /// An answer or an event whose document counts this much in the worst case begins to be executed, and is until what is
    /// returned is dropped.
    pub(crate) fn execute(&self, worst_case: u64) -> Executing<'_> {
        self.executing.store(self.elapsed(), Ordering::Relaxed);
        let (first, most) = self.first;
        self.begin(if worst_case <= most { first } else { Duration::ZERO });
        Executing(self)
    }

    fn executing_since(&self) -> Option<Instant> {
        let since = self.executing.load(Ordering::Relaxed);
        (since != NOTHING).then(|| self.started + Duration::from_nanos(since))
    }

    /// The execution, each time the runtime comes back to it with a new turn.
    pub(crate) async fn take<T>(&self, execution: impl Future<Output = T>) -> T {
        let mut execution = pin!(execution);
        poll_fn(|context| {
            self.begin(SLICE);
            self.poll_turn(context, |context| execution.as_mut().poll(context))
        })
        .await
    }

    /// Polls again while what is polled wakes itself and the turn lasts: fields wait for each other, and the runtime has nothing to do
    /// with that.
    fn poll_turn<T>(&self, context: &Context<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let noted = Arc::new(NotedWake { waker: context.waker().clone(), is_woken: AtomicBool::new(false) });
        let waker = Waker::from(Arc::clone(&noted));
        loop {
            let polled = poll(&mut Context::from_waker(&waker));
            let goes_on = noted.is_woken.swap(false, Ordering::AcqRel) && !self.is_over();
            if polled.is_ready() || !goes_on {
                return polled;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.elapsed() >= self.over.load(Ordering::Relaxed)
    }

    /// Before a field: continues at once while the turn lasts, and else with the next.
    pub(crate) async fn wait(&self) {
        let goes_on = || {
            let fields = self.fields.load(Ordering::Relaxed);
            let goes_on = !fields.is_multiple_of(FIELDS_A_LOOK) || !self.is_over();
            if goes_on {
                // without a lock: one thread at a time resolves the fields of a request
                self.fields.store(fields.wrapping_add(1), Ordering::Relaxed);
            }
            goes_on
        };
        poll_fn(|context| {
            if goes_on() {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// A waker that also notes that it was called.
struct NotedWake {
    waker: Waker,
    is_woken: AtomicBool,
}

impl Wake for NotedWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.waker.wake_by_ref();
    }
}

/// The events of a subscription, as a stream of responses. Each time it is polled it runs for one turn at most.
pub struct Events {
    slice: Arc<TimeSlice>,
    progress: ResumeTracker,
    start: Option<ResumePoint>,
    responses: BoxStream<'static, Response>,
}

impl Events {
    /// Those that are executed with these among the data of their request.
    pub(crate) fn new(begin: impl FnOnce(Arc<TimeSlice>, ResumeTracker) -> BoxStream<'static, Response>) -> Self {
        let (slice, progress) = (Arc::new(TimeSlice::of_events()), ResumeTracker::default());
        Self { responses: begin(slice.clone(), progress.clone()), slice, progress, start: None }
    }

    /// Where a reader is that has all that was yielded, if it could go on from there: [`ResumePoint`] among the data of another
    /// request is where that begins. `None` before it has begun, too.
    #[must_use]
    pub fn place(&self) -> Option<ResumePoint> {
        self.progress.place()
    }

    /// Where a reader is that has nothing yet.
    #[must_use]
    pub fn start(&self) -> Option<ResumePoint> {
        self.start
    }

    /// The cursor of the event that was yielded last; `None` of events without cursors, and when it was taken already.
    #[must_use]
    pub fn take_cursor(&self) -> Option<Arc<str>> {
        self.progress.take_cursor()
    }

    /// Since when an event is being executed; `None` while the next is waited for.
    #[must_use]
    pub fn executing_since(&self) -> Option<Instant> {
        self.slice.executing_since()
    }
}

impl Stream for Events {
    type Item = Response;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Response>> {
        self.slice.begin(SLICE);
        let Self { slice, responses, .. } = &mut *self;
        let next = slice.poll_turn(context, |context| responses.poll_next_unpin(context));
        if self.start.is_none() {
            self.start = self.progress.place();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use async_graphql::Value;
    use async_graphql::futures_util::stream;

    use async_graphql::futures_util::future::join_all;

    use super::*;
    use crate::view::wait_once;

    /// A field that keeps its thread busy for a millisecond.
    async fn field(slice: &TimeSlice) {
        slice.wait().await;
        let end = Instant::now() + Duration::from_millis(1);
        while Instant::now() < end {}
    }

    #[tokio::test]
    async fn a_long_execution_lets_others_go_on() {
        let others = AtomicUsize::new(0);
        let slice = TimeSlice::new();
        let long = slice.take(join_all((0..200).map(|_| field(&slice))));
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

    #[test]
    fn no_field_goes_on_once_the_turn_is_over_however_lists_are_nested() {
        let (slice, resolved) = (TimeSlice::new(), AtomicUsize::new(0));
        // few enough for the engine to poll all of them each time
        let lists = join_all((0..25).map(|_| async {
            slice.wait().await;
            join_all((0..25).map(|_| async {
                slice.wait().await;
                resolved.fetch_add(1, Ordering::Relaxed);
            }))
            .await;
        }));
        let mut lists = pin!(lists);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(lists.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(resolved.load(Ordering::Relaxed), 0);
        slice.begin(Duration::from_mins(1));
        assert!(lists.as_mut().poll(&mut context).is_ready());
        assert_eq!(resolved.load(Ordering::Relaxed), 625);
    }

    #[test]
    fn what_may_cost_much_has_its_first_turn_later() {
        for (slice, worst_case, is_over) in [
            (TimeSlice::new(), LIGHT, false),
            (TimeSlice::new(), LIGHT + 1, true),
            (TimeSlice::of_events(), LIGHT + 1, false),
        ] {
            slice.begin(Duration::from_mins(1));
            let _executing = slice.execute(worst_case);
            let (waiting, mut context) = (slice.wait(), Context::from_waker(Waker::noop()));
            assert_eq!(pin!(waiting).poll(&mut context).is_pending(), is_over, "{worst_case}");
        }
    }

    #[test]
    fn fields_that_wait_for_each_other_take_one_turn() {
        /// More than the engine polls as one, in a turn that lasts however slow the machine is.
        async fn fields(slice: &TimeSlice) {
            slice.begin(Duration::from_mins(1));
            join_all((0..100).map(|_| wait_once())).await;
        }

        let slice = TimeSlice::new();
        let mut execution = pin!(slice.take(fields(&slice)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(execution.as_mut().poll(&mut context).is_ready());

        let mut events = Events::new(|slice, _| {
            let event = async move {
                let _executing = slice.execute(1);
                fields(&slice).await;
                Response::new(Value::Null)
            };
            stream::once(event).boxed()
        });
        assert!(events.poll_next_unpin(&mut context).is_ready());
    }

    #[tokio::test]
    async fn an_execution_that_is_not_waited_for_ends_with_its_turn() {
        let resolved = AtomicUsize::new(0);
        let slice = TimeSlice::new();
        let fields = (0..10_000).map(|_| async {
            field(&slice).await;
            resolved.fetch_add(1, Ordering::Relaxed);
        });
        let long = slice.take(join_all(fields));
        assert!(tokio::time::timeout(Duration::from_millis(20), long).await.is_err());
        assert!(resolved.into_inner() < 1_000);
    }

    #[tokio::test]
    async fn a_slow_event_differs_from_none_and_arrives_later() {
        let (arrive, arrived) = tokio::sync::oneshot::channel();
        let mut events = Events::new(|slice, _| {
            let event = async move {
                arrived.await.unwrap();
                let _executing = slice.execute(1);
                for _ in 0..20 {
                    field(&slice).await;
                }
                Response::new(Value::Null)
            };
            stream::once(event).boxed()
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(events.poll_next_unpin(&mut context).is_pending());
        assert_eq!(events.executing_since(), None);
        arrive.send(()).unwrap();
        let begun = Instant::now();
        assert!(events.poll_next_unpin(&mut context).is_pending());
        assert!(events.executing_since().is_some_and(|since| since >= begun && since <= Instant::now()));
        let mut turns = 1;
        while events.poll_next_unpin(&mut context).is_pending() {
            turns += 1;
        }
        // of turns of 4, 8 and 8 fields the last does not end pending
        assert!((2..=21).contains(&turns), "{turns} turns for 20 ms");
        assert_eq!(events.executing_since(), None);
    }
}
