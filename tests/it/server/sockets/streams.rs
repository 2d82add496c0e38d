//! Results as server-sent events and as parts of one response.

use std::time::Duration;

use btcgraph::limits::Limits;
use btcgraph::server::Options;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{chain, until_subscriptions, within};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

const BLOCKS: &str = "subscription { newBlock { height } }";

/// A response that goes on, read as it comes.
pub(super) struct Stream {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Stream {
    pub(super) async fn post(served: &TestServer, accept: &str, document: &str) -> Self {
        let body = json!({ "query": document }).to_string();
        let of_body = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        Self::send(served, "POST /graphql", &format!("Accept: {accept}\r\n{of_body}\r\n{body}")).await
    }

    async fn get(served: &TestServer, accept: &str, document: &str) -> Self {
        let document = document.replace(' ', "+");
        Self::send(served, &format!("GET /graphql?query={document}"), &format!("Accept: {accept}\r\n\r\n")).await
    }

    async fn send(served: &TestServer, line: &str, rest: &str) -> Self {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(format!("{line} HTTP/1.1\r\nHost: localhost\r\n{rest}").as_bytes()).await.unwrap();
        Self { stream, received: Vec::new() }
    }

    /// What comes up to this text and with it.
    pub(super) async fn until(&mut self, end: &str) -> String {
        within(async {
            loop {
                let found = self.received.windows(end.len()).position(|bytes| bytes == end.as_bytes());
                if let Some(at) = found {
                    let rest = self.received.split_off(at + end.len());
                    return String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
                }
                let more = self.stream.read_buf(&mut self.received).await.unwrap();
                assert_ne!(more, 0, "{end:?} did not come: {}", String::from_utf8_lossy(&self.received));
            }
        })
        .await
    }

    /// The next event but for silence: its name and its data.
    pub(super) async fn event(&mut self) -> (String, String) {
        self.until("event: ").await;
        let name = self.until("\n").await;
        self.until("data:").await;
        (name.trim().to_owned(), self.until("\n\n").await.trim().to_owned())
    }

    /// The next event, which has an id: that, and its data.
    async fn identified(&mut self) -> (String, Value) {
        // no header of the response begins so
        self.until("\nid: ").await;
        let id = self.until("\n").await.trim().to_owned();
        (id, self.result().await)
    }

