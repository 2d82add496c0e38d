//! Transactions that are looked at and not sent.

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Transaction, Txid};
use serde_json::{Value, json};

use super::lab::{COIN, Lab, REJECT, child_of, labs, least_fee, of_owner, paying, spending, txid};

fn test<'t>(lab: &Lab, transactions: impl IntoIterator<Item = &'t Transaction>, limit: &str) -> Value {
    let document = format!(
        "query($hexes: [Hex!]!) {{ of: testTransactions(hexes: $hexes{limit})
            {{ txid wtxid allowed vsize fee effectiveFeeRate effectiveIncludes {REJECT} }} }}"
    );
    let hexes: Value = transactions.into_iter().map(serialize_hex).collect();
    lab.data(&document, json!({ "hexes": hexes }))
}

#[test]
fn a_transaction_is_judged_and_not_sent() {
    for mut lab in labs() {
        let coin = lab.coin();
        let sound = paying(coin, 1_100);
        let wtxid = json!(sound.compute_wtxid().to_string());
        for _ in 0..2 {
            assert_eq!(
                test(&lab, [&sound], ""),
                json!([{
                    "txid": txid(&sound), "wtxid": wtxid, "allowed": true, "vsize": 110, "fee": 1_100,
                    "effectiveFeeRate": 10.0, "effectiveIncludes": [wtxid], "reject": null,
                }])
            );
        }
        assert_eq!(test(&lab, [&sound], ", maxFeeRate: 9.9")[0]["reject"]["code"], json!("FEE_TOO_HIGH"));
        let cheap = paying(coin, 7);
        let answer = test(&lab, [&cheap], "");
        assert_eq!((&answer[0]["allowed"], &answer[0]["fee"]), (&json!(false), &Value::Null));
        let reject = &answer[0]["reject"];
        assert_eq!((&reject["code"], &reject["requiredFee"]), (&json!("FEE_TOO_LOW"), &json!(least_fee(&cheap))));

        lab.must_take(&sound);
        assert_eq!(test(&lab, [&sound], "")[0]["reject"]["code"], json!("ALREADY_IN_MEMPOOL"));
        lab.mine(1);
        assert_eq!(test(&lab, [&sound], "")[0]["reject"]["code"], json!("ALREADY_CONFIRMED"));
        lab.must_take(&child_of(&sound, 500));
        lab.mine(1);
        assert_eq!(test(&lab, [&sound], "")[0]["reject"]["code"], json!("ALREADY_CONFIRMED"), "all outputs are spent");
        lab.stop();
    }
}

#[test]
fn of_several_transactions_one_may_spend_another_and_one_that_is_refused_ends_it() {
    for mut lab in labs() {
        let (coin, other) = (lab.coin(), lab.coin());
        let parent = paying(coin, 500);
        let child = child_of(&parent, 500);
        let answer = test(&lab, [&parent, &child], "");
        assert_eq!([&answer[0]["allowed"], &answer[1]["allowed"]], [&json!(true), &json!(true)], "{answer:#}");

        let cheap = paying(other, 7);
        let answer = test(&lab, [&cheap, &parent], "");
        assert_eq!([&answer[0]["txid"], &answer[1]["txid"]], [&txid(&cheap), &txid(&parent)]);
        let codes = [&answer[0]["reject"]["code"], &answer[1]["reject"]["code"]];
        assert_eq!(codes, [&json!("FEE_TOO_LOW"), &json!("NOT_TRIED")], "{answer:#}");

        let answer = test(&lab, [&child, &parent], "");
        let codes = [&answer[0]["reject"]["code"], &answer[1]["reject"]["code"]];
        assert_eq!(codes, [&json!("PACKAGE_INVALID"), &json!("PACKAGE_INVALID")], "{answer:#}");
        lab.stop();
    }
}

#[test]
fn invalid_bytes_are_bad_input_and_an_absent_node_is_reported() {
    let mut lab = Lab::simulated();
    let coin = lab.coin();
    let sound = serialize_hex(&paying(coin, 500));
    let refusal = |lab: &Lab, document: &str, variables: Value| {
        let response = lab.execute(document, variables);
        assert_eq!(response["data"], json!({ "of": null }), "{response:#}");
        response["errors"][0]["extensions"]["code"].clone()
    };
    let tested = "query($hexes: [Hex!]!) { of: testTransactions(hexes: $hexes) { allowed } }";
    assert_eq!(refusal(&lab, tested, json!({ "hexes": [sound, "00"] })), json!("BAD_USER_INPUT"));
    assert_eq!(refusal(&lab, tested, json!({ "hexes": [] })), json!("BAD_USER_INPUT"));
    assert_eq!(refusal(&lab, tested, json!({ "hexes": vec![&sound; 26] })), json!("QUERY_LIMIT_EXCEEDED"));
    let limited = "query($hexes: [Hex!]!) { of: testTransactions(hexes: $hexes, maxFeeRate: -1) { allowed } }";
    assert_eq!(refusal(&lab, limited, json!({ "hexes": [sound] })), json!("BAD_USER_INPUT"));
    let decoded = "query($hex: Hex!) { of: decodeTransaction(hex: $hex) { isResolved } }";
    assert_eq!(refusal(&lab, decoded, json!({ "hex": &sound[2..] })), json!("BAD_USER_INPUT"));
    assert_eq!(refusal(&lab, decoded, json!({ "hex": format!("{sound}00") })), json!("BAD_USER_INPUT"));
    let mut rich = paying(coin, 500);
    rich.output[0].value = bitcoin::Amount::MAX;
    assert_eq!(refusal(&lab, decoded, json!({ "hex": serialize_hex(&rich) })), json!("BAD_USER_INPUT"));
    lab.node.kill();
    assert_eq!(refusal(&lab, tested, json!({ "hexes": [sound] })), json!("NODE_UNAVAILABLE"));
    lab.stop();
}

