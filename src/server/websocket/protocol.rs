//! A conversation over a websocket as a state machine: what happens on a socket in, what is to be done out. No I/O, no clock,
//! no engine; [`session`](super::session) does what it says. The names are those of `graphql-transport-ws`;
//! [`subprotocol`](super::subprotocol) has those of the older subprotocol.
//!
//! ```text
//!                 connection_init ──► connection_ack
//!      ┌─────────┐                   ┌──────────────┐  subscribe ──► Start      result ──► next
//!   ──►│ Opened  │──────────────────►│ Acknowledged │  complete ──► Stop         end ──► complete
//!      └────┬────┘                   └──────┬───────┘                       refusal ──► End, error
//!           │ 4400 4401 4403 4408           │ 4400 4409 4429
//!           └──────────────► Closed ◄───────┘                  (nothing comes out any more)
//! ```
//!
//! Rules: PROTOCOL.md of the projects graphql-ws and subscriptions-transport-ws. An operation has its
//! id from `subscribe` until it is stopped, refused or at its end; then the id is free again. What a client sends before
//! connection_init is never executed.

use std::collections::HashSet;

use async_graphql::Request;

use super::message;
use super::message::{ClientMessage, Id};
use super::subprotocol::Subprotocol;
use crate::execution::payload::{Payload, Refused, too_many_operations};

/// The longest reason that fits a close frame, in bytes (RFC 6455, section 5.5).
const LONGEST_REASON: usize = 123;

/// Codes of close frames: of RFC 6455 and the IANA registry below 4000, of graphql-transport-ws above.
pub(crate) mod close {
    /// The client leaves.
    pub(crate) const NORMAL: u16 = 1000;
    /// What was sent is no websocket frame, or not in its slot.
    pub(crate) const PROTOCOL_ERROR: u16 = 1002;
    /// A text that is not UTF-8.
    pub(crate) const NOT_UTF8: u16 = 1007;
    /// A message that does not come to its end.
    pub(crate) const POLICY: u16 = 1008;
    /// A message above the limit.
    pub(crate) const TOO_LARGE: u16 = 1009;
    /// The server stops, and may come back.
    pub(crate) const SERVICE_RESTART: u16 = 1012;
    /// There is no slot for another socket.
    pub(crate) const TRY_AGAIN_LATER: u16 = 1013;
    /// A message of a type or form that the protocol does not know.
    pub(crate) const BAD_REQUEST: u16 = 4400;
    /// `subscribe` before `connection_ack`.
    pub(crate) const UNAUTHORIZED: u16 = 4401;
    /// Authentication failed.
    pub(crate) const FORBIDDEN: u16 = 4403;
    /// The client offers no subprotocol that is spoken here.
    pub(crate) const SUBPROTOCOL_NOT_ACCEPTABLE: u16 = 4406;
    /// No `connection_init` in time.
    pub(crate) const INIT_TIMED_OUT: u16 = 4408;
    /// `subscribe` with the id of a running operation.
    pub(crate) const SUBSCRIBER_EXISTS: u16 = 4409;
    /// Another `connection_init`.
    pub(crate) const TOO_MANY_INITS: u16 = 4429;
}

/// Why a socket is closed: the content of its close frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    pub(crate) code: u16,
    /// At most 123 bytes.
    pub(crate) reason: String,
}

impl Closing {
    /// A reason that is too long is cut.
    pub(crate) fn new(code: u16, mut reason: String) -> Self {
        reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
        Self { code, reason }
    }
}

