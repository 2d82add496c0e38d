//! The schema over HTTP and websockets: what gets through, what is refused, and how connections end.

use std::io::{Read, Write};
use std::time::Duration;

use btcgraph::sim::SimChain;
use btcgraph::view::SyncState;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::support::api::Api;
use crate::support::test_server::TestServer;

fn http(served: &TestServer, method: &str, path: &str, content_type: &str, body: &str) -> (u16, String) {
    let answer = served.send(method, path, &[("content-type", content_type)], body);
    (answer.status, answer.text())
}

fn get(served: &TestServer, path: &str) -> (u16, String) {
    let answer = served.send("GET", path, &[], "");
    (answer.status, answer.text())
}

fn post(served: &TestServer, document: &str) -> (u16, Value) {
    let answer = served.post(&json!({ "query": document }), &[]);
    (answer.status, answer.json())
}

fn chain() -> SimChain {
    let mut chain = SimChain::new(40);
    chain.mine_empty(3).unwrap();
    chain
}

/// An argument of 2,000 lists in each other, in 4 KB: it overflows the stack of the engine's parser.
fn nested_argument() -> String {
    format!("{{ block(height: {}1{}) {{ hash }} }}", "[".repeat(2_000), "]".repeat(2_000))
}

/// 26 fragments, each but the last spreading the next twice: the engine's walks would take 2^25 steps.
fn doubling_fragments() -> String {
    let spread = |number| format!("fragment F{number} on Block {{ ...F{next} ...F{next} }} ", next = number + 1);
    let spreads = (0..25).map(spread).collect::<Vec<_>>().concat();
    format!("{{ tip {{ ...F0 }} }} {spreads} fragment F25 on Block {{ hash }}")
}

