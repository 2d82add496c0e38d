//! The explorer in a headless Chromium, on a server that follows a real node. tests/web/explorer.js is the visitor; this
//! mines, pays and restarts when it asks for that, and judges what it saw.
//!
//! With `PLAYGROUND_PICTURES` set to a folder the visitor leaves pictures there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::browser::{browser, chain};
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::skips::{current_test, skip};
use crate::support::test_process::TestProcess;

/// The most that the first view may load, compressed.
const FIRST_VIEW_BYTES: u64 = 300_000;

/// The weight of projected blocks: seven payments, so that some wait for a later block.
const BLOCK_WEIGHT: &str = "4000";

/// What the visitor needs, as the head of its file says.
#[derive(Deserialize)]
#[serde(tag = "need", rename_all = "lowercase")]
enum Need {
    Block,
    Payment { to: Option<String> },
    Restart { to: String },
    Entries { count: u32 },
    Reorg,
    Stuck,
    Balance { of: String, at: Option<u32> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Need(Need),
    Seen { seen: Seen },
}

/// The blocks of a reorg in words.
#[derive(Debug, Deserialize)]
struct ShownReorg {
    left: String,
    joined: String,
}

/// What it saw.
#[derive(Debug, Deserialize)]
struct Seen {
    bytes: u64,
    violations: Vec<String>,
    overflows: Vec<String>,
    hidden: Value,
    shares: f64,
    reorg: ShownReorg,
    stuck: Value,
    complaints: Vec<String>,
    elsewhere: Vec<String>,
    loads: u32,
}

fn pay(node: &RealNode, to: Option<String>) -> Value {
    let to = to.unwrap_or_else(|| node.wallet_address("bech32"));
    node.must("sendtoaddress", &[json!(to), json!(0.25)])
}

/// A transaction that waits for a block after the next, because enough others pay more, and what the server says of it.
fn stuck(node: &RealNode, served: &TestProcess) -> Value {
    let pay_at = |rate: u32| {
        let to = node.wallet_address("bech32");
        let arguments = json!([to, 0.1, "", "", false, true, null, "unset", null, rate]);
        node.must("sendtoaddress", arguments.as_array().unwrap())
    };
    for _ in 0..9 {
        pay_at(20);
    }
    let txid = pay_at(1);
    let fees = "query ($of: Txid!, $to: Float!) { recommendedFees { within1Block } transaction(txid: $of) {
        mempoolEntry { projectedBlockIndex bumpFeeTo(feeRate: $to, minimal: false) } } }";
    let ask = |to: f64| served.query_with(fees, &json!({ "of": txid, "to": to }))["data"].clone();
    let data = wait_for("the transaction to wait", Duration::from_secs(30), || {
        let data = ask(1.0);
        data["transaction"]["mempoolEntry"]["projectedBlockIndex"]
            .as_u64()
            .is_some_and(|index| index > 0)
            .then_some(data)
    });
    let target = data["recommendedFees"]["within1Block"].as_f64().unwrap().ceil();
    json!({ "txid": txid, "target": target, "fee": ask(target)["transaction"]["mempoolEntry"]["bumpFeeTo"] })
}

/// What the visitor gets.
fn provide(need: Need, node: &RealNode, served: &mut TestProcess, directory: &Path) -> Value {
    match need {
        Need::Block => json!(node.mine(1)[0]),
        Need::Payment { to } => pay(node, to),
        Need::Restart { to } => {
            let mut txid = Value::Null;
            served.restart(node, directory, || {
                txid = pay(node, Some(to));
                node.mine(1);
            });
            txid
        }
        Need::Entries { count } => {
            let address = node.wallet_address("bech32");
            node.mine_to(&address, count);
            json!(address)
        }
        Need::Reorg => {
            let stale = node.must("getbestblockhash", &[]);
            node.must("invalidateblock", std::slice::from_ref(&stale));
            node.mine(2);
            stale
        }
        Need::Stuck => stuck(node, served),
        Need::Balance { of, at } => {
            let at = at.map_or(Value::Null, |height| json!({ "height": height }));
            let query =
                "query ($of: String!, $at: BlockAt) { address(address: $of) { balance(at: $at) { confirmed total } } }";
            let answer = served.query_with(query, &json!({ "of": of, "at": at }));
            let field = if at.is_null() { "total" } else { "confirmed" };
            json!(answer["data"]["address"]["balance"][field].to_string())
        }
    }
}

#[test]
fn the_explorer_follows_the_chain_and_survives_a_restart() {
    let Some(browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let Some((node, mut served)) = chain(directory.path(), &[("BTCGRAPH_MEMPOOL__BLOCK_WEIGHT", BLOCK_WEIGHT)]) else {
        return;
    };
    if served.get("/") == served.get("/playground/plain/explorer.html") {
        return skip(&current_test(), "no explorer in this program: run scripts/playground.sh and build it again");
    }
    let mut visitor = Command::new("node")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web/explorer.js"))
        .arg(browser)
        .arg(format!("http://{}", served.address))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut provided = visitor.stdin.take().unwrap();
    let mut seen = None;
    for line in BufReader::new(visitor.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        match serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")) {
            Line::Need(need) => {
                let answer = provide(need, &node, &mut served, directory.path());
                writeln!(provided, "{answer}").unwrap();
            }
            Line::Seen { seen: all } => seen = Some(all),
        }
    }
    assert!(visitor.wait().unwrap().success(), "the visitor failed");

    let seen: Seen = seen.expect("the visitor says what it saw");
    assert_eq!(seen.violations, Vec::<String>::new());
    assert_eq!(seen.overflows, Vec::<String>::new());
    assert!((seen.shares - 100.0).abs() < 4.0, "rounded shares add up to {} %", seen.shares);
    assert_eq!(seen.hidden, json!({ "320": 0, "360": 0, "768": 0, "1440": 0 }));
    let mut stuck = seen.stuck;
    let lowest = stuck["lowest"].take();
    // the lengths of signatures differ, and with them what a node pays a vbyte
    assert!(lowest.as_str().is_some_and(|lowest| lowest == "20 sat/vB" || lowest.starts_with("20.")), "{lowest}");
    // how many coins the others spend differs, too
    let block = stuck["block"].take();
    assert!(["2nd from now", "3rd from now"].iter().any(|expected| block == *expected), "{block}");
    assert_eq!(stuck, json!({ "block": null, "rate": "1 sat/vB", "lowest": null, "isEnough": true }));
    let tips = node.must("getchaintips", &[]);
    let stale = tips.as_array().unwrap().iter().find(|tip| tip["status"] == "invalid").unwrap();
    let shown = |hash: &Value| format!("{} …{}", stale["height"], &hash.as_str().unwrap()[56..]);
    assert_eq!(seen.reorg.left, shown(&stale["hash"]));
    let joined = node.must("getblockhash", std::slice::from_ref(&stale["height"]));
    assert_eq!(seen.reorg.joined.lines().next(), Some(shown(&joined).as_str()));
    assert_eq!(seen.complaints, Vec::<String>::new());
    assert_eq!(seen.elsewhere, Vec::<String>::new());
    assert_eq!(seen.loads, 1, "the page was loaded again");
    assert!((1..FIRST_VIEW_BYTES).contains(&seen.bytes), "the first view loads {} bytes", seen.bytes);
}
