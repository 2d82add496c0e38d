//! What web pages of other origins may do, and under which names the server answers. Which origins and names that are is
//! tested beside the rules.

use std::io::{Read, Write};
use std::net::TcpStream;

use btcgraph::server::Options;
use serde_json::json;

use super::{encoded, serve};
use crate::support::test_server::{Answer, TestServer};

const FOREIGN: (&str, &str) = ("origin", "https://evil.example");
const LOCAL: (&str, &str) = ("origin", "http://localhost:5173");

fn preflight(served: &TestServer, origin: (&str, &str)) -> Answer {
    let headers = [
        origin,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type, x-btcgraph-include"),
        ("access-control-request-private-network", "true"),
    ];
    served.send("OPTIONS", "/graphql", &headers, "")
}

#[test]
fn pages_of_this_machine_are_given_leave_and_never_credentials() {
    let served = serve(Options::default());
    let asked = preflight(&served, LOCAL);
    assert_eq!(asked.status, 204);
    assert_eq!(asked.header("access-control-allow-origin"), LOCAL.1);
    assert!(asked.header("access-control-allow-methods").contains("POST"));
    assert_eq!(asked.header("access-control-allow-headers"), "content-type, x-btcgraph-include");
    assert_eq!(asked.header("access-control-max-age"), "7200");
    assert_eq!(asked.header("access-control-allow-private-network"), "true");
    let answer = served.post(&json!({ "query": "mutation { __typename }" }), &[LOCAL]);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, LOCAL.1));
    assert!(answer.header("access-control-expose-headers").contains("x-request-id"));
    for answer in [asked, answer] {
        assert_eq!(answer.header("access-control-allow-credentials"), "");
        assert!(answer.headers.get_all("vary").iter().any(|vary| vary == "origin"), "{answer:?}");
    }
}

#[test]
fn other_pages_are_given_no_leave_and_change_nothing() {
    let served = serve(Options::default());
    let asked = preflight(&served, FOREIGN);
    let answer = served.get(&format!("query={}", encoded("{ tip { height } }")), &[FOREIGN]);
    for answer in [&asked, &answer] {
        assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control-")), "{answer:?}");
        assert!(answer.headers.get_all("vary").iter().any(|vary| vary == "origin"), "{answer:?}");
    }
    for operation in ["mutation { __typename }", "subscription { newBlock { hash } }"] {
        let answer = served.post(&json!({ "query": operation }), &[FOREIGN]);
        assert_eq!((answer.status, answer.code()), (403, json!("FORBIDDEN")), "{operation}");
    }
}

#[test]
fn all_pages_are_given_leave_if_that_is_set() {
    let served = serve(Options { origins: "*".parse().unwrap(), ..Options::default() });
    assert_eq!(preflight(&served, FOREIGN).header("access-control-allow-origin"), "*");
    let answer = served.post(&json!({ "query": "mutation { __typename }" }), &[FOREIGN]);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, "*"));
    assert_eq!(answer.header("access-control-allow-credentials"), "");
}

#[test]
fn a_page_opens_a_websocket_only_with_leave() {
    let served = serve(Options::default());
    for (origin, status) in [(FOREIGN, "403"), (LOCAL, "101")] {
        let head = format!(
            "GET /graphql HTTP/1.1\r\nHost: localhost\r\nOrigin: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n",
            origin.1
        );
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"), "{}", origin.1);
    }
}

#[test]
fn a_name_that_could_be_anyones_is_not_answered_for() {
    let body = json!({ "query": "{ tip { height } }" });
    let served = serve(Options::default());
    let refused = served.post(&body, &[("host", "evil.example")]);
    assert_eq!((refused.status, refused.code()), (421, json!("FORBIDDEN")));
    assert!(refused.json()["errors"][0]["message"].as_str().unwrap().contains("server.hosts"));
    for path in ["/health/live", "/schema.graphql", "/playground"] {
        assert_eq!(served.send("GET", path, &[("host", "evil.example")], "").status, 421, "{path}");
    }
    assert_eq!(served.post(&body, &[("host", "localhost:8080")]).status, 200);
    let served = serve(Options { hosts: "graph.example".parse().unwrap(), ..Options::default() });
    assert_eq!(served.post(&body, &[("host", "graph.example")]).status, 200);
    assert_eq!(served.post(&body, &[("host", "evil.example")]).status, 421);
}

#[test]
fn a_request_without_a_host_is_none_unless_its_client_is_older_than_that() {
    let served = serve(Options::default());
    for (version, status) in [("HTTP/1.1", "400"), ("HTTP/1.0", "200")] {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(format!("GET /health/live {version}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{version}: {answer}");
    }
}
