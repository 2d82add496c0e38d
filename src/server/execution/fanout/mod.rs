//! One execution for all who subscribe to the same: events are found once, written as JSON once, and handed to each.
//!
//! ```text
//!   subscribe ──► the same document, operation and variables as of one that runs?
//!                    │ no: begin                     │ yes: join
//!                    ▼                               ▼
//!   api::Schema ──► SharedStream ── a task ──► ring.rs ──► Reader ──► socket        reader.rs
//!                    ▲ asks for more once some        Reader ──► socket
//!                    └ reader has read all            Reader ──► socket
//! ```
//!
//! Nobody waits for another. The task takes the next payload when the fastest reader wants it, so that one who reads
//! alone is served as if nothing were shared: what it is too slow for stays in the schema, which knows how to resume. Who
//! is slower than others finds what it missed in the ring. If it is not there any more, it goes on alone, with an execution
//! of its own from behind what it has; of the kinds that cannot go on from a place it is told so and ended.
//!
//! The bytes in all rings are bounded together, too. Above that the largest ring lets go of its oldest: who reads little,
//! or quickly, does not lose by those who let much lie.
//!
//! Which subscriptions may be shared, and what a newcomer gets first, is the schema's to say ([`Sharing`]). One who joins a
//! stream that goes "from now on" may be told of what happened in the second before.

mod reader;
mod ring;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_graphql::Request;
use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::api::{Account, OpenSubscription, OpenSubscriptions, ResumePoint, Sharing};
use crate::server::execution::payload::{Payload, SharedPayload};
use reader::Reader;
use ring::{Bounds, Kept, Ring};

/// What those who are slower than others may be behind by. Of large payloads at least one is kept, which all who are not
/// stuck have taken before the next comes.
const BOUNDS: Bounds = Bounds { count: 1_024, bytes: 1 << 20, all_bytes: 64 << 20 };

/// A stream of which nobody wanted more for so long is behind. It is left to its readers, who are all stuck.
const FRESH: Duration = Duration::from_secs(1);

/// What makes two subscriptions the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    document: String,
    operation: Option<String>,
    /// As JSON, the fields of objects in the order of their names.
    variables: String,
}

impl Key {
    /// How much it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.document.len() + self.operation.as_ref().map_or(0, String::len) + self.variables.len()
    }

    /// `None` if the variables cannot be written down.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let variables = serde_json::to_value(&request.variables).ok()?.to_string();
        Some(Self { document: request.query.clone(), operation: request.operation_name.clone(), variables })
    }
}

/// A stream that was asked for.
pub(crate) struct StartedStream<T = SharedPayload> {
    payloads: BoxStream<'static, T>,
    /// Cancelled once it has begun: from then on nothing that happens is missed.
    begun: CancellationToken,
    /// Says what an event costs, once that is known.
    account: Arc<Account>,
}

impl<T> StartedStream<T> {
    pub(crate) fn new(payloads: BoxStream<'static, T>, begun: CancellationToken) -> Self {
        Self { payloads, begun, account: Arc::default() }
    }

    /// The same, whose events cost what is said there.
    pub(crate) fn costing(self, account: Arc<Account>) -> Self {
        Self { account, ..self }
    }

    pub(crate) fn into_parts(self) -> (BoxStream<'static, T>, CancellationToken, Arc<Account>) {
        (self.payloads, self.begun, self.account)
    }
}

/// Begins a stream of its own, from now on or from behind a place.
type Begin = Box<dyn Fn(Option<ResumePoint>) -> StartedStream + Send + Sync>;

/// The streams that run. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Fanout(Arc<Streams>);

struct Streams {
    /// The one that newcomers join. Locked before any [`SharedStream::state`], never the other way round, and nothing is dropped
    /// meanwhile that would lock it.
    running: Mutex<HashMap<Arc<Key>, Weak<SharedStream>>>,
    /// All that there are, by their numbers. Nothing else is locked while it is.
    all: Mutex<HashMap<u64, Weak<SharedStream>>>,
    next: AtomicU64,
    open: OpenSubscriptions,
    bounds: Bounds,
    kept: Kept,
}

