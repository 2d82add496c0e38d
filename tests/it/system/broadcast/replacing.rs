//! Transactions that spend what others of the mempool spend.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::lab::{child_of, labs, paying, txid};

#[test]
fn a_replacement_that_pays_too_little_learns_what_is_enough() {
    for mut lab in labs() {
        let coin = lab.coin();
        let (first, rival) = (paying(coin, 500), paying(coin, 501));
        let child = child_of(&first, 400);
        lab.must_take(&first);
        lab.must_take(&child);
        let answer = lab.send(&rival);
        let reject = &answer["reject"];
        assert_eq!((&answer["outcome"], &reject["code"]), (&json!("REJECTED"), &json!("REPLACEMENT_FEE_TOO_LOW")));
        assert_eq!(reject["conflictsWith"], json!([txid(&first)]));
        assert_eq!((&reject["missingInputs"], &answer["replaced"]), (&json!([]), &json!([])));
        // what both pay together, and a satoshi for each vbyte of its own (BIP125, rules 3 and 4)
        let required = 500 + 400 + rival.weight().to_vbytes_ceil();
        assert_eq!(reject["requiredFee"], json!(required), "{answer:#}");

        assert_eq!(lab.send(&paying(coin, required - 1))["reject"]["code"], json!("REPLACEMENT_FEE_TOO_LOW"));
        let replacement = paying(coin, required);
        let answer = lab.must_take(&replacement);
        let replaced: BTreeSet<_> = [&first, &child].map(bitcoin::Transaction::compute_txid).into();
        assert_eq!(answer["replaced"], replaced.iter().map(ToString::to_string).collect::<Value>());
        assert_eq!(lab.send(&replacement)["replaced"], json!([]), "the second time nothing left for it");
        lab.stop();
    }
}

#[test]
fn what_was_replaced_and_mined_all_the_same_was_not_replaced() {
    for mut lab in labs() {
        let coin = lab.coin();
        let (first, replacement) = (paying(coin, 500), paying(coin, 5_000));
        lab.must_take(&first);
        lab.must_take(&replacement);
        lab.catch_up();
        lab.mine_only(&first);
        let of = |of: &bitcoin::Transaction, fields: &str| {
            lab.data(&format!("{{ of: transaction(txid: {}) {{ {fields} }} }}", txid(of)), json!({}))
        };
        let fields = "state replacedBy { txid } rbfTree { txid } replaces { txid }";
        let expected = json!({ "state": "CONFIRMED", "replacedBy": null, "rbfTree": null, "replaces": [] });
        assert_eq!(of(&first, fields), expected);
        let expected = json!({ "state": "CONFLICTED", "replacedBy": null, "rbfTree": null, "replaces": [] });
        assert_eq!(of(&replacement, fields), expected);
        assert_eq!(lab.send(&replacement)["reject"]["conflictsWith"], json!([txid(&first)]));
        lab.stop();
    }
}
