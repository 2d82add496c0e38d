//! Requests that kill or pin servers, and their relatives: each against a running program, over HTTP, named by its hash,
//! and over websockets of both protocols. It answers as corpus.txt says, in time and within its memory, and lives on.
//!
//! ```text
//!   corpus.txt ── corpus.rs ──┬──► the program: a code, data, or a connection that is closed
//!                             └──► mutants.rs: what becomes of them when they are changed a little
//! ```
//!
//! After a change that is meant, `BTCGRAPH_UPDATE_CORPUS=1` writes into corpus.txt what is answered now.

mod corpus;
mod mutants;
mod target;

use std::time::Duration;

use corpus::{Case, Kind, as_text, cases, start};
use serde_json::json;
use target::{LEGACY, TRANSPORT, Target};

/// What an answer may take. The second of the two killers took a server 14 seconds, when it was not built for debugging.
const IN_TIME: Duration = Duration::from_secs(5);

/// What all of it may take of memory.
const MEMORY_MIB: u64 = 400;

/// The body of a request that names its query by the hash, too.
fn persisted(query: &[u8]) -> Vec<u8> {
    use bitcoin::hashes::{Hash, sha256};
    let query = as_text(query);
    let hash = sha256::Hash::hash(query.as_bytes()).to_string();
    let extensions = json!({ "persistedQuery": { "version": 1, "sha256Hash": hash } });
    serde_json::to_vec(&json!({ "query": query, "extensions": extensions })).unwrap()
}

/// Notes what there is to complain of. How long the slowest answer took.
async fn judge(target: &Target, case: &mut Case, faults: &mut Vec<String>) -> Duration {
    let mut outcomes = Vec::new();
    if case.kind != Kind::Message {
        outcomes.push(("HTTP", target.post(&case.body())));
    }
    if case.kind == Kind::Query {
        outcomes.push(("HTTP, by its hash", target.post(&persisted(&case.text()))));
    }
    outcomes.push(("websocket", target.say(TRANSPORT, &case.message()).await));
    let mut slowest = Duration::ZERO;
    for (how, (outcome, took)) in outcomes {
        slowest = slowest.max(took);
        let expected = if how == "websocket" { &mut case.websocket } else { &mut case.http };
        if std::env::var_os("BTCGRAPH_UPDATE_CORPUS").is_some() {
            expected.clone_from(&outcome);
        }
        if *expected != outcome {
            faults.push(format!("{} ({how}): {outcome}, expected {expected}", case.name));
        }
        if took > IN_TIME {
            faults.push(format!("{} ({how}): {took:?}", case.name));
        }
    }
    if case.kind != Kind::Message {
        let (outcome, took) = target.say(LEGACY, &start(&case.body())).await;
        if took > IN_TIME || outcome != case.websocket {
            faults.push(format!("{} (older websocket): {outcome} after {took:?}", case.name));
        }
    }
    if case.kind == Kind::Message && case.http == "?" {
        "-".clone_into(&mut case.http);
    }
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kills_or_pins_servers_and_its_relatives_are_refused_in_time_over_http_and_websockets() {
    let target = Target::start();
    let before = target.memory_mib();
    let (mut cases, mut faults) = (cases(), Vec::new());
    assert!(cases.len() > 200);
    let mut slowest = (Duration::ZERO, String::new());
    for case in &mut cases {
        let took = judge(&target, case, &mut faults).await;
        if took > slowest.0 {
            case.name.clone_into(&mut slowest.1);
            slowest.0 = took;
        }
        assert!(target.lives(), "{} killed it", case.name);
    }
    if std::env::var_os("BTCGRAPH_UPDATE_CORPUS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/server/hostile_requests/corpus.txt");
        std::fs::write(path, cases.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n") + "\n").unwrap();
    }
    println!("the slowest: {slowest:?}");
    let remedy = "if they are meant, BTCGRAPH_UPDATE_CORPUS=1 writes corpus.txt anew; read what changes in it";
    assert!(faults.is_empty(), "{} faults ({remedy}):\n{}", faults.len(), faults.join("\n"));
    let after = target.memory_mib();
    assert!(after.saturating_sub(before) < MEMORY_MIB, "{before} MiB became {after} MiB");
}