/// A stream with all its readers, who hold it. The last to leave ends it.
struct SharedStream {
    key: Arc<Key>,
    number: u64,
    streams: Fanout,
    begin: Begin,
    source: Mutex<BoxStream<'static, SharedPayload>>,
    begun: CancellationToken,
    account: Arc<Account>,
    state: Mutex<State>,
    /// Something was pushed, or nothing will be any more.
    news: watch::Sender<()>,
    /// Some reader wants more: one permit each time that [`Phase::OperationSummary`] begins.
    asked: Arc<Notify>,
    task: OnceLock<AbortHandle>,
}

struct State {
    ring: Ring,
    phase: Phase,
    /// Where a reader is who joined before anything was told.
    start: Option<ResumePoint>,
    /// Where a reader is who has all.
    reached: Option<ResumePoint>,
    /// Of each reader but one, for whom the schema counts the stream.
    also_open: Vec<OpenSubscription>,
}

#[derive(Clone, Copy)]
enum Phase {
    /// The next payload is awaited.
    OperationSummary,
    /// Nobody has read the newest payload, which is as old as this.
    Resting(Instant),
    /// There are no more than those in the ring.
    Ended,
}

/// A lock that a panic of another left behind is taken all the same: all that is done under them leaves them whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fanout {
    pub(crate) fn new(open: OpenSubscriptions) -> Self {
        Self::bounded(open, BOUNDS)
    }

    fn bounded(open: OpenSubscriptions, bounds: Bounds) -> Self {
        Self(Arc::new(Streams {
            running: Mutex::default(),
            all: Mutex::default(),
            next: AtomicU64::default(),
            open,
            bounds,
            kept: Kept::default(),
        }))
    }

    /// The payloads of a stream that all of the same key share. Dropping them is leaving.
    ///
    /// `begin` begins one: for all, and once more for each who joined when it was just about to end.
    pub(crate) fn join(
        &self,
        key: Key,
        sharing: Sharing,
        begin: impl Fn(Option<ResumePoint>) -> StartedStream + Send + Sync + 'static,
    ) -> StartedStream<Payload> {
        let key = Arc::new(key);
        let mut unfit: Option<Arc<SharedStream>> = None;
        loop {
            let mut running = lock(&self.0.running);
            let found = running.get(&key).and_then(Weak::upgrade);
            let found = found.filter(|found| unfit.as_ref().is_none_or(|unfit| !Arc::ptr_eq(unfit, found)));
            let Some(found) = found else {
                let shared = Arc::new(self.shared(&key, sharing, Box::new(begin)));
                lock(&self.0.all).insert(shared.number, Arc::downgrade(&shared));
                running.insert(key, Arc::downgrade(&shared));
                // dropped behind the lock, which it takes, if the source panics
                let reader;
                // who joins meanwhile waits here until it has begun, and those of other keys do not
                let mut state = lock(&shared.state);
                drop(running);
                reader = Reader::new(&shared, &mut state);
                shared.begin(&mut state);
                drop(state);
                return reader.beginning();
            };
            drop(running);
            let mut state = lock(&found.state);
            let fits = match state.phase {
                Phase::OperationSummary => true,
                Phase::Resting(since) => since.elapsed() < FRESH,
                Phase::Ended => false,
            };
            if fits {
                let reader = Reader::new(&found, &mut state);
                drop(state);
                return reader.beginning();
            }
            drop(state);
            unfit = Some(found);
        }
    }

    /// How many run.
    pub(crate) fn count(&self) -> usize {
        lock(&self.0.running).len()
    }

    fn shared(&self, key: &Arc<Key>, sharing: Sharing, begin: Begin) -> SharedStream {
        let ring = Ring::new(self.0.bounds, self.0.kept.clone(), sharing == Sharing::NewestFirst);
        let StartedStream { payloads, begun, account } = begin(None);
        SharedStream {
            key: key.clone(),
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
            streams: self.clone(),
            source: Mutex::new(payloads),
            begun,
            account,
            begin,
            // until it has begun: if that fails there is nothing to join
            state: Mutex::new(State { ring, phase: Phase::Ended, start: None, reached: None, also_open: Vec::new() }),
            news: watch::Sender::default(),
            asked: Arc::default(),
            task: OnceLock::new(),
        }
    }
}

