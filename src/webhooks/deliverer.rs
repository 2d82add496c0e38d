//! Delivers the events of one hook, one after the other.
//!
//! ```text
//!   ┌─► next event of the stream ──► journal ──► attempt ──► 2xx ───────────────────────────► journal ─┐
//!   │        │                                      │  ▲                                        ▲      │
//!   │        └ cursor leads nowhere:                │  └── backoff ◄─┐                          │      │
//!   │          webhook.gap, from now on             └──► failed ─────┴─► last attempt: dead letter     │
//!   └──────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! While an attempt takes long, the stream is closed: it keeps a state of the index in use. It is opened again behind the
//! cursor.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::backoff::Backoff;
use super::client::{DeliveryFailure, MessageSender};
use super::clock::now;
use super::dead_letters::DeadLetters;
use super::event_source::EventSource;
use super::hook::Hook;
use super::journal::{HookJournal, HookPosition};
use super::message::HookMessage;
use super::metrics::HookMetrics;
use super::subscription::{self, EventDetail, StreamItem};
use crate::api::{Schema, code};

/// How long the stream stays open while a message is being sent: as long as a subscription may keep a state.
const STREAM_LEASE: Duration = Duration::from_secs(3);
/// A stream that has no event for so long has none that waits.
const IDLE_STREAM: Duration = Duration::from_millis(200);
/// The pauses before a stream that failed is opened again.
const STREAM_BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };
/// The pause while the index is not ready.
const READY_PAUSE: Duration = Duration::from_millis(250);
/// The code of a gap behind which another list is watched, and why it is one.
const WATCH_CHANGED: &str = "WATCH_CHANGED";
const OTHER_WATCH: &str = "the hook watches another list than the one whose position is stored";

/// Delivers the events of one hook.
pub(crate) struct Deliverer {
    pub(crate) hook: Arc<Hook>,
    pub(crate) schema: Schema,
    pub(crate) journal: HookJournal,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) metrics: Arc<HookMetrics>,
    pub(crate) sender: MessageSender,
}

