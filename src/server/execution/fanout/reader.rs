//! One who reads a shared stream: at its own speed, and alone once it is too slow for the others.
//!
//! ```text
//!   what is next ──► in the ring ──────────────────────► told
//!               ├──► not there yet ────────────────────► asked for, and awaited
//!               ├──► not there any more, with a place ─► an execution of its own, from behind what it has
//!               └──► not there any more, without ──────► told so, and ended
//! ```

use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use tokio::sync::watch;

use super::ring::Found;
use super::{Phase, SharedStream, StartedStream, State, lock};
use crate::api::{ResumePoint, code};
use crate::server::execution::payload::{Payload, SharedPayload};
use crate::server::http::response::error;

/// One of those who share a stream.
pub(crate) struct Reader {
    shared: Arc<SharedStream>,
    news: watch::Receiver<()>,
    place: u64,
    /// From where it could go on by itself, if that is not the start.
    reached: Option<ResumePoint>,
    /// Whether it was told anything.
    was_told: bool,
}

/// What a reader goes on with.
enum Reading {
    SharedStream(Reader),
    Own(BoxStream<'static, SharedPayload>),
    Over,
}

impl Reader {
    pub(crate) fn new(shared: &Arc<SharedStream>, state: &mut State) -> Self {
        if state.ring.readers() > 0 {
            state.also_open.push(shared.streams.0.open.one_more());
        }
        let place = state.ring.join();
        let reached = state.reached;
        Self { shared: shared.clone(), news: shared.news.subscribe(), place, reached, was_told: false }
    }

    pub(crate) fn beginning(self) -> StartedStream<Payload> {
        let begun = self.shared.begun.clone();
        let account = self.shared.account.clone();
        StartedStream { payloads: self.payloads(), begun, account }
    }

    fn payloads(self) -> BoxStream<'static, Payload> {
        let next = |reading| async {
            match reading {
                Reading::SharedStream(reader) => reader.next().await,
                Reading::Own(mut own) => Some((own.next().await?.payload, Reading::Own(own))),
                Reading::Over => None,
            }
        };
        stream::unfold(Reading::SharedStream(self), next).boxed()
    }

    async fn next(mut self) -> Option<(Payload, Reading)> {
        loop {
            match self.read() {
                Some(Found::Payload(told)) => {
                    (self.was_told, self.reached) = (true, told.place);
                    return Some((told.payload, Reading::SharedStream(self)));
                }
                Some(Found::Lost) => {
                    let Some(place) = self.reached.or(lock(&self.shared.state).start) else {
                        return Some((fell_behind(), Reading::Over));
                    };
                    tracing::debug!("a reader of a shared subscription fell behind and continues alone");
                    return self.go_on_alone(Some(place)).await;
                }
                // the sender is held beside the receiver
                Some(Found::Nothing) => self.news.changed().await.ok()?,
                None if self.was_told => return None,
                None => return self.go_on_alone(None).await,
            }
        }
    }

    async fn go_on_alone(self, behind: Option<ResumePoint>) -> Option<(Payload, Reading)> {
        let mut own = (self.shared.begin)(behind).payloads;
        drop(self);
        Some((own.next().await?.payload, Reading::Own(own)))
    }

    /// What is next, `None` once there will be no more. Asks for it if it is not there.
    fn read(&mut self) -> Option<Found> {
        let mut state = lock(&self.shared.state);
        let found = state.ring.read(&mut self.place);
        if found == Found::Nothing {
            match state.phase {
                Phase::OperationSummary => {}
                Phase::Resting(_) => {
                    state.phase = Phase::OperationSummary;
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
    let message = "this subscription was read too slowly, and the server no longer stores its next event: subscribe \
                   again, after the last cursor if there is one";
    Payload::failed(error(code::RESOURCE_EXHAUSTED, message))
}
