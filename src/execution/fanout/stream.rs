//! A stream that many clients read, and the table of all of them. Each reads at its own speed, and alone once it is too slow for
//! the others:
//!
//! ```text
//!   the next payload ──► in the ring ──────────────────────► read
//!                   ├──► not yet there ────────────────────► demanded, and awaited
//!                   ├──► evicted, with a resume point ─────► an execution of its own, behind what it has
//!                   └──► evicted, without ─────────────────► an error, and the end
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ring::{KeptBytes, Ring, RingBounds, RingRead};
use crate::api::{OpenSubscription, OpenSubscriptions, ResumePoint, Sharing, code};
use crate::execution::document::request_key::RequestKey;
use crate::execution::error::error;
use crate::execution::payload::{Payload, SubscriptionPayload};

/// A stream without demand for so long is behind. It is left to its readers, which are all stuck.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// A subscription that is started.
pub(crate) struct StartedStream {
    pub(crate) payloads: BoxStream<'static, SubscriptionPayload>,
    /// Cancelled once it has begun: from then on every event is found.
    pub(crate) begun: CancellationToken,
}

/// Starts an execution, from now on or from behind a point.
type Start = Box<dyn Fn(Option<ResumePoint>) -> StartedStream + Send + Sync>;

/// Streams by what they are.
type RunningStreams = HashMap<Arc<RequestKey>, Weak<SharedStream>>;

/// The streams of a server.
pub(crate) struct Streams {
    /// Those that new readers join. Locked before any [`SharedStream::state`], never the other way round, and nothing is
    /// dropped meanwhile that would lock it.
    pub(crate) running: Mutex<RunningStreams>,
    /// All streams by their numbers. Nothing else is locked while this is.
    pub(crate) all: Mutex<HashMap<u64, Weak<SharedStream>>>,
    next: AtomicU64,
    pub(crate) open: OpenSubscriptions,
    bounds: RingBounds,
    pub(crate) kept: KeptBytes,
}

/// A stream with all its readers, which own it: the last to leave ends it.
pub(crate) struct SharedStream {
    key: Arc<RequestKey>,
    number: u64,
    streams: Arc<Streams>,
    start: Start,
    source: Mutex<BoxStream<'static, SubscriptionPayload>>,
    begun: CancellationToken,
    pub(crate) state: Mutex<StreamState>,
    /// A payload was pushed, or none will be any more.
    changed: watch::Sender<()>,
    /// A reader demands more: one permit each time that [`StreamPhase::Demanded`] begins.
    demand: Arc<Notify>,
    task: OnceLock<AbortHandle>,
}

pub(crate) struct StreamState {
    ring: Ring,
    phase: StreamPhase,
    /// Where a reader resumes that joined before the first payload.
    start: Option<ResumePoint>,
    /// Where a reader resumes that has all payloads.
    resume_point: Option<ResumePoint>,
    /// Of each reader but one, for which the schema counts the stream.
    also_open: Vec<OpenSubscription>,
}

#[derive(Clone, Copy)]
enum StreamPhase {
    /// The next payload is awaited.
    Demanded,
    /// No reader has the newest payload, which is as old as this.
    Idle(Instant),
    /// There are no more payloads than those in the ring.
    Ended,
}

impl Streams {
    pub(crate) fn new(open: OpenSubscriptions, bounds: RingBounds) -> Self {
        let (running, all) = (Mutex::default(), Mutex::default());
        Self { running, all, next: AtomicU64::default(), open, bounds, kept: KeptBytes::default() }
    }

