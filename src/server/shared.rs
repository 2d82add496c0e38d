//! One execution for all who subscribe to the same: events are found once, written as JSON once, and handed to each.
//!
//! ```text
//!   subscribe ──► the same document, operation and variables as of one that runs?
//!                    │ no: begin                     │ yes: join
//!                    ▼                               ▼
//!   api::Schema ──► Shared ── a task ──► ring.rs ──► Reader ──► socket
//!                    ▲ asks for more once some        Reader ──► socket
//!                    └ reader has read all            Reader ──► socket
//! ```
//!
//! Nobody waits for another. The task takes the next payload when the fastest reader wants it, so that one who reads
//! alone is served as if nothing were shared: what it is too slow for stays in the schema, which knows how to resume. Who
//! is slower than others finds what it missed in the ring, and if it is not there any more is told so and ended.
//!
//! Which subscriptions may be shared, and what a newcomer gets first, is the schema's to say ([`Sharing`]). One who joins a
//! stream that goes "from now on" may be told of what happened in the second before.

mod ring;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::{Request, Response, ServerError};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::payload::Payload;
use crate::api::{OpenSubscription, OpenSubscriptions, Sharing, code};
use ring::{Bounds, Found, Kept, Ring};

/// What those who are slower than others may be behind by. Of large payloads at least one is kept, which all who are not
/// stuck have taken before the next comes.
const BOUNDS: Bounds = Bounds { count: 1_024, bytes: 1 << 20, all_bytes: 64 << 20 };

/// A stream of which nobody wanted more for so long is behind. It is left to its readers, who are all stuck.
const FRESH: Duration = Duration::from_secs(1);

/// What makes two subscriptions the same.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    document: String,
    operation: Option<String>,
    /// As JSON, the fields of objects in the order of their names.
    variables: String,
}

impl Key {
    /// `None` if the variables cannot be written down.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let variables = serde_json::to_value(&request.variables).ok()?.to_string();
        Some(Self { document: request.query.clone(), operation: request.operation_name.clone(), variables })
    }
}

/// Begins a stream of its own.
type Begin = Box<dyn Fn() -> BoxStream<'static, Payload> + Send + Sync>;

/// The streams that run. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(super) struct SharedStreams(Arc<Streams>);

struct Streams {
    /// The one that newcomers join. Locked before any [`Shared::state`], never the other way round, and nothing is dropped
    /// meanwhile that would lock it.
    running: Mutex<HashMap<Arc<Key>, Weak<Shared>>>,
    open: OpenSubscriptions,
    bounds: Bounds,
    kept: Kept,
}

/// A stream with all its readers, who hold it. The last to leave ends it.
struct Shared {
    key: Arc<Key>,
    streams: SharedStreams,
    begin: Begin,
    source: Mutex<BoxStream<'static, Payload>>,
    state: Mutex<State>,
    /// Something was pushed, or nothing will be any more.
    news: watch::Sender<()>,
    /// Some reader wants more: one permit each time that [`Phase::Asked`] begins.
    asked: Arc<Notify>,
    task: OnceLock<AbortHandle>,
}

struct State {
    ring: Ring,
    phase: Phase,
    /// Of each reader but one, for whom the schema counts the stream.
    also_open: Vec<OpenSubscription>,
}

#[derive(Clone, Copy)]
enum Phase {
    /// The next payload is awaited.
    Asked,
    /// Nobody has read the newest payload, which is as old as this.
    Resting(Instant),
    /// There are no more than those in the ring.
    Ended,
}

/// A lock that a panic of another left behind is taken all the same: all that is done under them leaves them whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedStreams {
    pub(super) fn new(open: OpenSubscriptions) -> Self {
        Self::bounded(open, BOUNDS)
    }

    fn bounded(open: OpenSubscriptions, bounds: Bounds) -> Self {
        Self(Arc::new(Streams { running: Mutex::default(), open, bounds, kept: Kept::default() }))
    }

    /// The payloads of a stream that all of the same key share. It has begun when this returns. Dropping them is leaving.
    ///
    /// `begin` begins one: for all, and once more for each who joined when it was just about to end.
    pub(super) fn join(
        &self,
        key: Key,
        sharing: Sharing,
        begin: impl Fn() -> BoxStream<'static, Payload> + Send + Sync + 'static,
    ) -> BoxStream<'static, Payload> {
        let key = Arc::new(key);
        let mut unfit: Option<Arc<Shared>> = None;
        loop {
            let mut running = lock(&self.0.running);
            let found = running.get(&key).and_then(Weak::upgrade);
            let found = found.filter(|found| unfit.as_ref().is_none_or(|unfit| !Arc::ptr_eq(unfit, found)));
            let Some(found) = found else {
                let shared = Arc::new(self.shared(&key, sharing, Box::new(begin)));
                running.insert(key, Arc::downgrade(&shared));
                // dropped behind the lock, which it takes, if the source panics
                let reader;
                // who joins meanwhile waits here until it has begun, and those of other keys do not
                let mut state = lock(&shared.state);
                drop(running);
                reader = Reader::new(&shared, &mut state);
                shared.begin(&mut state);
                drop(state);
                return reader.payloads();
            };
            drop(running);
            let mut state = lock(&found.state);
            let fits = match state.phase {
                Phase::Asked => true,
                Phase::Resting(since) => since.elapsed() < FRESH,
                Phase::Ended => false,
            };
            if fits {
                let reader = Reader::new(&found, &mut state);
                drop(state);
                return reader.payloads();
            }
            drop(state);
            unfit = Some(found);
        }
    }

    fn shared(&self, key: &Arc<Key>, sharing: Sharing, begin: Begin) -> Shared {
        let ring = Ring::new(self.0.bounds, self.0.kept.clone(), sharing == Sharing::NewestFirst);
        Shared {
            key: key.clone(),
            streams: self.clone(),
            source: Mutex::new(begin()),
            begin,
            // until it has begun: if that fails there is nothing to join
            state: Mutex::new(State { ring, phase: Phase::Ended, also_open: Vec::new() }),
            news: watch::Sender::default(),
            asked: Arc::default(),
            task: OnceLock::new(),
        }
    }
}