impl Fanout {
    /// Brings the bytes in all rings within their bound, at the cost of those that have most.
    fn relieve(&self) {
        let surplus = || self.0.kept.load(Ordering::Relaxed).saturating_sub(self.0.bounds.all_bytes);
        while surplus() > 0 {
            // dropped when nothing is locked: one of them may be the last to be held
            let all: Vec<Arc<SharedStream>> = lock(&self.0.all).values().filter_map(Weak::upgrade).collect();
            let mut spare: Vec<(usize, &Arc<SharedStream>)> =
                all.iter().map(|shared| (lock(&shared.state).ring.spare(), shared)).collect();
            spare.sort_unstable_by_key(|(spare, shared)| (Reverse(*spare), shared.number));
            let Some((most, largest)) = spare.first().filter(|(most, _)| *most > 0) else { return };
            // down to the next in size, which is then as good a choice
            let next = spare.get(1).map_or(0, |(next, _)| *next);
            let bytes = surplus().min((most - next).max(1));
            lock(&largest.state).ring.relieve(bytes);
        }
    }
}

impl SharedStream {
    /// Has the first look at the source, and leaves the others to a task. What is executed is executed elsewhere.
    fn begin(self: &Arc<Self>, state: &mut State) {
        // the task looks again
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                state.phase = Phase::OperationSummary;
                self.asked.notify_one();
            }
            Poll::Ready(Some(payload)) => state.push(payload),
            Poll::Ready(None) => {}
        }
        if !matches!(state.phase, Phase::Ended) {
            let task = tokio::spawn(tell(Arc::downgrade(self), self.asked.clone()));
            // it is begun once
            let _ = self.task.set(task.abort_handle());
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<SharedPayload>> {
        lock(&self.source).poll_next_unpin(context)
    }

    fn push(&self, told: SharedPayload) {
        lock(&self.state).push(told);
        self.news.send_replace(());
        self.streams.relieve();
    }

    fn end(&self) {
        lock(&self.state).phase = Phase::Ended;
        self.news.send_replace(());
        // what it held is let go now, and not only when the last has read to the end
        let ended = std::mem::replace(&mut *lock(&self.source), stream::empty().boxed());
        drop(ended);
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
        lock(&self.streams.0.all).remove(&self.number);
        let mut running = lock(&self.streams.0.running);
        // a newcomer may have begun another meanwhile
        if running.get(&self.key).is_some_and(|found| std::ptr::eq(found.as_ptr(), self)) {
            running.remove(&self.key);
        }
    }
}

impl State {
    fn push(&mut self, told: SharedPayload) {
        // a refusal is the only answer
        let is_last = matches!(told.payload, Payload::Refused(_));
        self.start = self.start.or(told.start);
        self.reached = told.place;
        self.ring.push(told);
        self.phase = if is_last { Phase::Ended } else { Phase::Resting(Instant::now()) };
    }
}

/// Takes from the source whenever it is asked to, until there is no more or nobody is left.
async fn tell(shared: Weak<SharedStream>, asked: Arc<Notify>) {
    /// Also if the source panics: who waits for more is not left waiting.
    struct Ending(Weak<SharedStream>);

    impl Drop for Ending {
        fn drop(&mut self) {
            if let Some(shared) = self.0.upgrade() {
                shared.end();
            }
        }
    }

    let _ending = Ending(shared.clone());
    loop {
        asked.notified().await;
        // it is held only while it is looked at, so that the last reader to leave drops the source
        let next = poll_fn(|context| match shared.upgrade() {
            Some(shared) => shared.poll(context),
            None => Poll::Ready(None),
        });
        let Some(told) = next.await else { return };
        let Some(shared) = shared.upgrade() else { return };
        shared.push(told);
    }
}

#[cfg(test)]
mod tests;
