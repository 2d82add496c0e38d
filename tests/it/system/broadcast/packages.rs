//! What becomes of transactions that are sent together.

use bitcoin::Transaction;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::transaction::Version;
use serde_json::{Value, json};

use super::lab::{
    COIN, Lab, REJECT, RESULT, child_of, labs, least_fee, of_owner, output_of, paying, spending_as, txid,
};

fn hexes<'t>(transactions: impl IntoIterator<Item = &'t Transaction>) -> Value {
    transactions.into_iter().map(serialize_hex).collect()
}

#[track_caller]
fn send(lab: &Lab, hexes: &Value) -> Value {
    let document = format!(
        "mutation($hexes: [Hex!]!) {{ of: broadcastPackage(hexes: $hexes)
            {{ accepted message replaced packageFeeRate results {{ {RESULT} {REJECT} }} }} }}"
    );
    lab.data(&document, json!({ "hexes": hexes }))
}

fn each(answer: &Value, of: &str) -> Vec<Value> {
    answer["results"].as_array().unwrap().iter().map(|result| result.pointer(of).cloned().unwrap_or_default()).collect()
}

/// A parent that pays nothing, and a child that pays for both.
fn poor_and_rich(lab: &mut Lab, fee: u64) -> [Transaction; 2] {
    let coin = lab.coin();
    let version = Version(3);
    let parent = spending_as(version, &[(coin, of_owner(COIN))], vec![of_owner(COIN)]);
    let child = spending_as(version, &[(output_of(&parent), of_owner(COIN))], vec![of_owner(COIN - fee)]);
    [parent, child]
}

#[test]
fn a_child_pays_for_a_parent_that_would_not_be_taken_by_itself() {
    for mut lab in labs() {
        let [parent, child] = poor_and_rich(&mut lab, 2_000);
        assert_eq!(lab.send(&parent)["reject"]["code"], json!("FEE_TOO_LOW"));
        let answer = send(&lab, &hexes([&parent, &child]));
        assert_eq!((&answer["accepted"], &answer["message"]), (&json!(true), &json!("success")), "{answer:#}");
        assert_eq!(each(&answer, "/outcome"), ["ACCEPTED", "ACCEPTED"]);
        assert_eq!(each(&answer, "/txid"), [txid(&parent), txid(&child)]);
        assert_eq!(each(&answer, "/transaction/mempoolEntry/ancestorCount"), [1, 2]);
        let rate = 2_000.0 / f64::from(u32::try_from(least_fee(&parent) + least_fee(&child)).unwrap());
        assert!((answer["packageFeeRate"].as_f64().unwrap() - rate).abs() < 1e-9, "{answer:#}");

        let again = send(&lab, &hexes([&parent, &child]));
        assert_eq!(again["accepted"], json!(true), "{again:#}");
        assert_eq!(each(&again, "/outcome"), ["ALREADY_IN_MEMPOOL", "ALREADY_IN_MEMPOOL"]);
        lab.mine(1);
        let again = send(&lab, &hexes([&parent, &child]));
        assert_eq!(again["accepted"], json!(true), "{again:#}");
        assert_eq!(each(&again, "/outcome"), ["ALREADY_CONFIRMED", "ALREADY_CONFIRMED"]);
        lab.stop();
    }
}

#[test]
fn package_replacements_are_reported_on_both_sides() {
    for mut lab in labs() {
        let coin = lab.coin();
        let (first, parent) = (paying(coin, 500), paying(coin, 5_000));
        lab.must_take(&first);
        let answer = send(&lab, &hexes([&parent, &child_of(&parent, 500)]));
        assert_eq!(each(&answer, "/outcome"), ["ACCEPTED", "ACCEPTED"], "{answer:#}");
        assert_eq!(answer["replaced"], json!([txid(&first)]));
        assert_eq!(each(&answer, "/replaced"), [json!([txid(&first)]), json!([])]);
        lab.stop();
    }
}

#[test]
fn a_package_that_pays_too_little_is_refused_one_by_one() {
    for mut lab in labs() {
        let [parent, child] = poor_and_rich(&mut lab, 20);
        let answer = send(&lab, &hexes([&parent, &child]));
        assert_eq!((&answer["accepted"], &answer["packageFeeRate"]), (&json!(false), &Value::Null), "{answer:#}");
        assert_eq!(each(&answer, "/outcome"), ["REJECTED", "REJECTED"]);
        // what comes with it is not missing
        assert_eq!(each(&answer, "/reject/missingInputs"), [json!([]), json!([])], "{answer:#}");
        lab.stop();
    }
}

#[test]
fn transactions_that_are_no_package_are_refused_together() {
    for mut lab in labs() {
        let [parent, child] = poor_and_rich(&mut lab, 2_000);
        let coin = lab.coin();
        let other = paying(coin, 500);
        for wrong in [[&child, &parent], [&other, &child]] {
            let answer = send(&lab, &hexes(wrong));
            assert_eq!(answer["accepted"], json!(false), "{answer:#}");
            assert_eq!(each(&answer, "/reject/code"), ["PACKAGE_INVALID", "PACKAGE_INVALID"], "{answer:#}");
        }
        lab.stop();
    }
}

#[test]
fn with_bytes_that_are_no_transaction_nothing_is_sent() {
    for mut lab in labs() {
        let [parent, child] = poor_and_rich(&mut lab, 2_000);
        let broken = &serialize_hex(&child)[2..];
        let answer = send(&lab, &json!([serialize_hex(&parent), broken]));
        assert_eq!((&answer["accepted"], &answer["message"]), (&json!(false), &json!("TX decode failed")));
        assert_eq!(each(&answer, "/outcome"), ["REJECTED", "REJECTED"]);
        assert_eq!(each(&answer, "/reject/code"), ["NOT_TRIED", "DECODE_FAILED"]);
        assert_eq!(each(&answer, "/txid"), [txid(&parent), Value::Null]);
        lab.stop();
    }
}

#[test]
fn of_a_node_that_is_away_nothing_is_known() {
    let mut lab = Lab::simulated();
    let [parent, child] = poor_and_rich(&mut lab, 2_000);
    lab.node.kill();
    let answer = send(&lab, &hexes([&parent, &child]));
    assert_eq!(answer["accepted"], json!(false));
    assert_eq!(each(&answer, "/outcome"), ["NODE_UNREACHABLE", "NODE_UNREACHABLE"]);
    assert_eq!(answer["message"], json!("the Bitcoin node cannot be reached"));
    lab.stop();
}
