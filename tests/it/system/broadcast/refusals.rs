//! What never reaches the node.

use async_graphql::{Executor, Request};
use bitcoin::Network;
use bitcoin::consensus::encode::serialize_hex;
use btcgraph::limits::Limits;
use serde_json::{Value, json};

use super::lab::{Lab, paying};
use crate::support::api::Api;

#[test]
fn bytes_that_are_no_transaction_are_rejected_and_text_that_is_no_hex_is_no_argument() {
    let mut lab = Lab::simulated();
    let coin = lab.coin();
    let whole = serialize_hex(&paying(coin, 500));
    for broken in ["", "00", &whole[..whole.len() - 2], &format!("{whole}00")] {
        let answer = lab.send_hex(broken);
        let reject = &answer["reject"];
        assert_eq!((&answer["outcome"], &reject["code"]), (&json!("REJECTED"), &json!("DECODE_FAILED")), "{broken}");
        assert_eq!(reject["rejectReason"], json!("TX decode failed"));
        assert!(reject["details"].as_str().unwrap().starts_with("TX decode failed, "), "{reject}");
        assert_eq!(
            (&answer["txid"], &answer["wtxid"], &answer["transaction"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    }
    let document = "mutation($hex: Hex!) { of: broadcastTransaction(hex: $hex) { outcome } }";
    for text in ["0", "xy", "0x00"] {
        let response = lab.execute(document, json!({ "hex": text }));
        assert_eq!(response["errors"][0]["extensions"]["code"], json!("GRAPHQL_VALIDATION_FAILED"), "{response:#}");
    }
    lab.stop();
}

#[test]
fn arguments_that_cannot_be_are_errors() {
    let mut lab = Lab::simulated();
    let coin = lab.coin();
    let hex = serialize_hex(&paying(coin, 500));
    for (arguments, code) in [
        ("maxFeeRate: -1", "BAD_USER_INPUT"),
        ("maxFeeRate: 100000", "BAD_USER_INPUT"),
        ("maxBurn: -1", "GRAPHQL_VALIDATION_FAILED"),
    ] {
        let document =
            format!("mutation($hex: Hex!) {{ of: broadcastTransaction(hex: $hex, {arguments}) {{ outcome }} }}");
        let response = lab.execute(&document, json!({ "hex": hex }));
        assert_eq!(response["errors"][0]["extensions"]["code"], json!(code), "{arguments}: {response:#}");
    }
    let document = "mutation($hexes: [Hex!]!) { of: broadcastPackage(hexes: $hexes) { accepted } }";
    let response = lab.execute(document, json!({ "hexes": [] }));
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"));
    let response = lab.execute(document, json!({ "hexes": vec![&hex; 26] }));
    let expected = json!({ "code": "QUERY_LIMIT_EXCEEDED", "argument": "hexes", "which": "packageTransactions", "limit": 25, "actual": 26 });
    assert_eq!(response["errors"][0]["extensions"], expected);
    let limits = lab.execute("{ server { limits { requests { packageTransactions } } } }", json!({}));
    assert_eq!(limits["data"]["server"], json!({ "limits": { "requests": { "packageTransactions": 25 } } }));
    lab.stop();
}

#[test]
fn while_it_is_switched_off_the_setting_is_named_and_asking_goes_on() {
    let api = Api::empty(Network::Regtest, Limits::default());
    let sent = api.ask("mutation { of: broadcastTransaction(hex: \"00\") { outcome } }");
    assert_eq!(sent["data"], json!({ "of": null }));
    let expected = json!({ "code": "FEATURE_DISABLED", "feature": "BROADCAST", "setting": "api.broadcast" });
    assert_eq!(sent["errors"][0]["extensions"], expected);
    assert_eq!(
        api.refusal("mutation { of: broadcastPackage(hexes: [\"00\"]) { accepted } }"),
        json!("FEATURE_DISABLED")
    );
    let features = [
        json!({ "name": "BROADCAST", "enabled": false, "setting": "api.broadcast" }),
        json!({ "name": "WTXIDS", "enabled": false, "setting": "index.wtxids" }),
        json!({ "name": "ADDRESS_PREFIXES", "enabled": false, "setting": "index.address_prefixes" }),
        json!({ "name": "OP_RETURNS", "enabled": false, "setting": "index.op_returns" }),
        json!({ "name": "BLOCK_FILTERS", "enabled": false, "setting": "index.block_filters" }),
        json!({ "name": "BLOCK_TEMPLATE", "enabled": false, "setting": "server.block_template" }),
        json!({ "name": "RATES", "enabled": false, "setting": "rates.file or rates.url" }),
    ];
    assert_eq!(api.data("{ server { features { name enabled setting } } }")["server"]["features"], json!(features));
    assert_eq!(api.refusal("{ testTransactions(hexes: [\"00\"]) { allowed } }"), json!("NOT_READY"));
}

#[test]
fn a_mutation_that_may_cost_too_much_sends_nothing() {
    let api = Api::empty(Network::Regtest, Limits { complexity: 120, ..Limits::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ask =
        |document: &str| serde_json::to_value(runtime.block_on(api.schema.execute(Request::new(document)))).unwrap();
    let send = "broadcastTransaction(hex: \"00\") { outcome }";
    let refused = ask(&format!("mutation {{ a: {send} b: {send} c: {send} }}"));
    let expected =
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "complexity", "limit": 120, "actual": 3 * (50 + 2) });
    assert_eq!((&refused["data"], &refused["errors"][0]["extensions"]), (&Value::Null, &expected));
    let executed = ask(&format!("mutation {{ a: {send} b: {send} }}"));
    assert_eq!(executed["data"], json!({ "a": null, "b": null }));
    assert_eq!(executed["errors"][1]["extensions"]["code"], json!("FEATURE_DISABLED"));
}
