//! One websocket, one task: frames in, frames out, and the times that either may take. What is said is a
//! [`Dialogue`]'s; this knows nothing of GraphQL.
//!
//! ```text
//!                 ┌────────────────────────── Socket, a future ─────────────────────────┐
//!   client ──────►│ listen ──► Dialogue::hear ──┐                                       │
//!                 │   ▲ not while replies       ├──► Outbox ──► write ──► flush ──────┼──► client
//!                 │   │ wait to be sent         │       │                               │
//!                 │   └──────────────────────── │ ◄─────┤                               │
//!                 │ speak ◄─ Dialogue::speak ───┘       │ not while results wait        │
//!                 │   ▲ ◄───────────────────────────────┘                               │
//!                 │ time: init, ping and silence, a message that does not end, a close  │
//!                 └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A client that does not read stops its own operations and then its own messages, takes no more memory than the bounds
//! of [`Outbox`], and is ended by its connection, which fails when it takes too little. Nobody waits for it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_graphql::futures_util::{Sink, StreamExt};
use axum::body::Bytes;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::outbox::{Next, Outbox};
use super::protocol::{Closing, close};
use super::socket_log::SocketLog;
use super::upgrade::WebSocket;
use crate::limits::Limits;
use crate::server::limits::slots::Slot;

/// How long the client may take to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How many messages are read before anything else has a turn.
const MESSAGES_AT_ONCE: usize = 16;

/// How many times reading, operations and writing have a turn before other tasks have one.
const ROUNDS: usize = 8;

