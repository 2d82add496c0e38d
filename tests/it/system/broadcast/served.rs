//! The whole path: the program, which lets clients send or not, and a real node.

use std::time::Duration;

use bitcoin::Transaction;
use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use serde_json::{Value, json};

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::test_process::TestProcess;

const SEND: &str = "mutation($hex: Hex!) { broadcastTransaction(hex: $hex) { outcome txid reject { code } } }";

/// A transaction of the node's wallet, signed and not sent.
fn signed(node: &RealNode) -> Transaction {
    let address = node.wallet_address("bech32");
    node.mine_to(&address, 101);
    let coin = &node.must("listunspent", &[])[0];
    let inputs = json!([{ "txid": coin["txid"], "vout": coin["vout"] }]);
    let raw = node.must("createrawtransaction", &[inputs, json!([{ &address: 49.999 }])]);
    let signed = node.must("signrawtransactionwithwallet", &[raw]);
    deserialize_hex(signed["hex"].as_str().unwrap()).unwrap()
}

#[test]
fn the_program_sends_transactions_only_if_set_to() {
    let Some(node) = RealNode::start(&[]) else { return };
    let transaction = signed(&node);
    let variables = json!({ "hex": serialize_hex(&transaction) });
    let directory = tempfile::tempdir().unwrap();
    let mut served = TestProcess::start(&node, directory.path());
    served.wait_for_height(101);
    let refused = served.query_with(SEND, &variables);
    assert_eq!(refused["errors"][0]["extensions"]["setting"], json!("api.broadcast"), "{refused:#}");
    assert_eq!(node.must("getrawmempool", &[]), json!([]));
    served.stop();

    let served = TestProcess::start_with(&node, directory.path(), &[("BTCGRAPH_API__BROADCAST", "true")]);
    // the index is there before the node is
    wait_for("the node to be followed", Duration::from_secs(30), || {
        (served.query("{ sync { isReady } }")["data"]["sync"]["isReady"] == json!(true)).then_some(())
    });
    let txid = json!(transaction.compute_txid().to_string());
    for outcome in ["ACCEPTED", "ALREADY_IN_MEMPOOL"] {
        let sent = served.query_with(SEND, &variables);
        let expected = json!({ "outcome": outcome, "txid": txid, "reject": null });
        assert_eq!(sent["data"]["broadcastTransaction"], expected, "{sent:#}");
    }
    assert_eq!(node.must("getrawmempool", &[]), json!([txid]));
}

#[test]
fn every_transaction_that_nodes_relay_fits_a_request_and_one_as_large_as_a_block_does_not() {
    let Some(node) = RealNode::start(&[]) else { return };
    let mut large = signed(&node);
    let directory = tempfile::tempdir().unwrap();
    let served = TestProcess::start(&node, directory.path());
    served.wait_for_height(101);
    // 400,000 weight units at most (`MAX_STANDARD_TX_WEIGHT` of Core's `policy/policy.h`)
    large.input[0].witness.push(vec![7; 399_000]);
    assert!(large.weight().to_wu() <= 400_000);
    let decode = "query($hex: Hex!) { decodeTransaction(hex: $hex) { transaction { weight } } }";
    let decoded = served.query_with(decode, &json!({ "hex": serialize_hex(&large) }));
    assert_eq!(decoded["data"]["decodeTransaction"]["transaction"]["weight"], json!(large.weight().to_wu()));

    let body = json!({ "query": SEND, "variables": { "hex": "00".repeat(1_500_000) } }).to_string();
    let request = ureq::post(format!("http://{}/graphql", served.address)).header("content-type", "application/json");
    let mut response = request.config().http_status_as_error(false).build().send(&body).unwrap();
    assert_eq!(response.status().as_u16(), 413);
    let reported: Value = serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap();
    assert_eq!(reported["errors"][0]["extensions"]["code"], json!("QUERY_LIMIT_EXCEEDED"));
}
