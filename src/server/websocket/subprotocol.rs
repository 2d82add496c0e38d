//! The two subprotocols of websockets, and where their messages differ. Pure.
//!
//! ```text
//!                             graphql-transport-ws         graphql-ws (of subscriptions-transport-ws, for older clients)
//!   an operation              subscribe                    start; with the id of one that runs: in its slot
//!   its end by the client     complete                     stop, which is answered with `complete`
//!   it leaves                 (closes the socket)          connection_terminate
//!   a result                  next                         data
//!   a refusal                 error: [first, …]            error: { message of the first, errors: [first, …] }
//!   not authenticated         (the socket is closed)       connection_error before that
//!   keep-alive                ping, pong                   none: websockets have their own
//! ```
//!
//! Rules: PROTOCOL.md of the projects graphql-ws and subscriptions-transport-ws.

use serde_json::Value;

/// A subprotocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subprotocol {
    /// `graphql-transport-ws`.
    Transport,
    /// `graphql-ws`, the older one.
    Legacy,
}

/// The types of messages of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Init,
    Ping,
    Pong,
    Subscribe,
    Complete,
    Terminate,
    /// One that only a server sends.
    OfServer,
}

impl Subprotocol {
    /// All there are, the better one first.
    pub(crate) const ALL: [Self; 2] = [Self::Transport, Self::Legacy];

    /// Its name in `Sec-WebSocket-Protocol`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Transport => "graphql-transport-ws",
            Self::Legacy => "graphql-ws",
        }
    }

    /// The type of message with this name; `None` if there is none.
    pub(crate) fn kind(self, name: &str) -> Option<MessageKind> {
        let kind = match (self, name) {
            (_, "connection_init") => MessageKind::Init,
            (Self::Transport, "ping") => MessageKind::Ping,
            (Self::Transport, "pong") => MessageKind::Pong,
            (Self::Transport, "subscribe") | (Self::Legacy, "start") => MessageKind::Subscribe,
            (Self::Transport, "complete") | (Self::Legacy, "stop") => MessageKind::Complete,
            (Self::Legacy, "connection_terminate") => MessageKind::Terminate,
            (_, "connection_ack" | "error")
            | (Self::Transport, "next")
            | (Self::Legacy, "data" | "complete" | "connection_error" | "ka") => MessageKind::OfServer,
            _ => return None,
        };
        Some(kind)
    }

    /// The type of the message with a result.
    pub(crate) fn result(self) -> &'static str {
        match self {
            Self::Transport => "next",
            Self::Legacy => "data",
        }
    }

    /// The payload of an `error`, of a JSON array of GraphQL errors.
    pub(crate) fn refusal(self, errors: &str) -> String {
        match self {
            Self::Transport => errors.to_owned(),
            // one error by the rules, and its clients find all of them in it
            Self::Legacy => {
                let all: Vec<Value> = serde_json::from_str(errors).unwrap_or_default();
                let message = all.first().map_or(&Value::Null, |first| &first["message"]);
                format!(r#"{{"message":{message},"errors":{errors}}}"#)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_list_of_errors_or_one_error_with_all_in_it() {
        let errors = r#"[{"message":"no \"a\""},{"message":"no b","path":["b"]}]"#;
        assert_eq!(Subprotocol::Transport.refusal(errors), errors);
        let refusal: Value = serde_json::from_str(&Subprotocol::Legacy.refusal(errors)).unwrap();
        let all: Value = serde_json::from_str(errors).unwrap();
        assert_eq!((&refusal["message"], &refusal["errors"]), (&all[0]["message"], &all));
    }
}
