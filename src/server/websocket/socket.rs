//! One websocket, one task: frames in, frames out, and the time that either may take. What messages mean is up to the
//! [`Session`].
//!
//! ```text
//!                 ┌────────────────────────── Socket, a future ─────────────────────────┐
//!   client ──────►│ read ──► Session::receive ──┐                                       │
//!                 │   ▲ not while replies       ├──► Outbox ──► write ──► flush ──────┼──► client
//!                 │   │ wait to be sent         │       │                               │
//!                 │   └──────────────────────── │ ◄─────┤                               │
//!                 │ Session::poll_operations ───┘       │ not while results wait        │
//!                 │   ▲ ◄───────────────────────────────┘                               │
//!                 │ time: init, ping and silence, a message that does not end, a close  │
//!                 └──────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A client that does not read stops its own operations and then its own messages, and is disconnected by its connection. What
//! waits for it is bounded: by [`Outbox`], and large answers by the memory of all clients, from when they are executed. Of each
//! subscription that is executed for it alone one event waits beside that. No other client waits for it.

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

use super::frames::WebSocket;
use super::outbox::{Outbox, OutboxItem};
use super::protocol::{Closing, close};
use super::session::Session;
use super::socket_log::SocketLog;
use crate::limits::Limits;

/// How long the client may take to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How many messages are read before anything else happens.
const MESSAGES_AT_ONCE: usize = 16;

/// How many rounds of reading, operations and writing precede a yield to other tasks.
const ROUNDS: usize = 8;

/// A socket until it is closed, as a future.
pub(crate) struct Socket {
    stream: WebSocket,
    /// `None` once the socket is being closed: operations end at once.
    session: Option<Session>,
    outbox: Outbox,
    clock: Clock,
    timer: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    message_bytes: usize,
    reading: ReadState,
    ping: bool,
    unflushed: bool,
    /// The client has not read all that was sent.
    blocked: bool,
    log: Option<SocketLog>,
}

/// When something happens unless something else happens before.
struct Clock {
    limits: Limits,
    init: Option<Instant>,
    ping: Instant,
    /// Whether anything was received since the last ping.
    is_alive: bool,
    /// When a message that has begun must be complete.
    message: Option<Instant>,
    close: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Open,
    /// What is received cannot be read, and nothing after it. The client gets the reason, and a moment to read it: to close
    /// a connection with something unread in it resets it.
    Failed,
    Ended,
}

/// The socket is over.
struct Over;

