//! Where a request ends: bodies that are not framed as their head says, and heads that say it in two ways.

use btcgraph::server::Options;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::serve;
use crate::support::test_server::TestServer;

const PATIENCE: Duration = Duration::from_secs(20);
const QUERY: &str = r#"{"query":"{ tip { height } }"}"#;

fn post(headers: &str, body: &str) -> String {
    let always = "Host: localhost\r\nContent-Type: application/json\r\n";
    format!("POST /graphql HTTP/1.1\r\n{always}{headers}\r\n{body}")
}

/// A chunked body of these bytes.
fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// All that the server sends to a client that sends this and waits until its connection is closed.
fn answers(served: &TestServer, bytes: &str) -> String {
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("the connection is closed");
    answers
}

/// The status of an answer and the code of its error.
fn refusal(answer: &str) -> (&str, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    (head.split(' ').nth(1).unwrap(), body["errors"][0]["extensions"]["code"].clone())
}

#[test]
fn a_body_that_is_not_chunked_as_its_head_says_is_400() {
    let served = serve(Options::default());
    for body in
        ["garbage\r\n", "5\r\nabcdefgh\r\n0\r\n\r\n", "-1\r\n", "fffffffffffffffff\r\n", "5\r\nabcdeXX0\r\n\r\n"]
    {
        let answer = answers(&served, &post("Transfer-Encoding: chunked\r\n", body));
        assert_eq!(refusal(&answer), ("400", json!("BAD_USER_INPUT")), "{body:?}: {answer}");
        assert!(answer.contains("not chunked as Transfer-Encoding says"), "{answer}");
    }
    let answer = answers(&served, &post("Transfer-Encoding: chunked\r\nConnection: close\r\n", &chunked(QUERY)));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""height":3"#), "{answer}");
}

#[test]
fn a_request_that_states_its_length_twice_is_400_and_the_last() {
    let served = serve(Options::default());
    let length = format!("Content-Length: {}\r\n", QUERY.len());
    let coding = "Transfer-Encoding: chunked\r\n";
    let next = post(&length, QUERY);
    for (headers, body) in [
        (format!("{length}{coding}"), chunked(QUERY)),
        (format!("{coding}{length}"), chunked(QUERY)),
        (format!("{coding}content-length: 0\r\n"), chunked(QUERY)),
        // what follows is a request to whoever goes by the one, and body to whoever goes by the other
        (format!("Content-Length: 4\r\n{coding}"), format!("{}{next}", chunked(QUERY))),
    ] {
        let ambiguous = post(&headers, &body);
        let answer = answers(&served, &ambiguous);
        assert_eq!(refusal(&answer), ("400", json!("BAD_USER_INPUT")), "{headers}: {answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
        // behind others on the same connection, sent at once
        let answers = answers(&served, &format!("{next}{}{ambiguous}", post(coding, &chunked(QUERY))));
        let statuses: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(statuses, ["200", "200", "400"], "{answers}");
    }
}

#[test]
fn a_body_in_a_coding_that_is_not_read_is_415() {
    let served = serve(Options::default());
    let body = json!({ "query": "{ tip { height } }" });
    for coding in ["gzip", "br", "zstd", "deflate", "x-unknown", "identity, gzip"] {
        let answer = served.post(&body, &[("content-encoding", coding)]);
        assert_eq!((answer.status, answer.header("accept-encoding")), (415, "identity"), "{coding}: {answer:?}");
        assert_eq!(answer.code(), json!("BAD_USER_INPUT"));
        assert!(answer.text().contains(&format!("`{coding}`")), "{answer:?}");
    }
    assert_eq!(served.post(&body, &[("content-encoding", "identity")]).status, 200);
}

#[test]
fn a_transfer_coding_other_than_chunked_is_501() {
    let served = serve(Options::default());
    for coding in ["gzip, chunked", "x-unknown, chunked"] {
        let headers = format!("Transfer-Encoding: {coding}\r\nConnection: close\r\n");
        let answer = answers(&served, &post(&headers, &chunked(QUERY)));
        assert_eq!(refusal(&answer), ("501", json!("BAD_USER_INPUT")), "{coding}: {answer}");
        assert!(answer.contains(&format!("`{coding}`")), "{answer}");
    }
}