    /// Adds a stream, which is yet to begin.
    pub(crate) fn add(
        self: &Arc<Self>,
        running: &mut RunningStreams,
        key: Arc<RequestKey>,
        sharing: Sharing,
        start: Start,
    ) -> Arc<SharedStream> {
        let ring = Ring::new(self.bounds, self.kept.clone(), sharing == Sharing::NewestFirst);
        // ended until it has begun: if that fails there is nothing to join
        let state =
            StreamState { ring, phase: StreamPhase::Ended, start: None, resume_point: None, also_open: Vec::new() };
        let StartedStream { payloads, begun } = start(None);
        let shared = Arc::new(SharedStream {
            key: key.clone(),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            streams: self.clone(),
            source: Mutex::new(payloads),
            begun,
            start,
            state: Mutex::new(state),
            changed: watch::Sender::default(),
            demand: Arc::default(),
            task: OnceLock::new(),
        });
        self.all.lock().insert(shared.number, Arc::downgrade(&shared));
        running.insert(key, Arc::downgrade(&shared));
        shared
    }

    /// Evicts payloads of the largest rings until the bytes in all of them are within their bound.
    fn evict(&self) {
        let surplus = || self.kept.load(Ordering::Relaxed).saturating_sub(self.bounds.all_bytes);
        while surplus() > 0 {
            // dropped when nothing is locked: one of them may have lost its last reader
            let all: Vec<Arc<SharedStream>> = self.all.lock().values().filter_map(Weak::upgrade).collect();
            let mut spare: Vec<(usize, &Arc<SharedStream>)> =
                all.iter().map(|shared| (shared.state.lock().ring.spare(), shared)).collect();
            spare.sort_unstable_by_key(|(spare, shared)| (Reverse(*spare), shared.number));
            let Some((most, largest)) = spare.first().filter(|(most, _)| *most > 0) else { return };
            // down to the next in size, which is then as good a choice
            let next = spare.get(1).map_or(0, |(next, _)| *next);
            let bytes = surplus().min((most - next).max(1));
            largest.state.lock().ring.evict(bytes);
        }
    }
}

impl SharedStream {
    /// Polls the source once, and leaves the rest to a task. What is executed is executed elsewhere.
    pub(crate) fn begin(self: &Arc<Self>, state: &mut StreamState) {
        // the task polls again
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                state.phase = StreamPhase::Demanded;
                self.demand.notify_one();
            }
            Poll::Ready(Some(payload)) => state.push(payload),
            Poll::Ready(None) => {}
        }
        if !matches!(state.phase, StreamPhase::Ended) {
            let task = tokio::spawn(push_all(Arc::downgrade(self), self.demand.clone()));
            // it begins once
            let _ = self.task.set(task.abort_handle());
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<SubscriptionPayload>> {
        self.source.lock().poll_next_unpin(context)
    }

    fn push(&self, payload: SubscriptionPayload) {
        self.state.lock().push(payload);
        self.changed.send_replace(());
        self.streams.evict();
    }

    fn end(&self) {
        self.state.lock().phase = StreamPhase::Ended;
        self.changed.send_replace(());
        // the source is dropped now, and not when the last reader is at the end
        let ended = std::mem::replace(&mut *self.source.lock(), stream::empty().boxed());
        drop(ended);
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
        self.streams.all.lock().remove(&self.number);
        let mut running = self.streams.running.lock();
        // there may be a newer stream of this key
        if running.get(&self.key).is_some_and(|found| std::ptr::eq(found.as_ptr(), self)) {
            running.remove(&self.key);
        }
    }
}

impl StreamState {
    /// Whether a reader may join.
    pub(crate) fn is_current(&self) -> bool {
        match self.phase {
            StreamPhase::Demanded => true,
            StreamPhase::Idle(since) => since.elapsed() < FRESH,
            StreamPhase::Ended => false,
        }
    }

    fn push(&mut self, shared: SubscriptionPayload) {
        // a refusal is the only response
        let is_last = matches!(shared.payload, Payload::Refused(_));
        self.start = self.start.or(shared.start);
        self.resume_point = shared.resume_point;
        self.ring.push(shared);
        self.phase = if is_last { StreamPhase::Ended } else { StreamPhase::Idle(Instant::now()) };
    }
}