/// What happens on a socket.
#[derive(Clone, Debug)]
pub(crate) enum SocketInput<'i> {
    /// The client sent a text.
    Text(&'i str),
    /// The client sent bytes, which the protocol has no use for.
    Binary,
    /// The time to wait for `connection_init` is over.
    InitDue,
    /// An operation yields this.
    Yielded(&'i Id, &'i Payload),
    /// An operation ends.
    Ended(&'i Id),
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Action {
    /// Authenticate the client by this authorization; if that fails, drop the other actions.
    Authenticate(Option<String>),
    /// Send this text. With an id it is about that operation.
    Send(Option<Id>, String),
    /// Begin to execute this request.
    Start(Id, Box<Request>),
    /// Execute this no longer, if it still is, and do not send what is waiting to be sent about it.
    Stop(Id),
    /// Execute this no longer. What is waiting to be sent about it is sent: events of before it ended.
    End(Id),
    /// Close the socket at once.
    Close(Closing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opened,
    Acknowledged,
    Closed,
}

/// One end of a conversation, the server's.
#[derive(Debug)]
pub(crate) struct Protocol {
    subprotocol: Subprotocol,
    phase: Phase,
    running: HashSet<Id>,
    limit: usize,
}

impl Protocol {
    /// A socket that was just opened, and may have so many operations at once.
    pub(crate) fn new(subprotocol: Subprotocol, limit: usize) -> Self {
        Self { subprotocol, phase: Phase::Opened, running: HashSet::new(), limit }
    }

    /// The message to a client that is not authenticated, before its socket is closed.
    pub(crate) fn authentication_error(&self, closing: &Closing) -> Option<String> {
        let reason = || serde_json::json!({ "message": closing.reason }).to_string();
        (self.subprotocol == Subprotocol::Legacy).then(|| frame("connection_error", None, Some(&reason())))
    }

    /// What is to be done about this, in order.
    pub(crate) fn on(&mut self, input: &SocketInput<'_>) -> Vec<Action> {
        match (self.phase, input) {
            (Phase::Closed, _) => Vec::new(),
            (_, SocketInput::Text(text)) => match message::read(text, self.subprotocol) {
                Ok(message) => self.on_message(message),
                Err(wrong) => self.close(close::BAD_REQUEST, wrong),
            },
            (_, SocketInput::Binary) => self.close(close::BAD_REQUEST, "the message is binary: send text".to_owned()),
            (Phase::Opened, SocketInput::InitDue) => {
                self.close(close::INIT_TIMED_OUT, "Connection initialisation timeout".to_owned())
            }
            (_, SocketInput::Yielded(id, payload)) => match payload {
                Payload::Result(_) | Payload::Event(..) if !self.running.contains(*id) => Vec::new(),
                Payload::Result(json) | Payload::Event(json, _) => {
                    send(id, frame(self.subprotocol.result(), Some(id), Some(json)))
                }
                Payload::Refused(Refused(errors)) => self.refuse(id, errors),
            },
            (_, SocketInput::Ended(id)) if self.running.remove(*id) => send(id, frame("complete", Some(id), None)),
            (_, SocketInput::InitDue | SocketInput::Ended(_)) => Vec::new(),
        }
    }

    fn on_message(&mut self, message: ClientMessage) -> Vec<Action> {
        match (self.phase, message) {
            (Phase::Opened, ClientMessage::Init(authorization)) => {
                self.phase = Phase::Acknowledged;
                vec![Action::Authenticate(authorization), Action::Send(None, frame("connection_ack", None, None))]
            }
            (_, ClientMessage::Init(_)) => {
                self.close(close::TOO_MANY_INITS, "Too many initialisation requests".to_owned())
            }
            (_, ClientMessage::Ping(payload)) => {
                vec![Action::Send(None, frame("pong", None, payload.as_deref()))]
            }
            // the protocol asks nothing of it, and no `ping` is sent from here: websockets have their own
            (_, ClientMessage::Pong) => Vec::new(),
            (Phase::Opened, ClientMessage::Subscribe(..)) => self.close(close::UNAUTHORIZED, "Unauthorized".to_owned()),
            (_, ClientMessage::Subscribe(id, request)) if self.running.contains(&id) => match self.subprotocol {
                Subprotocol::Transport => self.close(close::SUBSCRIBER_EXISTS, subscriber_exists(&id)),
                Subprotocol::Legacy => vec![Action::Stop(id.clone()), Action::Start(id, request)],
            },
            (_, ClientMessage::Subscribe(id, request)) => {
                if self.running.len() >= self.limit {
                    let Refused(errors) = too_many_operations(self.limit).into();
                    return send(&id, self.error(&id, &errors));
                }
                self.running.insert(id.clone());
                vec![Action::Start(id, request)]
            }
            // its last messages may still wait to be sent, though it has ended
            (_, ClientMessage::Complete(id)) => {
                let was_running = self.running.remove(&id);
                let mut actions = vec![Action::Stop(id.clone())];
                if was_running && self.subprotocol == Subprotocol::Legacy {
                    actions.extend(send(&id, frame("complete", Some(&id), None)));
                }
                actions
            }
            (_, ClientMessage::Terminate) => self.close(close::NORMAL, String::new()),
        }
    }

    fn refuse(&mut self, id: &Id, errors: &str) -> Vec<Action> {
        if !self.running.remove(id) {
            return Vec::new();
        }
        vec![Action::End(id.clone()), Action::Send(Some(id.clone()), self.error(id, errors))]
    }

    fn error(&self, id: &Id, errors: &str) -> String {
        frame("error", Some(id), Some(&self.subprotocol.refusal(errors)))
    }

    fn close(&mut self, code: u16, reason: String) -> Vec<Action> {
        self.phase = Phase::Closed;
        self.running.clear();
        vec![Action::Close(Closing::new(code, reason))]
    }
}

fn send(id: &Id, text: String) -> Vec<Action> {
    vec![Action::Send(Some(id.clone()), text)]
}

/// With an id that is too long for a reason the words around it are kept.
fn subscriber_exists(id: &str) -> String {
    const AROUND: usize = "Subscriber for  already exists".len();
    let id = &id[..id.floor_char_boundary(LONGEST_REASON - AROUND)];
    format!("Subscriber for {id} already exists")
}

/// A message of the server. The payload is JSON already, and copied as it is.
fn frame(kind: &'static str, id: Option<&Id>, payload: Option<&str>) -> String {
    let around = r#"{"id":,"type":"","payload":}"#.len() + kind.len() + id.map_or(0, |id| id.len() + 2);
    let mut text = String::with_capacity(around + payload.map_or(0, str::len));
    text.push('{');
    if let Some(id) = id {
        text.push_str(r#""id":"#);
        // serde_json's text of a string
        text.push_str(&serde_json::Value::from(&**id).to_string());
        text.push(',');
    }
    text.push_str(r#""type":""#);
    text.push_str(kind);
    text.push('"');
    if let Some(payload) = payload {
        text.push_str(r#","payload":"#);
        text.push_str(payload);
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests;
