//! What is said of a transaction that is sent while the node, or what the server knows, is not as it should be.

use std::sync::{Arc, Mutex};

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network, OutPoint, Transaction};
use btcgraph::index::IndexOptions;
use btcgraph::limits::Limits;
use btcgraph::mempool::Departure;
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{Owner, ScriptKind, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::view::{NodeLimits, SyncState};
use serde_json::{Value, json};

use super::projected::chain_with_coins;
use crate::support::api::{Api, sat, spend_outputs};

/// Whoever owns the coins of [`chain_with_coins`].
const PAYER: Owner = Owner::new(ScriptKind::BareTrue, 1);

/// A payment of such a coin that leaves this fee, of no less than the bytes that nodes relay.
fn paying(coin: OutPoint, fee: u64) -> Transaction {
    let output = Owner::new(ScriptKind::P2wpkh, 7).output(sat(100_000 - fee));
    spend_outputs(PAYER, &[coin], &[PAYER.output(sat(100_000))], vec![output])
}

/// A node on this chain, with a mempool of its own.
fn node_on(chain: SimChain) -> (SimNode, Node) {
    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth)).unwrap();
    (sim, node)
}

/// A node that has nothing but the first block, so that it misses the inputs of whatever it is sent.
fn empty_node() -> (SimNode, Node) {
    node_on(SimChain::new(70))
}

fn send(api: &Api, transaction: &Transaction) -> Value {
    let hex = serialize_hex(transaction);
    let fields = "outcome transaction { state } reject { code }";
    api.ask(&format!("mutation {{ of: broadcastTransaction(hex: \"{hex}\") {{ {fields} }} }}"))
}

fn outcome(api: &Api, transaction: &Transaction) -> Value {
    let response = send(api, transaction);
    assert_eq!(response.get("errors"), None, "{response:#}");
    response["data"]["of"].clone()
}

const METHOD: &str = "sendrawtransaction";

#[test]
fn what_surely_was_not_sent_is_an_error_and_what_may_have_been_is_an_outcome() {
    let (chain, coins) = chain_with_coins(1);
    let payment = paying(coins[0], 500);
    let mut api = Api::of_chain(&chain);
    let (sim, node) = node_on(chain);
    api.broadcast_by(&node);
    let unsent = [(403, ""), (401, ""), (503, "Work queue depth exceeded")];
    for says in unsent {
        sim.override_response(METHOD, Some(says));
        let response = send(&api, &payment);
        assert_eq!(response["data"]["of"], Value::Null, "{says:?}: {response:#}");
        assert_eq!(response["errors"][0]["extensions"]["code"], json!("NODE_UNAVAILABLE"), "{says:?}");
    }
    sim.override_response(METHOD, None);
    sim.warm_up(Some("Loading block index…"));
    assert_eq!(send(&api, &payment)["errors"][0]["extensions"]["code"], json!("NODE_UNAVAILABLE"));
    sim.warm_up(None);
    for says in [(200, "nobody knows what this is"), (500, "")] {
        sim.override_response(METHOD, Some(says));
        let expected = json!({ "outcome": "NODE_UNREACHABLE", "transaction": null, "reject": null });
        assert_eq!(outcome(&api, &payment), expected, "{says:?}");
    }
    let package = api.ask(&format!(
        "mutation {{ of: broadcastPackage(hexes: [\"{0}\", \"{0}\"]) {{ results {{ outcome }} }} }}",
        serialize_hex(&payment)
    ));
    assert!(package["data"]["of"]["results"].is_array(), "{package:#}");
    sim.override_response("submitpackage", Some((403, "")));
    let refused = api.refusal(&format!(
        "mutation {{ of: broadcastPackage(hexes: [\"{}\"]) {{ message }} }}",
        serialize_hex(&payment)
    ));
    assert_eq!(refused, json!("NODE_UNAVAILABLE"));
}

#[test]
fn where_all_places_for_requests_are_taken_nothing_was_sent() {
    let (chain, coins) = chain_with_coins(1);
    let payment = paying(coins[0], 500);
    let limits = NodeLimits { requests: 0, timeout: std::time::Duration::from_millis(50), ..NodeLimits::default() };
    let mut api = Api::of_chain_asking(&chain, limits);
    let (sim, node) = node_on(chain);
    api.broadcast_by(&node);
    let before = sim.calls(METHOD);
    assert_eq!(send(&api, &payment)["errors"][0]["extensions"]["code"], json!("NODE_UNAVAILABLE"));
    assert_eq!(sim.calls(METHOD), before);
}

