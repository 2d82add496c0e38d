use btcgraph::server::Options;
use serde_json::json;

use super::serve;

const SCHEMA: &str = "{ __schema { types { name description } } }";

#[test]
fn a_large_answer_is_compressed_as_the_client_takes_it() {
    let served = serve(Options::default());
    let plain = served.post(&json!({ "query": SCHEMA }), &[]);
    assert_eq!(plain.header("content-encoding"), "");
    for (accepted, encoding) in [
        ("gzip", "gzip"),
        ("br", "br"),
        ("zstd", "zstd"),
        ("gzip;q=0.5, br", "br"),
        // what graphql-tools sends, which cannot decode zstd on Node.js 20
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, zstd", "gzip"),
        ("gzip;q=0.9, br;q=0.9, zstd", "zstd"),
        ("deflate, zstd;q=0.1", "zstd"),
        ("*", "br"),
    ] {
        let answer = served.post(&json!({ "query": SCHEMA }), &[("accept-encoding", accepted)]);
        assert_eq!((answer.status, answer.header("content-encoding")), (200, encoding), "{accepted}");
        assert!(answer.body.len() * 2 < plain.body.len(), "{} of {} bytes", answer.body.len(), plain.body.len());
        assert!(answer.headers.get_all("vary").iter().any(|vary| vary == "accept-encoding"), "{answer:?}");
    }
    let unknown = served.post(&json!({ "query": SCHEMA }), &[("accept-encoding", "snappy")]);
    assert_eq!(unknown.body, plain.body);
}

#[test]
fn a_small_answer_is_sent_as_it_is() {
    let served = serve(Options::default());
    let answer = served.post(&json!({ "query": "{ tip { height } }" }), &[("accept-encoding", "gzip")]);
    assert_eq!((answer.header("content-encoding"), answer.json()["data"]["tip"]["height"].as_u64()), ("", Some(3)));
}

#[test]
fn an_answer_has_the_id_of_its_request() {
    let served = serve(Options::default());
    let query = json!({ "query": "{ tip { height } }" });
    assert_eq!(served.post(&query, &[("x-request-id", "mine-7")]).header("x-request-id"), "mine-7");
    let (one, two) = (served.post(&query, &[]), served.post(&query, &[("x-request-id", "not fit")]));
    assert_eq!((one.header("x-request-id").len(), two.header("x-request-id").len()), (16, 16));
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
    let refused = served.post(&query, &[("x-request-id", "mine-8"), ("host", "evil.example")]);
    assert_eq!((refused.status, refused.header("x-request-id")), (421, "mine-8"));
}