    pub(super) async fn result(&mut self) -> Value {
        let (name, data) = self.event().await;
        assert_eq!(name, "next", "{data}");
        serde_json::from_str(&data).unwrap()
    }
}

/// A stream of events behind one with this id.
async fn events_after(served: &TestServer, id: &str, document: &str) -> Stream {
    let body = json!({ "query": document }).to_string();
    let of_body = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let headers = format!("Accept: text/event-stream\r\nLast-Event-ID: {id}\r\n{of_body}\r\n{body}");
    Stream::send(served, "POST /graphql", &headers).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_has_its_cursor_as_its_id_which_resumes_the_stream() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut watching = served.client().await;
    let now = tokio::task::block_in_place(|| api.data("{ snapshot { cursor } }"));
    let start = now["snapshot"]["cursor"].as_str().unwrap().to_owned();
    // the cursor need not be selected
    let blocks = "{ ... on BlockConnected { block { height } } }";
    let document = format!("subscription {{ chainEvents {blocks} }}");
    let mut answer = Stream::post(&served, "text/event-stream", &document).await;
    until_subscriptions(&mut watching, 1).await;
    let of_height = |height: u32| json!({ "data": { "chainEvents": { "block": { "height": height } } } });
    api.connect(&chain.mine(Vec::new()).unwrap());
    let (first, found) = answer.identified().await;
    assert_eq!(found, of_height(4));
    drop(answer);
    until_subscriptions(&mut watching, 0).await;
    for _ in 5..=6 {
        api.connect(&chain.mine(Vec::new()).unwrap());
    }
    let mut answer = events_after(&served, &first, &document).await;
    let (_, found) = answer.identified().await;
    assert_eq!(found, of_height(5));
    let (second, found) = answer.identified().await;
    assert_eq!(found, of_height(6));
    // the id is newer than the argument of a document that is sent again
    let again = format!(
        "subscription {{ chainEvents(after: \"{start}\") {{ seq cursor ... on BlockConnected {{ block {{ height }} }} }} }}"
    );
    let mut all = Stream::post(&served, "text/event-stream", &again).await;
    for (height, seq) in (4..=6).zip(1..) {
        let (id, found) = all.identified().await;
        let expected = json!({ "seq": seq, "cursor": id, "block": { "height": height } });
        assert_eq!(found["data"]["chainEvents"], expected);
    }
    let mut rest = events_after(&served, &second, &again).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    let (_, found) = rest.identified().await;
    assert_eq!(
        (&found["data"]["chainEvents"]["seq"], &found["data"]["chainEvents"]["block"]["height"]),
        (&json!(4), &json!(7))
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_no_cursor_is_refused_where_there_are_cursors() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    for field in ["chainEvents", "mempoolEvents", "ledgerEvents(watch: { scripts: [\"51\"] })"] {
        let mut answer = events_after(&served, "nonsense", &format!("subscription {{ {field} {{ cursor }} }}")).await;
        let result = answer.result().await;
        assert_eq!(result["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{result}");
        assert_eq!(answer.event().await.0, "complete");
    }
    let mut watching = served.client().await;
    let mut answer = events_after(&served, "nonsense", BLOCKS).await;
    until_subscriptions(&mut watching, 1).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert!(!answer.until("data:").await.contains("\nid: "), "an event without a cursor has no id");
    served.stop().await;
}

/// The end of a chunked body (RFC 9112).
pub(super) const END: &str = "0\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_one_event_and_its_end_and_a_refusal_too() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut answer = Stream::post(&served, "text/event-stream", "{ tip { height } }").await;
    let head = answer.until("\r\n\r\n").await.to_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/event-stream; charset=utf-8"), "{head}");
    assert!(head.contains("cache-control: no-cache"), "{head}");
    assert_eq!(answer.result().await, json!({ "data": { "tip": { "height": 3 } } }));
    assert_eq!(answer.event().await, ("complete".to_owned(), String::new()));
    answer.until(END).await;
    for (document, code) in [
        ("{", "GRAPHQL_PARSE_FAILED"),
        ("{ nothing }", "GRAPHQL_VALIDATION_FAILED"),
        ("subscription { nothing }", "GRAPHQL_VALIDATION_FAILED"),
    ] {
        let mut answer = Stream::post(&served, "text/event-stream", document).await;
        assert!(answer.until("\r\n").await.starts_with("HTTP/1.1 200"));
        let result = answer.result().await;
        assert_eq!(result["errors"][0]["extensions"]["code"], json!(code), "{result}");
        assert_eq!(result.get("data"), None);
        assert_eq!(answer.event().await.0, "complete");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_an_event_a_block_until_the_client_goes_away() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut watching = served.client().await;
    let mut answer = Stream::post(&served, "text/event-stream", BLOCKS).await;
    // the client knows at once that the stream is open
    answer.until(":\n\n").await;
    until_subscriptions(&mut watching, 1).await;
    for height in 4..=6 {
        api.connect(&chain.mine(Vec::new()).unwrap());
        assert_eq!(answer.result().await, json!({ "data": { "newBlock": { "height": height } } }));
    }
    drop(answer);
    until_subscriptions(&mut watching, 0).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_on_which_nothing_happens_is_kept_open_and_ends_without_completion_when_the_server_stops() {
    let limits = Limits { socket_ping_interval: Duration::from_millis(100), ..Limits::default() };
    let served = TestServer::with_limits(&Api::of_chain(&chain()).schema, &limits).await;
    let mut events = Stream::post(&served, "text/event-stream", BLOCKS).await;
    for _ in 0..4 {
        events.until(":\n\n").await;
    }
    let mut parts = Stream::post(&served, "multipart/mixed;subscriptionSpec=1.0, application/json", BLOCKS).await;
    for _ in 0..3 {
        parts.until("Content-Type: application/json\r\n\r\n{}\r\n").await;
    }
    served.shutdown.cancel();
    assert!(!events.until(END).await.contains("complete"));
    assert!(!parts.until(END).await.contains("--graphql--"));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_a_part_a_block_with_the_payload_in_it() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut watching = served.client().await;
    let mut answer = Stream::post(&served, "multipart/mixed;subscriptionSpec=1.0, application/json", BLOCKS).await;
    let head = answer.until("\r\n\r\n").await.to_lowercase();
    assert!(head.contains("content-type: multipart/mixed; boundary=\"graphql\"; subscriptionspec=\"1.0\""), "{head}");
    until_subscriptions(&mut watching, 1).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    let part = answer.until("}\r\n").await;
    assert!(part.ends_with(
        "--graphql\r\nContent-Type: application/json\r\n\r\n{\"payload\":{\"data\":{\"newBlock\":{\"height\":4}}}}\r\n"
    ));
    drop(answer);
    until_subscriptions(&mut watching, 0).await;

    let mut answer = Stream::post(&served, "multipart/mixed;subscriptionSpec=1.0", "{ tip { height } }").await;
    answer.until("{\"payload\":{\"data\":{\"tip\":{\"height\":4}}}}\r\n").await;
    answer.until("--graphql--\r\n").await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_too_many_is_refused_with_a_retry_time() {
    let limits = Limits { sockets: 1, ..Limits::default() };
    let served = TestServer::with_limits(&Api::of_chain(&chain()).schema, &limits).await;
    let mut first = Stream::post(&served, "text/event-stream", BLOCKS).await;
    first.until(":\n\n").await;
    for accept in ["text/event-stream", "multipart/mixed;subscriptionSpec=1.0"] {
        let head = Stream::post(&served, accept, BLOCKS).await.until("\r\n\r\n").await.to_lowercase();
        assert!(head.starts_with("http/1.1 503") && head.contains("retry-after: 10"), "{head}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_asked_for_by_get_as_by_post_and_changes_nothing_so() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut watching = served.client().await;
    let mut events = Stream::get(&served, "text/event-stream", BLOCKS).await;
    let mut parts = Stream::get(&served, "multipart/mixed;subscriptionSpec=1.0", BLOCKS).await;
    until_subscriptions(&mut watching, 2).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(events.result().await, json!({ "data": { "newBlock": { "height": 4 } } }));
    parts.until("{\"payload\":{\"data\":{\"newBlock\":{\"height\":4}}}}").await;
    let mut query = Stream::get(&served, "text/event-stream", "{tip{height}}").await;
    assert_eq!(query.result().await, json!({ "data": { "tip": { "height": 4 } } }));
    for accept in ["text/event-stream", "multipart/mixed;subscriptionSpec=1.0"] {
        let head = Stream::get(&served, accept, "mutation{__typename}").await.until("\r\n\r\n").await.to_lowercase();
        assert!(head.starts_with("http/1.1 405") && head.contains("allow: post"), "{head}");
    }
    drop((events, parts));
    until_subscriptions(&mut watching, 0).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepting_json_too_streams_subscriptions_only() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    for stream in ["text/event-stream", "multipart/mixed;subscriptionSpec=1.0"] {
        let accept = format!("{stream}, application/json");
        for (document, expected) in
            [(BLOCKS, stream.split(';').next().unwrap()), ("{ tip { height } }", "application/json")]
        {
            let head = Stream::post(&served, &accept, document).await.until("\r\n\r\n").await.to_lowercase();
            assert!(head.contains(&format!("content-type: {expected}")), "{accept} {document}: {head}");
            assert!(head.contains("vary: accept"), "{head}");
        }
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_in_a_stream_has_the_places_and_the_time_of_any_other() {
    for (waiting, code) in [(0, "RESOURCE_EXHAUSTED"), (1, "TIMEOUT")] {
        let mut options = Options::default();
        (options.limits.executions, options.limits.waiting) = (0, waiting);
        options.limits.timeout = Duration::from_millis(50);
        let served = TestServer::with_options(&Api::of_chain(&chain()).schema, options).await;
        let mut answer = Stream::post(&served, "text/event-stream", "{ tip { height } }").await;
        let result = answer.result().await;
        assert_eq!(result["errors"][0]["extensions"]["code"], json!(code), "{result}");
        assert_eq!(answer.event().await.0, "complete");
        served.stop().await;
    }
}