impl Socket {
    pub(crate) fn new(
        stream: WebSocket,
        session: Session,
        limits: &Limits,
        stop: CancellationToken,
        log: Option<SocketLog>,
    ) -> Self {
        let now = Instant::now();
        let clock = Clock {
            limits: *limits,
            init: Some(now + limits.socket_init_timeout),
            ping: now + limits.socket_ping_interval,
            is_alive: true,
            message: None,
            close: None,
        };
        Self {
            stream,
            session: Some(session),
            outbox: Outbox::default(),
            timer: Box::pin(sleep_until(clock.next())),
            clock,
            stop: Box::pin(stop.cancelled_owned()),
            message_bytes: limits.message_bytes,
            reading: ReadState::Open,
            ping: false,
            unflushed: false,
            blocked: false,
            log,
        }
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
            self.session = None;
            self.ping = false;
            self.clock.close = Some(Instant::now() + CLOSE_TIMEOUT);
        }
    }

    /// Whether messages are read. While the socket is being closed they are, for the client's close frame.
    fn is_reading(&self) -> bool {
        self.reading == ReadState::Open && self.outbox.has_room_for_replies()
    }

    /// Reads messages. Whether there may be more to read at once.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..MESSAGES_AT_ONCE {
            if !self.is_reading() {
                return false;
            }
            let Poll::Ready(message) = self.stream.poll_next_unpin(cx) else { return false };
            self.clock.is_alive = true;
            match message {
                Some(Ok(message)) => self.receive(&message),
                Some(Err(error)) => match close_code(&error) {
                    Some((code, reason)) => {
                        self.reading = ReadState::Failed;
                        self.close(code, &reason);
                    }
                    None => self.reading = ReadState::Ended,
                },
                None => self.reading = ReadState::Ended,
            }
        }
        true
    }

    /// Gives what has begun of a message its time.
    fn expect_message(&mut self) {
        let is_reading = self.is_reading();
        let stream = self.stream.get_mut();
        if !is_reading {
            stream.restart();
        }
        let unfinished = stream.unfinished().filter(|_| is_reading && self.session.is_some());
        self.clock.message = unfinished.map(|since| since + self.clock.limits.message_timeout);
    }

    fn receive(&mut self, message: &Message) {
        let size = match message {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) => bytes.len(),
            // the library answers the close frame when it reads the next message
            Message::Close(_) => {
                self.outbox.abandon();
                return self.leave_if_closing();
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return,
        };
        if let Some(log) = &mut self.log {
            log.received();
        }
        let limit = self.message_bytes;
        if size > limit {
            return self.close(close::TOO_LARGE, &format!("a message may have at most {limit} bytes"));
        }
        if let Some(session) = &mut self.session {
            match message {
                Message::Text(text) => session.receive_text(text, &mut self.outbox),
                _ => session.receive_binary(&mut self.outbox),
            }
            self.leave_if_closing();
        }
    }

    fn poll_operations(&mut self, cx: &mut Context<'_>) {
        if let Some(session) = &mut self.session {
            session.poll_operations(cx, &mut self.outbox);
            self.leave_if_closing();
        }
    }

    /// Writes what the stream accepts. Errors: the client is gone.
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
                    Some(OutboxItem::Text(text)) => Message::Text(text),
                    Some(OutboxItem::Close(Closing { code, reason })) => {
                        Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
                    }
                    None => break,
                }
            };
            if let Some(log) = &mut self.log {
                match &message {
                    Message::Text(text) => log.sent(text.len()),
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

    /// Does what is due, and wakes the task when something will be. Whether anything was due.
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
                self.reading = ReadState::Failed;
                let seconds = self.clock.limits.message_timeout.as_secs_f64();
                self.close(close::POLICY, &format!("a message did not arrive within {seconds} s"));
                acted = true;
            }
            if is_due(self.clock.init) {
                self.clock.init = None;
                if let Some(session) = &mut self.session {
                    session.init_due(&mut self.outbox);
                    self.leave_if_closing();
                }
                acted = true;
            }
            if self.clock.ping <= now {
                // a client that is not read seems silent, and one that has not read what precedes the ping cannot answer
                // it: their connection judges them by what they read
                let is_judged = self.is_reading() && !self.blocked;
                if !self.clock.is_alive && is_judged {
                    return Err(Over);
                }
                self.clock.begin_ping();
                self.clock.is_alive = !is_judged;
                self.ping = self.session.is_some() && !self.blocked;
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

    /// Reads, polls operations and writes once. Whether there may be more to do at once.
    fn round(&mut self, cx: &mut Context<'_>) -> Result<bool, Over> {
        if self.session.is_some() && self.stop.as_mut().poll(cx).is_ready() {
            self.close(close::SERVICE_RESTART, "the server stops");
        }
        let more_to_read = self.read(cx);
        self.expect_message();
        if self.reading == ReadState::Ended {
            return Err(Over);
        }
        // from before anything makes space: a stream that is not read is not polled for what is received
        let was_reading = self.is_reading();
        self.poll_operations(cx);
        let had_room = self.outbox.has_room_for_results();
        self.write(cx)?;
        let has_opened = (!was_reading && self.is_reading()) || (!had_room && self.outbox.has_room_for_results());
        Ok(self.keep_time(cx)? || more_to_read || has_opened)
    }
}

impl Clock {
    /// Pings after another interval, and judges the client after one more.
    fn begin_ping(&mut self) {
        self.is_alive = true;
        self.ping = Instant::now() + self.limits.socket_ping_interval;
    }

    /// When the next of them is due.
    fn next(&self) -> Instant {
        [self.init, self.message, self.close].into_iter().flatten().fold(self.ping, Instant::min)
    }
}

impl Future for Socket {
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

/// The close frame for a client that sends what is no message. `None` if it is gone.
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
