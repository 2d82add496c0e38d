//! What becomes of a transaction that is sent.

use bitcoin::hashes::Hash;
use bitcoin::{Amount, OutPoint, ScriptBuf, TxOut, Txid};
use serde_json::{Value, json};

use super::lab::{COIN, RESULT, child_of, labs, least_fee, of_owner, output_of, paying, spending, txid};
use bitcoin::consensus::encode::serialize_hex;

#[test]
fn a_transaction_that_is_taken_is_in_the_mempool_of_the_same_answer() {
    for mut lab in labs() {
        let coin = lab.coin();
        let sent = paying(coin, 500);
        let mempool = json!({ "ancestorCount": 1 });
        let expected = json!({
            "outcome": "ACCEPTED", "txid": txid(&sent), "wtxid": sent.compute_wtxid().to_string(), "replaced": [],
            "transaction": { "txid": txid(&sent), "state": "MEMPOOL", "fee": 500, "confirmations": 0, "mempoolEntry": mempool },
            "reject": null,
        });
        assert_eq!(lab.send(&sent), expected);
        lab.stop();
    }
}

#[test]
fn sending_again_is_a_success_wherever_the_transaction_is_by_then() {
    for mut lab in labs() {
        let coin = lab.coin();
        let sent = paying(coin, 500);
        lab.must_take(&sent);
        let again = lab.send(&sent);
        assert_eq!((&again["outcome"], &again["reject"]), (&json!("ALREADY_IN_MEMPOOL"), &Value::Null));
        assert_eq!((&again["transaction"]["state"], &again["replaced"]), (&json!("MEMPOOL"), &json!([])));

        lab.mine(1);
        let again = lab.send(&sent);
        assert_eq!((&again["outcome"], &again["reject"]), (&json!("ALREADY_CONFIRMED"), &Value::Null));
        assert_eq!(again["transaction"]["confirmations"], json!(1));

        // the node knows it by its unspent outputs alone; without them its inputs are missing
        lab.must_take(&child_of(&sent, 500));
        lab.mine(1);
        let again = lab.send(&sent);
        assert_eq!((&again["outcome"], &again["reject"]), (&json!("ALREADY_CONFIRMED"), &Value::Null));
        assert_eq!(again["transaction"]["confirmations"], json!(2));
        lab.stop();
    }
}

#[test]
fn mutations_of_one_request_see_what_those_before_them_did() {
    for mut lab in labs() {
        let coin = lab.coin();
        let sent = paying(coin, 500);
        let document = format!(
            "mutation($hex: Hex!) {{ of: broadcastTransaction(hex: $hex) {{ {RESULT} }}
                again: broadcastTransaction(hex: $hex) {{ outcome }} }}"
        );
        let response = lab.execute(&document, json!({ "hex": serialize_hex(&sent) }));
        let outcomes = ["of", "again"].map(|field| response["data"][field]["outcome"].clone());
        assert_eq!(outcomes, [json!("ACCEPTED"), json!("ALREADY_IN_MEMPOOL")], "{response:#}");
        lab.stop();
    }
}

#[test]
fn inputs_that_are_missing_are_named_with_what_spent_them() {
    for mut lab in labs() {
        let (gone, there) = (lab.coin(), lab.coin());
        let by = paying(gone, 500);
        lab.must_take(&by);
        lab.mine(1);
        let never = OutPoint { txid: Txid::from_byte_array([7; 32]), vout: 3 };
        let beyond = OutPoint { txid: there.txid, vout: 1_000 };
        let coins = [never, gone, there, beyond].map(|coin| (coin, of_owner(COIN)));
        let sent = spending(&coins, vec![of_owner(COIN)]);
        let answer = lab.send(&sent);
        let missing = [never, gone, beyond].map(|outpoint| json!({ "text": outpoint.to_string() }));
        let reject = json!({
            "code": "MISSING_INPUTS", "rejectReason": "bad-txns-inputs-missingorspent", "details": null,
            "missingInputs": missing,
            "conflictsWith": [txid(&by)], "requiredFee": null,
        });
        let expected = json!({
            "outcome": "REJECTED", "txid": txid(&sent), "wtxid": sent.compute_wtxid().to_string(), "replaced": [],
            "transaction": null, "reject": reject,
        });
        assert_eq!(answer, expected);
        lab.stop();
    }
}