/// Documents that would kill the engine or keep it busy, and the code they are refused with.
fn killers() -> [(String, &'static str); 3] {
    [
        (nested_argument(), "QUERY_LIMIT_EXCEEDED"),
        (doubling_fragments(), "QUERY_LIMIT_EXCEEDED"),
        ("{ tip { ...A } } fragment A on Block { ...A ...A }".to_owned(), "GRAPHQL_VALIDATION_FAILED"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_answered_over_http_and_over_a_websocket_alike() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let document = "{ tip { height } none: block(height: 4) { id } bad: block { id } }";
    let (status, over_http) = post(&served, document);
    assert_eq!((status, &over_http["data"]), (200, &json!({ "tip": { "height": 3 }, "none": null, "bad": null })));
    assert_eq!(over_http["errors"][0]["extensions"], json!({ "code": "BAD_USER_INPUT", "argument": "hash" }));

    let mut socket = served.client().await;
    socket.ask("1", document).await;
    assert_eq!(socket.receive().await, json!({ "type": "next", "id": "1", "payload": over_http }));
    assert_eq!(socket.receive().await, json!({ "type": "complete", "id": "1" }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_would_kill_the_engine_are_refused_over_http() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    for (document, code) in killers() {
        let (status, answer) = post(&served, &document);
        assert_eq!((status, &answer["data"]), (200, &Value::Null));
        assert_eq!(answer["errors"][0]["extensions"]["code"], json!(code), "{document:.60}");
    }
    assert_eq!(post(&served, "{ tip { height } }").1, json!({ "data": { "tip": { "height": 3 } } }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_would_kill_the_engine_are_refused_over_a_websocket() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut socket = served.client().await;
    for (document, code) in killers() {
        for operation in [document.clone(), format!("subscription {{ newBlock {{ hash }} }} {document}")] {
            socket.ask("1", &operation).await;
            let answer = socket.receive().await;
            assert_eq!(answer["type"], json!("error"));
            let found = &answer["payload"][0]["extensions"]["code"];
            // an anonymous query beside a subscription is no document at all, but must not kill either
            assert!(*found == json!(code) || *found == json!("GRAPHQL_PARSE_FAILED"), "{answer}");
        }
    }
    socket.ask("2", "{ tip { height } }").await;
    assert_eq!(socket.receive().await["payload"], json!({ "data": { "tip": { "height": 3 } } }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_no_request_is_refused() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let query = json!({ "query": "{ tip { height } }" });
    let deep =
        format!("{{\"query\": \"{{ tip {{ id }} }}\", \"variables\": {}{} }}", "[".repeat(10_000), "]".repeat(10_000));
    for (content_type, body, status) in [
        ("text/plain", query.to_string(), 415),
        ("", query.to_string(), 415),
        ("application/x-www-form-urlencoded", "query={tip{height}}".to_owned(), 415),
        ("application/json", "{".to_owned(), 400),
        ("application/json", json!([query, query]).to_string(), 400),
        ("application/json", json!(["{ tip { height } }"]).to_string(), 400),
        ("application/json", json!({ "query": 1 }).to_string(), 400),
        ("application/json", deep, 400),
        ("application/json", format!("{}{}", query, " ".repeat(1024 * 1024)), 413),
        ("application/json", " ".repeat(3 * 1024 * 1024), 413),
        ("application/json; charset=utf-8", query.to_string(), 200),
    ] {
        let (found, answer) = http(&served, "POST", "/graphql", content_type, &body);
        assert_eq!(found, status, "{content_type}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer.get("errors").is_some(), status != 200, "{answer}");
    }
    let (status, answer) = post(&served, &format!("{{ tip {{ id }} }} #{}", "x".repeat(33 * 1024)));
    assert_eq!((status, &answer["errors"][0]["extensions"]["which"]), (200, &json!("queryBytes")));
    let (status, _) = get(&served, "/graphql?query=%7Btip%7Bid%7D%7D");
    assert_eq!(status, 200);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_schema_are_served_beside() {
    let api = Api::of_chain(&chain());
    let served = TestServer::start(&api).await;
    assert_eq!(get(&served, "/health/live"), (200, json!({ "live": true }).to_string()));
    let ready = |ready: bool, node: Value| {
        let followed = if ready { json!(0) } else { Value::Null };
        json!({
            "ready": ready, "indexedHeight": 3, "nodeHeight": node, "blocksBehind": followed,
            "draining": false, "secondsSinceNode": followed, "secondsMempoolBehind": followed, "diskShortage": null,
        })
        .to_string()
    };
    let (status, body) = get(&served, "/health/ready");
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap().to_string()), (503, ready(false, Value::Null)));
    let (node_height, node_tip) = (Some(3.into()), Some(api.view().tip().hash));
    api.set_state(SyncState { node_height, node_tip, ..SyncState::default() });
    assert_eq!(get(&served, "/health/ready").0, 503, "the mempool is yet to come");
    api.set_state(SyncState { node_height, node_tip, mempool_in_sync: true, ..SyncState::default() });
    let (status, body) = get(&served, "/health/ready");
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap().to_string()), (200, ready(true, json!(3))));
    assert_eq!(get(&served, "/schema.graphql"), (200, btcgraph::api::sdl().to_owned()));
    assert_eq!(get(&served, "/nothing").0, 404);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_sends_new_blocks_until_it_is_stopped() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut socket = served.client().await;
    socket.ask("blocks", "subscription { newBlock { height hash } }").await;
    // the server takes messages in order, so once this is answered the subscription stands
    socket.ask("tip", "{ tip { height } }").await;
    assert_eq!(socket.receive().await["payload"]["data"]["tip"]["height"], json!(3));
    assert_eq!(socket.receive().await, json!({ "type": "complete", "id": "tip" }));
    for height in 4..=6 {
        let block = chain.mine(Vec::new()).unwrap();
        api.connect(&block);
        let expected = json!({ "data": { "newBlock": { "height": height, "hash": block.block_hash().to_string() } } });
        assert_eq!(socket.receive().await, json!({ "type": "next", "id": "blocks", "payload": expected }));
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_closes_websockets_with_1012() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut sockets = [served.client().await, served.client().await];
    sockets[0].ask("1", "subscription { newBlock { hash } }").await;
    let address = served.address;
    served.shutdown.cancel();
    for socket in &mut sockets {
        let Some(Ok(Message::Close(Some(frame)))) = socket.message().await else { panic!("no close frame") };
        assert_eq!(frame.code, CloseCode::Restart);
    }
    served.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_finishes_the_request_it_is_reading() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let (address, shutdown) = (served.address, served.shutdown.clone());
    let client = move || {
        let body = json!({ "query": "{ tip { height } }" }).to_string();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = format!(
            "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Expect: 100-continue\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut continues = [0; 25];
        stream.read_exact(&mut continues).unwrap();
        assert_eq!(&continues, b"HTTP/1.1 100 Continue\r\n\r\n");
        // the server waits for the body now
        shutdown.cancel();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = tokio::task::spawn_blocking(client).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.ends_with(&json!({ "data": { "tip": { "height": 3 } } }).to_string()), "{answer}");
    served.stop().await;
}
