//! The clients that applications commonly have for subscriptions. tests/web/subscribers.js runs them; this mines when one
//! waits for a block, and judges what they were told.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Served, chain};
use crate::support::api::Api;
use crate::support::skips::{current_test, skip};

#[test]
fn common_clients_ask_are_refused_are_told_of_blocks_and_come_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    if !folder.join("node_modules/graphql-ws").is_dir() {
        return skip(&current_test(), "no graphql-ws: run scripts/npm.sh --install-node tests/web");
    }
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let served = runtime.block_on(Served::start(&api));
    let mut clients = Command::new("node")
        .args(["subscribers.js", &format!("http://{}", served.address)])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut hashes = clients.stdin.take().unwrap();
    let (mut mined, mut seen) = (Vec::new(), Value::Null);
    for line in BufReader::new(clients.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line == "mine" {
            let block = chain.mine(Vec::new()).unwrap();
            api.connect(&block);
            mined.push(block.block_hash().to_string());
            writeln!(hashes, "{}", mined[mined.len() - 1]).unwrap();
        } else {
            seen = line["seen"].clone();
        }
    }
    assert!(clients.wait().unwrap().success(), "a client failed");
    let tip = |height: usize| json!({ "tip": { "height": height } });
    let refusal = "GRAPHQL_VALIDATION_FAILED";
    assert_eq!(
        seen,
        json!({
            "graphql-ws": {
                "query": tip(3), "refusal": refusal, "told": [mined[0], mined[1]], "missed": mined[3], "pongs": true,
                "left": 0,
            },
            "subscriptions-transport-ws": { "query": tip(7), "refusal": refusal, "told": [mined[4]], "left": 0 },
            "graphql-sse": { "query": tip(8), "refusal": refusal, "told": [mined[5]], "left": 0 },
        })
    );
    runtime.block_on(served.stop());
}