impl Deliverer {
    /// Delivers until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut position = self.begin().await;
        let mut source = EventSource::default();
        loop {
            let message = if let Some(message) = position.pending.take() {
                message
            } else {
                let message = self.next(&mut source, &position).await;
                position.pending = Some(message.clone());
                self.store(&position).await;
                message
            };
            self.metrics.fall_behind(message.created_at);
            self.deliver(&message, &mut source).await;
            let HookMessage { cursor, is_snapshot, .. } = message;
            position = HookPosition { cursor, is_snapshot, pending: None };
            self.store(&position).await;
        }
    }

    /// The stored position. A new hook begins behind the current state, and stores that.
    async fn begin(&self) -> HookPosition {
        let mut failures = 0;
        let stored = loop {
            match self.blocking(HookJournal::load).await {
                Ok(stored) => break stored,
                Err(error) => {
                    failures += 1;
                    error!(
                        hook = self.hook.name, path = %self.journal.path().display(), %error,
                        "the position of a webhook cannot be read; repair the file, or remove it to go on from now"
                    );
                    sleep(STREAM_BACKOFF.random_pause(failures, None)).await;
                }
            }
        };
        if let Some(position) = stored {
            info!(hook = self.hook.name, target = %self.hook.target, "a webhook goes on where it was");
            return position;
        }
        let cursor = self.snapshot_cursor().await;
        let position = HookPosition { cursor, is_snapshot: true, pending: None };
        self.store(&position).await;
        info!(hook = self.hook.name, target = %self.hook.target, "a new webhook begins with the next event");
        position
    }

    /// The cursor of the current state, once there is one.
    async fn snapshot_cursor(&self) -> String {
        let mut failures = 0;
        loop {
            match subscription::snapshot_cursor(&self.schema).await {
                Ok(cursor) => return cursor,
                Err((code, _)) if code == code::NOT_READY => sleep(READY_PAUSE).await,
                Err((code, message)) => {
                    failures += 1;
                    warn!(hook = self.hook.name, code, message, "a webhook cannot read the state to begin with");
                    sleep(STREAM_BACKOFF.random_pause(failures, None)).await;
                }
            }
        }
    }

    /// The message of the next event behind a position.
    async fn next(&self, source: &mut EventSource, position: &HookPosition) -> HookMessage {
        let HookPosition { cursor: after, is_snapshot, .. } = position;
        loop {
            let detail = source.detail();
            let request = || self.schema.subscribe(subscription::request(&self.hook, detail, Some(after)), None);
            let events = source.events.get_or_insert_with(request);
            let response = if self.metrics.is_behind() {
                if let Ok(response) = timeout(IDLE_STREAM, events.next()).await {
                    response
                } else {
                    self.metrics.catch_up();
                    events.next().await
                }
            } else {
                events.next().await
            };
            let Some(response) = response else {
                // it ends with the server, or because it fell behind
                source.events = None;
                sleep(READY_PAUSE).await;
                continue;
            };
            let (code, reason) = match subscription::read(response) {
                StreamItem::Event { kind, cursor, event, mut errors } => {
                    let temporary = errors.iter().find(|error| is_temporary(&subscription::code_of(error)));
                    if let Some(error) = temporary.filter(|_| source.is_patient()) {
                        (subscription::code_of(error), error.message.clone())
                    } else {
                        if detail == EventDetail::Position {
                            let failure = source.last_failure();
                            errors.extend(failure.map(|(code, reason)| subscription::error(code, reason)));
                        }
                        match HookMessage::of_event(&self.hook.name, (kind, cursor), &event, &errors, now()) {
                            Ok(message) => match source.receive(detail, message) {
                                Some(message) => return message,
                                None => continue,
                            },
                            Err(error) => (code::INTERNAL_SERVER_ERROR.to_owned(), error.to_string()),
                        }
                    }
                }
                StreamItem::Failure { code, message } => (code, message),
            };
            source.events = None;
            let lost = match code.as_str() {
                code::NOT_READY => {
                    sleep(READY_PAUSE).await;
                    continue;
                }
                code::CURSOR_EXPIRED | code::CURSOR_ORPHANED => Some(code.as_str()),
                // the cursor of a state is valid whatever is watched
                code::BAD_USER_INPUT if !is_snapshot => Some(WATCH_CHANGED),
                _ => None,
            };
            if lost.is_some() && self.schema.readiness().blocks_behind().is_some_and(|behind| behind > 1) {
                // the block of the cursor may be one of those
                sleep(STREAM_BACKOFF.first).await;
                continue;
            }
            if let Some(lost) = lost {
                let reason = if lost == WATCH_CHANGED { OTHER_WATCH } else { &reason };
                warn!(hook = self.hook.name, code = lost, reason, "a webhook goes on from now; events may be missing");
                let cursor = self.snapshot_cursor().await;
                if let Ok(message) = HookMessage::of_gap(&self.hook.name, (lost, reason), after, cursor, now()) {
                    *source = EventSource::default();
                    return message;
                }
            }
            warn!(hook = self.hook.name, code, reason, "the events of a webhook cannot be read");
            if let Some(message) = source.fail(code, reason) {
                return message;
            }
            self.metrics.fall_behind(now());
            sleep(STREAM_BACKOFF.random_pause(source.failures(), None)).await;
        }
    }

    /// Returns once the message is delivered, or a dead letter.
    async fn deliver(&mut self, message: &HookMessage, source: &mut EventSource) {
        let timing = self.hook.timing;
        let backoff = Backoff { first: timing.backoff, longest: timing.max_backoff };
        for attempt in 1_u32.. {
            let Err(DeliveryFailure { reason, retry_after }) = self.attempt(message, source).await else {
                self.metrics.count_delivered();
                if attempt > 1 {
                    info!(hook = self.hook.name, id = message.id, attempt, "a webhook delivers again");
                }
                return;
            };
            self.metrics.count_failure();
            source.events = None;
            if attempt >= timing.attempts {
                let (letters, letter, error) = (self.dead_letters.clone(), message.clone(), reason.to_string());
                let appended = tokio::task::spawn_blocking(move || letters.append(&letter, attempt, error));
                match appended.await.map_err(|error| error.to_string()).and_then(|done| done.map_err(|e| e.to_string()))
                {
                    Ok(()) => {
                        self.metrics.count_dead_letter();
                        error!(
                            hook = self.hook.name, id = message.id, kind = message.kind, attempts = attempt, %reason,
                            path = %self.dead_letters.path().display(),
                            "an event is a dead letter; the webhook goes on with the next"
                        );
                        return;
                    }
                    Err(error) => {
                        error!(hook = self.hook.name, error, "a dead letter cannot be stored; sending it again");
                    }
                }
            }
            let pause = backoff.random_pause(attempt, retry_after);
            warn!(
                hook = self.hook.name, id = message.id, attempt, %reason, retry_seconds = pause.as_secs_f64(),
                "an event was not delivered"
            );
            sleep(pause).await;
            self.metrics.count_retry();
        }
    }

    /// Sends the message once.
    async fn attempt(&mut self, message: &HookMessage, source: &mut EventSource) -> Result<(), DeliveryFailure> {
        let sent = self.sender.send(message);
        tokio::pin!(sent);
        tokio::select! {
            sent = &mut sent => return sent,
            () = sleep(STREAM_LEASE) => source.events = None,
        }
        sent.await
    }

    /// Stores the position. While that fails nothing is delivered, or it would be delivered again after a restart.
    async fn store(&self, position: &HookPosition) {
        let mut failures = 0;
        loop {
            let position = position.clone();
            let Err(error) = self.blocking(move |journal| journal.store(&position)).await else { return };
            failures += 1;
            error!(
                hook = self.hook.name, path = %self.journal.path().display(), %error,
                "the position of a webhook cannot be stored; it waits"
            );
            sleep(STREAM_BACKOFF.random_pause(failures, None)).await;
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&HookJournal) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let journal = self.journal.clone();
        tokio::task::spawn_blocking(move || work(&journal)).await.map_err(io::Error::other)?
    }
}

/// Whether what failed with this code may succeed in a moment.
fn is_temporary(code: &str) -> bool {
    [code::NODE_UNAVAILABLE, code::RESOURCE_EXHAUSTED, code::TIMEOUT, code::INTERNAL_SERVER_ERROR, code::NOT_READY]
        .contains(&code)
}