#[test]
fn too_low_a_fee_is_refused_with_the_fee_that_is_enough() {
    for mut lab in labs() {
        let coin = lab.coin();
        let cheap = paying(coin, 10);
        let answer = lab.send(&cheap);
        let required = least_fee(&cheap);
        let reject = json!({
            "code": "FEE_TOO_LOW", "rejectReason": "min relay fee not met",
            "details": format!("min relay fee not met, 10 < {required}"),
            "missingInputs": [], "conflictsWith": [], "requiredFee": required,
        });
        assert_eq!((&answer["outcome"], &answer["reject"]), (&json!("REJECTED"), &reject));
        lab.must_take(&paying(coin, required));
        lab.stop();
    }
}

#[test]
fn a_coinbase_is_confirmed_or_refused_and_its_coins_have_to_mature() {
    for lab in labs() {
        let answer = lab.send(&lab.coinbase);
        assert_eq!((&answer["outcome"], &answer["reject"]), (&json!("ALREADY_CONFIRMED"), &Value::Null), "{answer:#}");
        let mut made_up = lab.coinbase.clone();
        made_up.output[0].value -= Amount::ONE_SAT;
        let answer = lab.send(&made_up);
        assert_eq!((&answer["outcome"], &answer["reject"]["code"]), (&json!("REJECTED"), &json!("COINBASE")));
        let reject = &answer["reject"];
        assert_eq!((&reject["missingInputs"], &reject["conflictsWith"]), (&json!([]), &json!([])));

        lab.must_take(&child_of(&lab.coinbase, 500));
        let young = lab.mine_to_owner();
        lab.catch_up();
        assert_eq!(lab.send(&child_of(&young, 500))["reject"]["code"], json!("IMMATURE_COINBASE"));
        lab.stop();
    }
}

#[test]
fn limits_of_the_caller_are_kept() {
    for mut lab in labs() {
        let coin = lab.coin();
        let document = |limits: &str| {
            format!(
                "mutation($hex: Hex!) {{ of: broadcastTransaction(hex: $hex, {limits}) {{ outcome reject {{ code }} }} }}"
            )
        };
        let send = |transaction, limits| lab.data(&document(limits), json!({ "hex": serialize_hex(transaction) }));
        let refused = |code: &str| json!({ "outcome": "REJECTED", "reject": { "code": code } });
        let generous = paying(coin, 20_000);
        assert_eq!(send(&generous, "maxFeeRate: 50"), refused("FEE_TOO_HIGH"));

        let script_pubkey = ScriptBuf::new_op_return([7; 8]);
        let burnt = TxOut { value: Amount::from_sat(1_000), script_pubkey };
        let burning = spending(&[(coin, of_owner(COIN))], vec![of_owner(COIN - 2_000), burnt]);
        assert_eq!(send(&burning, "maxBurn: 999"), refused("BURN_TOO_HIGH"));
        assert_eq!(send(&burning, "maxFeeRate: 0"), refused("BURN_TOO_HIGH"));

        assert_eq!(send(&generous, "maxFeeRate: 0")["outcome"], json!("ACCEPTED"));
        lab.stop();
    }
}

#[test]
fn a_transaction_as_large_as_a_block_is_refused_by_the_node() {
    for mut lab in labs() {
        let coin = lab.coin();
        let mut large = paying(coin, 500_000);
        large.input[0].witness.push(vec![0; 3_990_000]);
        let answer = lab.send(&large);
        assert_eq!((&answer["outcome"], &answer["reject"]["code"]), (&json!("REJECTED"), &json!("TOO_LARGE")));
        lab.stop();
    }
}

#[test]
fn while_the_node_is_away_nothing_is_known_and_later_all_goes_well() {
    for mut lab in labs() {
        let coin = lab.coin();
        let sent = paying(coin, 500);
        lab.node.kill();
        let expected = json!({
            "outcome": "NODE_UNREACHABLE", "txid": txid(&sent), "wtxid": sent.compute_wtxid().to_string(),
            "replaced": [], "transaction": null, "reject": null,
        });
        assert_eq!(lab.send(&sent), expected);
        if matches!(lab.node, super::lab::AnyNode::Sim(_)) {
            lab.node.start_again();
            lab.catch_up();
            lab.must_take(&sent);
        }
        lab.stop();
    }
}

#[test]
fn a_child_of_what_waits_is_taken_with_it() {
    for mut lab in labs() {
        let coin = lab.coin();
        let parent = paying(coin, 500);
        lab.must_take(&parent);
        let child = child_of(&parent, 500);
        assert_eq!(lab.must_take(&child)["transaction"]["mempoolEntry"], json!({ "ancestorCount": 2 }));
        assert_eq!(output_of(&parent), child.input[0].previous_output);
        lab.stop();
    }
}
