//! GraphQL over server-sent events, distinct connections mode: each request has a connection of its own, on which its
//! results come as events. For clients and proxies that have no websockets.
//!
//! ```text
//!   :                        at once, so that the client knows the stream is open, and when nothing else was sent for a while
//!
//!   id: AQAAAA...            the cursor, if the event has one: a client that comes back sends it as the header Last-Event-ID
//!   event: next
//!   data: {"data": ...}      an execution result; of a request that is not executed {"errors": [...]}
//!
//!   event: complete
//!   data:                    the end. A server that stops ends the stream without this, and clients reconnect
//! ```
//!
//! Rules: PROTOCOL.md of the graphql-sse project. A client ends its operation by closing the connection.

use super::stream::Form;
use crate::metrics::server_metrics::Transport;

/// A comment, which clients ignore.
const KEEP_ALIVE: &str = ":\n\n";

/// The form of results.
pub(crate) const FORM: Form = Form {
    transport: Transport::Events,
    content_type: "text/event-stream; charset=utf-8",
    opening: KEEP_ALIVE,
    // the text is one line: what breaks lines is escaped in JSON; a cursor is base64
    result: |json, cursor| match cursor {
        Some(cursor) => format!("id: {cursor}\nevent: next\ndata: {json}\n\n"),
        None => format!("event: next\ndata: {json}\n\n"),
    },
    keep_alive: KEEP_ALIVE,
    // without data browsers do not report it to pages
    complete: "event: complete\ndata:\n\n",
};

#[cfg(test)]
mod tests {
    use async_graphql::futures_util::StreamExt;
    use async_graphql::futures_util::stream;

    use super::*;
    use crate::execution::payload::{ClientPayload, Payload, Refused};
    use crate::server::http::stream::chunks;

    #[tokio::test]
    async fn results_are_events_and_the_last_is_complete() {
        let payloads = [
            Payload::Result(r#"{"data":{"a":"x\\ny"}}"#.into()),
            Payload::Event(r#"{"data":1}"#.into(), "c".into()),
            Payload::Refused(Refused(r#"[{"message":"no"}]"#.into())),
        ];
        let events: Vec<_> = chunks(FORM, stream::iter(payloads.map(ClientPayload::from)).boxed()).collect().await;
        let text = String::from_utf8(events.concat()).unwrap();
        assert_eq!(
            text,
            ":\n\nevent: next\ndata: {\"data\":{\"a\":\"x\\\\ny\"}}\n\n\
             id: c\nevent: next\ndata: {\"data\":1}\n\n\
             event: next\ndata: {\"errors\":[{\"message\":\"no\"}]}\n\nevent: complete\ndata:\n\n"
        );
    }
}
