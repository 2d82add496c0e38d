//! Subscriptions as parts of one HTTP response, for Apollo clients that ask for them so.
//!
//! ```text
//!   --graphql                                --graphql                               --graphql--
//!   Content-Type: application/json           Content-Type: application/json
//!
//!   {"payload":{"data": ...}}                {}   when nothing else was sent         the end
//! ```
//!
//! Rules: Apollo's "Multipart Protocol for GraphQL Subscriptions" 1.0. async-graphql's stream of parts leaves out what is
//! around the payload, which the protocol demands.

use super::stream::Form;
use crate::metrics::server_metrics::Transport;

/// The form of results.
pub(crate) const FORM: Form = Form {
    transport: Transport::Multipart,
    content_type: "multipart/mixed; boundary=\"graphql\"; subscriptionSpec=\"1.0\"",
    opening: "",
    result: |json, _| format!("--graphql\r\nContent-Type: application/json\r\n\r\n{{\"payload\":{json}}}\r\n"),
    keep_alive: "--graphql\r\nContent-Type: application/json\r\n\r\n{}\r\n",
    complete: "--graphql--\r\n",
};

#[cfg(test)]
mod tests {
    use async_graphql::futures_util::StreamExt;
    use async_graphql::futures_util::stream;

    use super::*;
    use crate::execution::payload::Payload;
    use crate::server::http::stream::chunks;

    #[tokio::test]
    async fn results_are_parts_and_the_last_delimiter_ends_them() {
        let payloads = stream::iter([Payload::Result(r#"{"data":1}"#.into()).into()]).boxed();
        let parts: Vec<_> = chunks(FORM, payloads).collect().await;
        let text = String::from_utf8(parts.concat()).unwrap();
        assert_eq!(
            text,
            "--graphql\r\nContent-Type: application/json\r\n\r\n{\"payload\":{\"data\":1}}\r\n--graphql--\r\n"
        );
    }
}
