//! The clients that applications commonly have for subscriptions. tests/web/subscribers.js runs them; this mines when one
//! waits for a block, and judges what they received. Apollo Client, which does more than that, has tests/web/apollo.js.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use btcgraph::sim::{Owner, Payment, ScriptKind, SimChain, Spendable};
use serde_json::{Value, json};

use super::chain;
use crate::support::api::{Api, sat};
use crate::support::skips::{current_test, skip};
use crate::support::test_server::TestServer;

/// Runs a script of tests/web to its end, and gives it what `answer` says to each line that it prints. What it saw; `None`,
/// which is recorded, where this package of npm is not there.
#[track_caller]
pub(super) fn converse(
    script: &str,
    package: &str,
    arguments: &[String],
    mut answer: impl FnMut(Value) -> String,
) -> Option<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    if !folder.join("node_modules").join(package).is_dir() {
        skip(&current_test(), &format!("no {package}: run scripts/npm.sh --install-node tests/web"));
        return None;
    }
    let mut clients = Command::new("node")
        .arg(script)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = clients.stdin.take().unwrap();
    let mut seen = Value::Null;
    for line in BufReader::new(clients.stdout.take().unwrap()).lines() {
        let mut line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line.get_mut("seen") {
            Some(all) => seen = all.take(),
            None => writeln!(answers, "{}", answer(line)).unwrap(),
        }
    }
    assert!(clients.wait().unwrap().success(), "a client failed");
    Some(seen)
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs a script of tests/web on a server over this chain, to its end. What it saw, and the hashes of the blocks that were
/// mined for it; `None`, which is recorded, where this package of npm is not there.
#[track_caller]
fn run(script: &str, package: &str, arguments: &[String], chain: &mut SimChain) -> Option<(Value, Vec<String>)> {
    let mut api = Api::of_chain(chain);
    let runtime = runtime();
    let served = runtime.block_on(TestServer::start(&api));
    let arguments = [&[format!("http://{}", served.address)], arguments].concat();
    let mut mined = Vec::new();
    let seen = converse(script, package, &arguments, |line| {
        assert_eq!(line, "mine");
        let block = chain.mine(Vec::new()).unwrap();
        api.connect(&block);
        let hash = block.block_hash().to_string();
        mined.push(hash.clone());
        hash
    })?;
    runtime.block_on(served.stop());
    Some((seen, mined))
}

#[test]
fn common_clients_query_fail_subscribe_and_reconnect() {
    let Some((seen, mined)) = run("subscribers.js", "graphql-ws", &[], &mut chain()) else { return };
    let tip = |height: usize| json!({ "tip": { "height": height } });
    let refusals = ["GRAPHQL_VALIDATION_FAILED", "BAD_USER_INPUT"];
    assert_eq!(
        seen,
        json!({
            "graphql-ws": {
                "query": tip(3), "refusals": refusals, "reported": [mined[0], mined[1]], "missed": mined[3], "pongs": true,
                "left": 0,
            },
            "subscriptions-transport-ws": { "query": tip(7), "refusals": refusals, "reported": [mined[4]], "left": 0 },
            "graphql-sse": { "query": tip(8), "refusals": refusals, "reported": [mined[5]], "left": 0 },
        })
    );
}

/// A chain in which one address is in 24 transactions of 8 blocks, and the address.
fn busy_chain() -> (SimChain, String) {
    let mut chain = SimChain::new(42);
    let coinbases = chain.mine_empty(124).unwrap();
    let payee = Owner::new(ScriptKind::P2wpkh, 7);
    for coinbases in coinbases[..24].chunks(3) {
        let pay = |block: &std::sync::Arc<bitcoin::Block>| {
            let coin = Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap();
            Payment::of([coin]).to(payee, sat(1_000_000)).change(SimChain::miner(), 2).sign().unwrap()
        };
        chain.mine(coinbases.iter().map(pay).collect()).unwrap();
    }
    chain.mine_empty(1).unwrap();
    let address = bitcoin::Address::from_script(&payee.script_pubkey(), bitcoin::Network::Regtest).unwrap();
    (chain, address.to_string())
}

#[test]
fn apollo_client_holds_objects_and_pages_together_with_the_cache_that_is_shipped_and_with_its_own() {
    let (mut chain, address) = busy_chain();
    let Some((seen, _)) = run("apollo.js", "@apollo/client", &[address], &mut chain) else { return };
    assert_eq!(seen.as_array().map(Vec::len), Some(28), "{seen:#}");
}
