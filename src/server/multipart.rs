//! Subscriptions as parts of one HTTP response, for Apollo clients that ask for them so.
//!
//! ```text
//!   --graphql                                --graphql                               --graphql--
//!   Content-Type: application/json           Content-Type: application/json
//!
//!   {"payload":{"data": ...}}                {}   when nothing else was sent         there is no more
//! ```
//!
//! Rules: Apollo's "Multipart Protocol for GraphQL Subscriptions" 1.0. async-graphql's stream of parts leaves out what is
//! around the payload, which the protocol demands.

use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::futures_util::{Stream, StreamExt};
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::Server;
use super::metrics::Transport;
use super::payload::Payload;
use super::streams::Connection;

/// Nothing, for whoever listens.
const SILENCE: Bytes = Bytes::from_static(b"--graphql\r\nContent-Type: application/json\r\n\r\n{}\r\n");

/// There is no more.
const COMPLETE: Bytes = Bytes::from_static(b"--graphql--\r\n");

/// Answers 200 with what a request yields as parts; 503 if there are too many streams, 429 if this client has too many.
pub(super) fn answer(
    server: &Server,
    caller: &Parts,
    payloads: impl FnOnce() -> BoxStream<'static, Payload>,
) -> Response {
    let connection = match Connection::open(server, caller) {
        Ok(connection) => connection,
        Err(full) => return Connection::refuse(full),
    };
    let body = connection.counted(server, Transport::Multipart).body(parts(payloads()), SILENCE);
    let headers = [
        (CONTENT_TYPE, "multipart/mixed; boundary=\"graphql\"; subscriptionSpec=\"1.0\""),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

fn parts(payloads: impl Stream<Item = Payload>) -> impl Stream<Item = Bytes> {
    let results = payloads.map(|payload| {
        let json = payload.into_result();
        let head = "--graphql\r\nContent-Type: application/json";
        Bytes::from(format!("{head}\r\n\r\n{{\"payload\":{}}}\r\n", json.as_str()))
    });
    results.chain(stream::iter([COMPLETE]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_are_parts_with_the_payload_around_them_and_the_last_delimiter_ends_them() {
        let payloads = stream::iter([Payload::Result(r#"{"data":1}"#.into())]);
        let parts: Vec<Bytes> = parts(payloads).collect().await;
        let text = String::from_utf8(parts.concat()).unwrap();
        assert_eq!(
            text,
            "--graphql\r\nContent-Type: application/json\r\n\r\n{\"payload\":{\"data\":1}}\r\n--graphql--\r\n"
        );
    }
}