const DECODED: &str = "query($hex: Hex!) { of: decodeTransaction(hex: $hex) {
    alreadyKnown isResolved missingInputs { text }
    transaction { txid state fee hex confirmations conflicts inputs { nodes { prevout { value spendStatus } } } } } }";

#[test]
fn a_decoded_transaction_has_prevouts_and_whether_it_is_known() {
    for mut lab in labs() {
        let coin = lab.coin();
        let (first, rival) = (paying(coin, 500), paying(coin, 900));
        let decode = |of: &Transaction| lab.data(DECODED, json!({ "hex": serialize_hex(of) }));
        let expected = |of: &Transaction, known: Value, state: &str, fee: u64, status: &str, conflicts: Value| {
            let input = json!({ "prevout": { "value": COIN, "spendStatus": status } });
            json!({
                "alreadyKnown": known, "isResolved": true, "missingInputs": [],
                "transaction": {
                    "txid": txid(of), "state": state, "fee": fee, "hex": serialize_hex(of), "confirmations": 0,
                    "conflicts": conflicts, "inputs": { "nodes": [input] },
                },
            })
        };
        assert_eq!(decode(&first), expected(&first, Value::Null, "UNKNOWN", 500, "UNSPENT", json!([])));
        lab.must_take(&first);
        let known = json!("MEMPOOL");
        assert_eq!(decode(&first), expected(&first, known, "MEMPOOL", 500, "SPENT_IN_MEMPOOL", json!([])));
        let conflicts = json!([txid(&first)]);
        assert_eq!(decode(&rival), expected(&rival, Value::Null, "UNKNOWN", 900, "SPENT_IN_MEMPOOL", conflicts));

        // a child of what waits, without its signature
        let mut unsigned = child_of(&first, 300);
        unsigned.input[0].witness.clear();
        let answer = decode(&unsigned);
        assert_eq!((&answer["isResolved"], &answer["transaction"]["fee"]), (&json!(true), &json!(300)));
        lab.stop();
    }
}

#[test]
fn only_the_bytes_of_a_known_transaction_have_its_id() {
    let mut lab = Lab::simulated();
    let known = paying(lab.coin(), 500);
    lab.must_take(&known);
    let mut stripped = known.clone();
    stripped.input[0].witness.clear();
    let unknown = child_of(&known, 300);
    let fields = "id wtxid size hex outputs { nodes { id transaction { id } } }";
    let document = format!("query($hex: Hex!) {{ of: decodeTransaction(hex: $hex) {{ transaction {{ {fields} }} }} }}");
    let decode = |of: &Transaction| lab.data(&document, json!({ "hex": serialize_hex(of) }))["transaction"].clone();

    let by_txid = format!("query($txid: Txid!) {{ of: transaction(txid: $txid) {{ {fields} }} }}");
    let found = lab.data(&by_txid, json!({ "txid": txid(&known) }));
    assert_eq!(found["id"], json!(format!("Transaction:{}", known.compute_txid())));
    assert_eq!(decode(&known), found, "the same bytes are the same object");

    for other in [&stripped, &unknown] {
        let (decoded, wtxid) = (decode(other), other.compute_wtxid());
        let id = format!("Transaction:{}+{wtxid}", other.compute_txid());
        assert_eq!((&decoded["id"], &decoded["wtxid"]), (&json!(id), &json!(wtxid.to_string())));
        let output = format!("Output:{}:0+{wtxid}", other.compute_txid());
        assert_eq!(decoded["outputs"]["nodes"][0], json!({ "id": output, "transaction": { "id": id } }));
        for id in [id, output] {
            let by_id = lab.data("query($id: ID!) { of: node(id: $id) { id } }", json!({ "id": id }));
            assert_eq!(by_id, Value::Null, "{id}");
        }
    }
    lab.stop();
}

#[test]
fn unknown_outputs_are_named_and_leave_no_fee() {
    let mut lab = Lab::simulated();
    let there = lab.coin();
    let missing = [OutPoint { txid: Txid::from_byte_array([7; 32]), vout: 0 }, OutPoint { vout: 1_000, ..there }];
    let coins = [missing[0], there, missing[1]].map(|coin| (coin, of_owner(COIN)));
    let decoded = lab.data(DECODED, json!({ "hex": serialize_hex(&spending(&coins, vec![of_owner(COIN)])) }));
    assert_eq!(decoded["missingInputs"], json!(missing.map(|outpoint| json!({ "text": outpoint.to_string() }))));
    assert_eq!((&decoded["isResolved"], &decoded["transaction"]["fee"]), (&json!(false), &Value::Null));

    let coinbase = lab.data(DECODED, json!({ "hex": serialize_hex(&lab.coinbase) }));
    assert_eq!((&coinbase["alreadyKnown"], &coinbase["missingInputs"]), (&json!("CONFIRMED"), &json!([])));
    lab.stop();
}