/// Pushes a payload for each demand, until there are no more or no reader is left.
async fn push_all(shared: Weak<SharedStream>, demand: Arc<Notify>) {
    /// Ends the stream even if the source panics: no reader is left waiting.
    struct EndOnDrop(Weak<SharedStream>);

    impl Drop for EndOnDrop {
        fn drop(&mut self) {
            if let Some(shared) = self.0.upgrade() {
                shared.end();
            }
        }
    }

    let _end = EndOnDrop(shared.clone());
    loop {
        demand.notified().await;
        // owned only during a poll, so that the last reader to leave drops the source
        let next = poll_fn(|context| match shared.upgrade() {
            Some(shared) => shared.poll(context),
            None => Poll::Ready(None),
        });
        let Some(payload) = next.await else { return };
        let Some(shared) = shared.upgrade() else { return };
        shared.push(payload);
    }
}

/// One client's place in a shared stream.
pub(crate) struct Reader {
    shared: Arc<SharedStream>,
    changed: watch::Receiver<()>,
    position: u64,
    /// Where it can resume alone, if that is not the start.
    resume_point: Option<ResumePoint>,
    has_read: bool,
}

/// Where the next payload comes from.
enum PayloadSource {
    Shared(Reader),
    Own(BoxStream<'static, SubscriptionPayload>),
    None,
}

impl Reader {
    pub(crate) fn new(shared: &Arc<SharedStream>, state: &mut StreamState) -> Self {
        if state.ring.readers() > 0 {
            state.also_open.push(shared.streams.open.one_more());
        }
        let position = state.ring.join();
        let resume_point = state.resume_point;
        Self { shared: shared.clone(), changed: shared.changed.subscribe(), position, resume_point, has_read: false }
    }

    pub(crate) fn into_stream(self) -> StartedStream {
        let begun = self.shared.begun.clone();
        let next = |source| async {
            match source {
                PayloadSource::Shared(reader) => reader.next().await,
                PayloadSource::Own(mut own) => Some((own.next().await?, PayloadSource::Own(own))),
                PayloadSource::None => None,
            }
        };
        StartedStream { payloads: stream::unfold(PayloadSource::Shared(self), next).boxed(), begun }
    }

    async fn next(mut self) -> Option<(SubscriptionPayload, PayloadSource)> {
        loop {
            match self.read() {
                Some(RingRead::Payload(shared)) => {
                    (self.has_read, self.resume_point) = (true, shared.resume_point);
                    return Some((shared, PayloadSource::Shared(self)));
                }
                Some(RingRead::Evicted) => {
                    let Some(point) = self.resume_point.or(self.shared.state.lock().start) else {
                        return Some((fell_behind().into(), PayloadSource::None));
                    };
                    tracing::debug!("a reader of a shared subscription fell behind and continues alone");
                    return self.continue_alone(Some(point)).await;
                }
                // the sender is owned beside the receiver
                Some(RingRead::Empty) => self.changed.changed().await.ok()?,
                None if self.has_read => return None,
                None => return self.continue_alone(None).await,
            }
        }
    }

    async fn continue_alone(self, behind: Option<ResumePoint>) -> Option<(SubscriptionPayload, PayloadSource)> {
        let mut own = (self.shared.start)(behind).payloads;
        drop(self);
        Some((own.next().await?, PayloadSource::Own(own)))
    }

    /// Reads the ring, and demands the next payload if there is none; `None` once there will be no more.
    fn read(&mut self) -> Option<RingRead> {
        let mut state = self.shared.state.lock();
        let read = state.ring.read(&mut self.position);
        if read == RingRead::Empty {
            match state.phase {
                StreamPhase::Demanded => {}
                StreamPhase::Idle(_) => {
                    state.phase = StreamPhase::Demanded;
                    self.shared.demand.notify_one();
                }
                StreamPhase::Ended => return None,
            }
        }
        Some(read)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.ring.leave(self.position);
        state.also_open.pop();
    }
}

/// The last message to a reader that cannot resume.
fn fell_behind() -> Payload {
    let message = "this subscription was read too slowly, and the server no longer stores its next event: subscribe \
                   again, after the last cursor if there is one";
    Payload::failed(error(code::RESOURCE_EXHAUSTED, message))
}
