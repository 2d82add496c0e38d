//! GraphQL over server-sent events, distinct connections mode: each request has a connection of its own, on which its
//! results come as events. For clients and proxies that have no websockets.
//!
//! ```text
//!   :                        at once, so that the client knows the stream is open, and when nothing else was sent for a while
//!
//!   event: next
//!   data: {"data": ...}      an execution result; of a request that is not executed {"errors": [...]}
//!
//!   event: complete
//!   data:                    there is no more. A server that stops ends the stream without this, and clients come back
//! ```
//!
//! Rules: PROTOCOL.md of the graphql-sse project. A client ends its operation by closing the connection.

use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::futures_util::{Stream, StreamExt};
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::Server;
use super::metrics::Transport;
use super::payload::Payload;
use super::streams::Connection;

/// Nothing, for whoever listens.
const SILENCE: Bytes = Bytes::from_static(b":\n\n");

/// There is no more. Without data browsers would not tell it to pages.
const COMPLETE: Bytes = Bytes::from_static(b"event: complete\ndata:\n\n");

/// Keeps proxies from gathering events before they pass them on (nginx, and what follows it).
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Answers 200 with what a request yields as events; 503 if there are too many streams, 429 if this client has too many.
pub(super) fn answer(
    server: &Server,
    caller: &Parts,
    payloads: impl FnOnce() -> BoxStream<'static, Payload>,
) -> Response {
    let connection = match Connection::open(server, caller) {
        Ok(connection) => connection,
        Err(full) => return Connection::refuse(full),
    };
    let body = connection.counted(server, Transport::Events).body(events(payloads()), SILENCE);
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8"), (CACHE_CONTROL, "no-cache"), (BUFFERING, "no")];
    (headers, body).into_response()
}

fn events(payloads: impl Stream<Item = Payload>) -> impl Stream<Item = Bytes> {
    let results = payloads.map(|payload| {
        // the text is one line: what breaks lines is escaped in JSON
        let json = payload.into_result();
        Bytes::from(format!("event: next\ndata: {}\n\n", json.as_str()))
    });
    stream::iter([SILENCE]).chain(results).chain(stream::iter([COMPLETE]))
}

#[cfg(test)]
mod tests {
    use super::super::payload::Refused;
    use super::*;

    #[tokio::test]
    async fn results_are_events_and_the_last_says_that_there_are_no_more() {
        let payloads = [
            Payload::Result(r#"{"data":{"a":"x\\ny"}}"#.into()),
            Payload::Refused(Refused(r#"[{"message":"no"}]"#.into())),
        ];
        let events: Vec<Bytes> = events(stream::iter(payloads)).collect().await;
        let text = String::from_utf8(events.concat()).unwrap();
        assert_eq!(
            text,
            ":\n\nevent: next\ndata: {\"data\":{\"a\":\"x\\\\ny\"}}\n\n\
             event: next\ndata: {\"errors\":[{\"message\":\"no\"}]}\n\nevent: complete\ndata:\n\n"
        );
    }
}