#[test]
fn what_the_node_misses_inputs_of_is_a_success_only_where_a_state_that_is_the_nodes_has_it() {
    let (mut chain, coins) = chain_with_coins(2);
    let (waits, mined) = (paying(coins[0], 500), paying(coins[1], 500));
    let mut api = Api::of_chain(&chain);
    let (_sim, node) = empty_node();
    api.broadcast_by(&node);
    api.connect(&chain.mine(vec![mined.clone()]).unwrap());
    api.arrive([&waits]);
    let tip = Some(api.view().tip().hash);
    let in_sync = SyncState { node_tip: tip, mempool_in_sync: true, ..SyncState::default() };
    let elsewhere = SyncState { node_tip: Some(BlockHash::all_zeros()), ..in_sync };
    let mempool_unknown = SyncState { mempool_in_sync: false, ..in_sync };
    let cases = [
        (in_sync, "ALREADY_IN_MEMPOOL", "ALREADY_CONFIRMED"),
        (mempool_unknown, "REJECTED", "ALREADY_CONFIRMED"),
        (elsewhere, "REJECTED", "REJECTED"),
    ];
    for (state, of_waiting, of_mined) in cases {
        api.set_state(state);
        for (transaction, expected) in [(&waits, of_waiting), (&mined, of_mined)] {
            let answer = outcome(&api, transaction);
            let code = if expected == "REJECTED" { json!("MISSING_INPUTS") } else { Value::Null };
            assert_eq!(answer["outcome"], json!(expected), "{state:?}");
            assert_eq!(answer["reject"].get("code").cloned().unwrap_or_default(), code, "{state:?}");
        }
    }
}

#[test]
fn a_node_that_judges_the_fee_does_not_have_the_transaction_whatever_the_server_says() {
    let (chain, coins) = chain_with_coins(1);
    let cheap = paying(coins[0], 1);
    let mut api = Api::of_chain(&chain);
    let (_sim, node) = node_on(chain);
    api.broadcast_by(&node);
    api.arrive([&cheap]);
    let node_tip = Some(api.view().tip().hash);
    api.set_state(SyncState { node_tip, mempool_in_sync: true, ..SyncState::default() });
    let answer = outcome(&api, &cheap);
    assert_eq!((&answer["outcome"], &answer["reject"]["code"]), (&json!("REJECTED"), &json!("FEE_TOO_LOW")));
}

#[test]
fn beside_an_accepted_transaction_stands_no_older_copy_that_was_evicted_once() {
    let (chain, coins) = chain_with_coins(1);
    let payment = paying(coins[0], 500);
    let mut api = Api::of_chain(&chain);
    let (_sim, node) = node_on(chain);
    api.broadcast_by(&node);
    api.arrive([&payment]);
    api.depart(&payment.compute_txid(), Departure::Evicted);
    let txid = payment.compute_txid();
    let before = api.data(&format!("{{ transaction(txid: \"{txid}\") {{ state }} }}"));
    assert_eq!(before, json!({ "transaction": { "state": "EVICTED" } }));
    // the server does not hear of it in time
    assert_eq!(outcome(&api, &payment), json!({ "outcome": "ACCEPTED", "transaction": null, "reject": null }));
}

#[test]
fn an_accepted_transaction_is_reported_without_the_index() {
    let (chain, coins) = chain_with_coins(1);
    let payment = paying(coins[0], 500);
    let mut file = None;
    // nothing of the index is in memory
    let mut api = Api::with_index(Network::Regtest, Limits::default(), |options| {
        file = Some(options.path.clone());
        IndexOptions { cache_bytes: 0, ..options }
    });
    api.change(0, chain.active_blocks().map(Arc::as_ref));
    let (sim, node) = node_on(chain);
    api.broadcast_by(&node);
    let file = std::fs::OpenOptions::new().write(true).open(file.unwrap()).unwrap();
    file.set_len(0).unwrap();
    let tip = api.ask("{ tip { transactions { nodes { txid } } } }");
    assert_eq!(tip["errors"][0]["extensions"]["code"], json!("INTERNAL_SERVER_ERROR"), "{tip:#}");

    let accepted = json!({ "outcome": "ACCEPTED", "transaction": null, "reject": null });
    assert_eq!(outcome(&api, &payment), accepted);
    assert_eq!(sim.calls(METHOD), 1);
    assert!(sim.with(|world| world.mempool().get(&payment.compute_txid()).is_some()).unwrap());
    // what it refused, too
    let refused = outcome(&api, &paying(coins[0], 1));
    assert_eq!(refused["outcome"], json!("REJECTED"), "{refused:#}");
}