impl Shared {
    /// Has the first look at the source, so that whatever happens from now on is told, and leaves the others to a task.
    fn begin(self: &Arc<Self>, state: &mut State) {
        // the task looks again
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                state.phase = Phase::Asked;
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

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Payload>> {
        lock(&self.source).poll_next_unpin(context)
    }

    fn push(&self, payload: Payload) {
        lock(&self.state).push(payload);
        self.news.send_replace(());
    }

    fn end(&self) {
        lock(&self.state).phase = Phase::Ended;
        self.news.send_replace(());
        // what it held is let go now, and not only when the last has read to the end
        let ended = std::mem::replace(&mut *lock(&self.source), stream::empty().boxed());
        drop(ended);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
        let mut running = lock(&self.streams.0.running);
        // a newcomer may have begun another meanwhile
        if running.get(&self.key).is_some_and(|found| std::ptr::eq(found.as_ptr(), self)) {
            running.remove(&self.key);
        }
    }
}

impl State {
    fn push(&mut self, payload: Payload) {
        // a refusal is the only answer
        let is_last = matches!(payload, Payload::Refused(_));
        self.ring.push(payload);
        self.phase = if is_last { Phase::Ended } else { Phase::Resting(Instant::now()) };
    }
}

/// Takes from the source whenever it is asked to, until there is no more or nobody is left.
async fn tell(shared: Weak<Shared>, asked: Arc<Notify>) {
    /// Also if the source panics: who waits for more is not left waiting.
    struct Ending(Weak<Shared>);

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
        let Some(payload) = next.await else { return };
        let Some(shared) = shared.upgrade() else { return };
        shared.push(payload);
    }
}

/// One of those who share a stream.
struct Reader {
    shared: Arc<Shared>,
    news: watch::Receiver<()>,
    place: u64,
    /// Whether it was told anything.
    was_told: bool,
}

/// What a reader goes on with.
enum Reading {
    Shared(Reader),
    Own(BoxStream<'static, Payload>),
    Over,
}

impl Reader {
    fn new(shared: &Arc<Shared>, state: &mut State) -> Self {
        if state.ring.readers() > 0 {
            state.also_open.push(shared.streams.0.open.one_more());
        }
        let place = state.ring.join();
        Self { shared: shared.clone(), news: shared.news.subscribe(), place, was_told: false }
    }

    fn payloads(self) -> BoxStream<'static, Payload> {
        let next = |reading| async {
            match reading {
                Reading::Shared(reader) => reader.next().await,
                Reading::Own(mut own) => Some((own.next().await?, Reading::Own(own))),
                Reading::Over => None,
            }
        };
        stream::unfold(Reading::Shared(self), next).boxed()
    }

    async fn next(mut self) -> Option<(Payload, Reading)> {
        loop {
            match self.read() {
                Some(Found::Payload(payload)) => {
                    self.was_told = true;
                    return Some((payload, Reading::Shared(self)));
                }
                Some(Found::Lost) => return Some((fell_behind(), Reading::Over)),
                // the sender is held beside the receiver
                Some(Found::Nothing) => self.news.changed().await.ok()?,
                None if self.was_told => return None,
                None => {
                    let mut own = (self.shared.begin)();
                    drop(self);
                    return Some((own.next().await?, Reading::Own(own)));
                }
            }
        }
    }

    /// What is next, `None` once there will be no more. Asks for it if it is not there.
    fn read(&mut self) -> Option<Found> {
        let mut state = lock(&self.shared.state);
        let found = state.ring.read(&mut self.place);
        if found == Found::Nothing {
            match state.phase {
                Phase::Asked => {}
                Phase::Resting(_) => {
                    state.phase = Phase::Asked;
                    self.shared.asked.notify_one();
                }
                Phase::Ended => return None,
            }
        }
        Some(found)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.ring.leave(self.place);
        state.also_open.pop();
    }
}

/// The last that is told to a reader who lost its place.
fn fell_behind() -> Payload {
    let message = "this subscription was read too slowly, and what would come next is not kept any more: subscribe again, \
                   behind the last cursor if there is one";
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code::RESOURCE_EXHAUSTED);
    // not the first answer: the request was executed
    Payload::new(&Response::from_errors(vec![error]), false)
}

#[cfg(test)]
mod tests;