/// What is said over a socket.
pub(crate) trait Dialogue: Unpin {
    /// The client sent this.
    fn hear(&mut self, heard: Heard<'_>, outbox: &mut Outbox);

    /// Whether it may send more.
    fn can_hear(&self) -> bool;

    /// The client had its time to introduce itself.
    fn init_due(&mut self, outbox: &mut Outbox);

    /// Says what there is to say and room for, and wakes the task when there is more.
    fn speak(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox);
}

/// What a client sends.
#[derive(Clone, Copy)]
pub(crate) enum Heard<'h> {
    Text(&'h str),
    Binary(&'h Bytes),
}

/// A socket until it is closed, as a future.
pub(crate) struct Socket<D> {
    stream: WebSocket,
    /// `None` once the socket is being closed: operations end at once.
    dialogue: Option<D>,
    outbox: Outbox,
    clock: Clock,
    timer: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    message_bytes: usize,
    reading: Reading,
    ping: bool,
    unflushed: bool,
    /// The client has taken less than was there to be written.
    blocked: bool,
    log: Option<SocketLog>,
    _place: Option<Slot>,
}

/// When something is to happen unless something else happens before.
struct Clock {
    limits: Limits,
    init: Option<Instant>,
    ping: Instant,
    /// Whether anything came since the last ping.
    heard: bool,
    /// When a message that has begun has to be there.
    message: Option<Instant>,
    close: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    /// What came cannot be read, and nothing after it. The client is told, and has a moment to read that: to close a
    /// connection with something unread in it resets it.
    Failed,
    Ended,
}

/// The socket is over.
struct Over;

impl<D: Dialogue> Socket<D> {
    /// `slot` is held until it is over.
    pub(crate) fn new(
        stream: WebSocket,
        dialogue: D,
        limits: &Limits,
        stop: CancellationToken,
        slot: Option<Slot>,
    ) -> Self {
        let now = Instant::now();
        let clock = Clock {
            limits: *limits,
            init: Some(now + limits.socket_init_timeout),
            ping: now + limits.socket_ping_interval,
            heard: true,
            message: None,
            close: None,
        };
        Self {
            stream,
            dialogue: Some(dialogue),
            outbox: Outbox::default(),
            timer: Box::pin(sleep_until(clock.next())),
            clock,
            stop: Box::pin(stop.cancelled_owned()),
            message_bytes: limits.message_bytes,
            reading: Reading::Open,
            ping: false,
            unflushed: false,
            blocked: false,
            log: None,
            _place: slot,
        }
    }

    /// The same, with what goes over it counted.
    pub(crate) fn counted(self, log: SocketLog) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Closes it, for this reason.
    pub(crate) fn close(&mut self, code: u16, reason: &str) {
        if !self.outbox.is_closing() {
            self.outbox.close(Closing::new(code, reason.to_owned()));
        }
        self.leave_if_closing();
    }

    fn leave_if_closing(&mut self) {
        if self.outbox.is_closing() && self.clock.close.is_none() {
            self.dialogue = None;
            self.ping = false;
            self.clock.close = Some(Instant::now() + CLOSE_TIMEOUT);
        }
    }

    /// Whether the client is heard. While the socket is being closed it is, for its own close frame.
    fn is_listening(&self) -> bool {
        let can_hear = self.dialogue.as_ref().is_none_or(Dialogue::can_hear);
        self.reading == Reading::Open && can_hear && self.outbox.has_room_for_replies()
    }

    /// Whether there may be more to read at once.
    fn listen(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..MESSAGES_AT_ONCE {
            if !self.is_listening() {
                return false;
            }
            let Poll::Ready(message) = self.stream.poll_next_unpin(cx) else { return false };
            self.clock.heard = true;
            match message {
                Some(Ok(message)) => self.hear(&message),
                Some(Err(error)) => match close_code(&error) {
                    Some((code, reason)) => {
                        self.reading = Reading::Failed;
                        self.close(code, &reason);
                    }
                    None => self.reading = Reading::Ended,
                },
                None => self.reading = Reading::Ended,
            }
        }
        true
    }

    /// Gives what has begun of a message its time.
    fn expect_message(&mut self) {
        let is_listening = self.is_listening();
        let stream = self.stream.get_mut();
        if !is_listening {
            stream.excuse();
        }
        let unfinished = stream.unfinished().filter(|_| is_listening && self.dialogue.is_some());
        self.clock.message = unfinished.map(|since| since + self.clock.limits.message_timeout);
    }

    fn hear(&mut self, message: &Message) {
        let heard = match message {
            Message::Text(text) => Heard::Text(text),
            Message::Binary(bytes) => Heard::Binary(bytes),
            // the library answers the close frame when it is asked for the next message
            Message::Close(_) => {
                self.outbox.abandon();
                return self.leave_if_closing();
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return,
        };
        let size = match heard {
            Heard::Text(text) => text.len(),
            Heard::Binary(bytes) => bytes.len(),
        };
        if let Some(log) = &mut self.log {
            log.heard();
        }
        let limit = self.message_bytes;
        if size > limit {
            return self.close(close::TOO_LARGE, &format!("a message may have at most {limit} bytes"));
        }
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.hear(heard, &mut self.outbox);
            self.leave_if_closing();
        }
    }

    fn speak(&mut self, cx: &mut Context<'_>) {
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.speak(cx, &mut self.outbox);
            self.leave_if_closing();
        }
    }

    /// Writes what can be written. Errors: there is nobody to write to.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), Over> {
        while self.ping || !self.outbox.is_empty() {
            match Pin::new(&mut self.stream).poll_ready(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Err(Over),
                Poll::Pending => break,
            }
            let message = if std::mem::take(&mut self.ping) {
                Message::Ping(Bytes::new())
            } else {
                match self.outbox.pop() {
                    Some(Next::Text(text)) => Message::Text(text),
                    Some(Next::Close(Closing { code, reason })) => {
                        Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
                    }
                    None => break,
                }
            };
            if let Some(log) = &mut self.log {
                match &message {
                    Message::Text(text) => log.told(text.len()),
                    Message::Close(Some(frame)) => log.closed(frame.code.into()),
                    _ => {}
                }
            }
            Pin::new(&mut self.stream).start_send(message).map_err(|_| Over)?;
            self.unflushed = true;
        }
        if self.unflushed {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(Ok(())) => {
                    self.unflushed = false;
                    self.outbox.sent();
                    if std::mem::take(&mut self.blocked) {
                        self.clock.begin_ping();
                    }
                }
                Poll::Ready(Err(_)) => return Err(Over),
                Poll::Pending => self.blocked = true,
            }
        }
        Ok(())
    }

    /// Does what is due, and wakes the task when something will be. Whether there is something to write since.
    fn keep_time(&mut self, cx: &mut Context<'_>) -> Result<bool, Over> {
        let mut acted = false;
        loop {
            let now = Instant::now();
            let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            if is_due(self.clock.close) {
                return Err(Over);
            }
            if is_due(self.clock.message) {
                self.clock.message = None;
                self.reading = Reading::Failed;
                let seconds = self.clock.limits.message_timeout.as_secs_f64();
                self.close(close::POLICY, &format!("a message did not arrive within {seconds} s"));
                acted = true;
            }
            if is_due(self.clock.init) {
                self.clock.init = None;
                if let Some(dialogue) = &mut self.dialogue {
                    dialogue.init_due(&mut self.outbox);
                    self.leave_if_closing();
                }
                acted = true;
            }
            if self.clock.ping <= now {
                // who is not listened to cannot be heard, and who has not read what was before the ping cannot answer it:
                // these are judged by what they read
                let is_judged = self.is_listening() && !self.blocked;
                if !self.clock.heard && is_judged {
                    return Err(Over);
                }
                self.clock.begin_ping();
                self.clock.heard = !is_judged;
                self.ping = self.dialogue.is_some() && !self.blocked;
                acted = true;
            }
            let next = self.clock.next();
            if next < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(next);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Ok(acted);
            }
        }
    }

    /// One turn each. Whether there may be more to do at once.
    fn round(&mut self, cx: &mut Context<'_>) -> Result<bool, Over> {
        if self.dialogue.is_some() && self.stop.as_mut().poll(cx).is_ready() {
            self.close(close::SERVICE_RESTART, "the server stops");
        }
        let more_to_read = self.listen(cx);
        self.expect_message();
        if self.reading == Reading::Ended {
            return Err(Over);
        }
        // from before anything makes room: who was not listened to then is not polled for what comes
        let heard = self.is_listening();
        self.speak(cx);
        let had_room = self.outbox.has_room_for_results();
        self.write(cx)?;
        let has_opened = (!heard && self.is_listening()) || (!had_room && self.outbox.has_room_for_results());
        Ok(self.keep_time(cx)? || more_to_read || has_opened)
    }
}

impl Clock {
    /// Pings after another interval, and judges the client after one more.
    fn begin_ping(&mut self) {
        self.heard = true;
        self.ping = Instant::now() + self.limits.socket_ping_interval;
    }

    /// When the next of them is due.
    fn next(&self) -> Instant {
        [self.init, self.message, self.close].into_iter().flatten().fold(self.ping, Instant::min)
    }
}

impl<D: Dialogue> Future for Socket<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS {
            match self.round(cx) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(Over) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What a client is told that sent what is no message. `None` if there is nobody to tell.
fn close_code(error: &Error) -> Option<(u16, String)> {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => {
            Some((close::TOO_LARGE, "the message is too long".to_owned()))
        }
        Error::Utf8(_) => Some((close::NOT_UTF8, "a text message is not UTF-8".to_owned())),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(error) => Some((close::PROTOCOL_ERROR, error.to_string())),
        _ => None,
    }
}
