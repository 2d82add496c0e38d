//! A reader of a shared stream: at its own speed, and alone once it is too slow for the others.
//!
//! ```text
//!   the next payload ──► in the ring ──────────────────────► read
//!                   ├──► not yet there ────────────────────► demanded, and awaited
//!                   ├──► evicted, with a resume point ─────► an execution of its own, behind what it has
//!                   └──► evicted, without ─────────────────► an error, and the end
//! ```

use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use tokio::sync::watch;

use super::ring::RingRead;
use super::stream::{SharedStream, StartedStream, StreamPhase, StreamState};
use crate::api::{ResumePoint, code};
use crate::server::error::error;
use crate::server::execution::payload::{Payload, SubscriptionPayload};

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
