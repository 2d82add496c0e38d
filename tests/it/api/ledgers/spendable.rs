//! What each coin is worth to somebody who spends it, and what the mempool does to each script, after every step of a
//! random life.

use std::collections::BTreeSet;

use bitcoin::hashes::{Hash, sha256};
use btcgraph::chain::script::never_spendable;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};

use super::expected::{Scripts, address, one};
use super::unconfirmed::Stage;
use super::walk::List;

/// The weight of the input that spends an output, by its script.
fn input_weight(output: &Value) -> Option<i64> {
    Some(match output["scriptType"].as_str().unwrap() {
        // the script begins with how many signatures it takes
        "P2MS" => {
            let required = i64::from_str_radix(&output["scriptPubKey"].as_str().unwrap()[..2], 16).unwrap() - 0x50;
            (42 + 73 * required) * 4
        }
        "P2PK" => 456,
        "P2PKH" => 592,
        "P2WPKH" => 272,
        "P2TR" => 230,
        "P2A" => 164,
        "P2SH" | "P2WSH" | "NONSTANDARD" | "EMPTY" | "WITNESS_UNKNOWN" => return None,
        other => panic!("no life has outputs of type {other}"),
    })
}

#[test]
fn spendable_outputs_add_up_and_have_their_spending_cost() {
    const FIELDS: &str =
        "value height matureAtHeight spentInMempoolByTxid spendability { isSpendable reasons notBeforeHeight }
        output { scriptType scriptPubKey } dear: effectiveValue(feeRate: 10) cheap: effectiveValue(feeRate: 0.25)";
    let mut seen = BTreeSet::new();
    for seed in [330, 331] {
        let mut stage = Stage::new(seed);
        for _ in 0..8 {
            stage.go_on(6);
            let truth = stage.truth();
            let next_height = u64::from(stage.world.chain().height().to_u32()) + 1;
            for (owner, _) in stage.owners(&truth) {
                let balance = stage.api.data(&format!("{{ owner: {owner} {{ balance {{ spendable }} }} }}"));
                let all = "filter: { includeSpentInMempool: true }";
                let utxos = List::new(&owner, "utxos", all, FIELDS).all(&mut stage.api);
                let mut spendable = 0;
                for utxo in &utxos {
                    let mature = utxo["matureAtHeight"].as_u64().filter(|height| *height > next_height);
                    let mut reasons = Vec::new();
                    for (there, reason) in [
                        (utxo["height"].is_null(), "UNCONFIRMED"),
                        (mature.is_some(), "IMMATURE"),
                        (!utxo["spentInMempoolByTxid"].is_null(), "SPENT_IN_MEMPOOL"),
                    ] {
                        reasons.extend(there.then_some(reason));
                    }
                    let reported =
                        json!({ "isSpendable": reasons.is_empty(), "reasons": reasons, "notBeforeHeight": mature });
                    assert_eq!(utxo["spendability"], reported, "{utxo:#}");
                    let value = utxo["value"].as_i64().unwrap();
                    spendable += if reasons.is_empty() { value } else { 0 };
                    seen.extend(reasons);
                    let weight = input_weight(&utxo["output"]);
                    let left = |quarters: i64| weight.map(|weight| value - (weight * quarters + 15) / 16);
                    assert_eq!((&utxo["dear"], &utxo["cheap"]), (&json!(left(40)), &json!(left(1))), "{utxo:#}");
                }
                assert_eq!(balance["owner"]["balance"]["spendable"], json!(spendable), "{owner}");
            }
        }
    }
    assert_eq!(seen, BTreeSet::from(["IMMATURE", "SPENT_IN_MEMPOOL", "UNCONFIRMED"]), "all of them were seen");
}

#[test]
fn at_a_block_outputs_are_spendable_as_they_were_behind_it() {
    let mut stage = Stage::new(340);
    stage.go_on(60);
    let owner = one(&SimChain::miner().script_pubkey(), &mut stage.random);
    let at = stage.world.chain().height().to_u32() - 3;
    let fields = "height matureAtHeight spendability { isSpendable reasons notBeforeHeight }";
    let utxos = List::new(&owner, "utxos", &format!("at: {{ height: {at} }}"), fields).all(&mut stage.api);
    for utxo in &utxos {
        let mature = utxo["matureAtHeight"].as_u64().filter(|height| *height > u64::from(at) + 1);
        let reasons = if mature.is_some() { vec!["IMMATURE"] } else { Vec::new() };
        let reported = json!({ "isSpendable": mature.is_none(), "reasons": reasons, "notBeforeHeight": mature });
        assert_eq!(utxo["spendability"], reported);
    }
    assert!(!utxos.is_empty());
    let refused = stage
        .api
        .ask(&format!("{{ owner: {owner} {{ utxos(first: 1) {{ nodes {{ effectiveValue(feeRate: -1) }} }} }} }}"));
    assert_eq!(refused["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"));
}

#[test]
fn the_mempool_has_its_effect_on_each_script() {
    const FIELDS: &str = "script { hex scriptHash } address net received spent txCount";
    for seed in [350, 351] {
        let mut stage = Stage::new(seed);
        for _ in 0..6 {
            stage.go_on(12);
            let truth = stage.truth();
            let mut expected: Vec<Value> = truth.touched().iter().filter(|script| !never_spendable(script)).map(|script| {
                let of_script = truth.figures(&Scripts::from([script.clone()]));
                let balance = &of_script["balance"];
                json!({
                    "script": { "hex": format!("{script:x}"), "scriptHash": sha256::Hash::hash(script.as_bytes()).to_string() },
                    "address": address(script),
                    "net": balance["unconfirmedDelta"],
                    "received": balance["pendingIn"],
                    "spent": balance["spentInMempool"],
                    "txCount": of_script["stats"]["mempoolTxCount"],
                })
            }).collect();
            expected.sort_by_key(|row| row["script"]["scriptHash"].as_str().unwrap().to_owned());
            let list = List::new("mempool", "balanceChanges", "", FIELDS);
            assert_eq!(list.all(&mut stage.api), expected);
            let whole = stage.api.data("{ mempool { balanceChanges(first: 0) { totalCount } } }");
            assert_eq!(whole["mempool"]["balanceChanges"]["totalCount"], json!(expected.len()));
        }
    }
    let mut stage = Stage::new(352);
    stage.go_on(40);
    let list = List::new("mempool", "balanceChanges", "", "script { scriptHash }");
    let all = list.all(&mut stage.api);
    assert!(all.len() > 3, "{all:?}");
    for size in [1, 2, 7] {
        assert_eq!(list.forwards(&mut stage.api, size, |_| ()), all, "{size} at a time");
        assert_eq!(list.backwards(&mut stage.api, size, |_| ()), all, "{size} at a time, backwards");
    }
    // a cursor holds when the mempool is another
    let first = list.page(&stage.api, "first: 1");
    let document = list.document(&format!("first: 100, after: {}", first.end));
    stage.go_on(40);
    let behind = stage.api.data(&document)["owner"]["balanceChanges"]["nodes"].take();
    let hash = |row: &Value| row["script"]["scriptHash"].as_str().unwrap().to_owned();
    let expected = list.all(&mut stage.api).into_iter().filter(|row| hash(row) > hash(&first.rows[0]));
    assert_eq!(behind, expected.collect::<Value>());
    for argument in ["after: \"x\"", "first: -1", "first: 101"] {
        let response = stage.api.ask(&format!("{{ mempool {{ balanceChanges({argument}) {{ totalCount }} }} }}"));
        assert_eq!(response["data"], json!({ "mempool": { "balanceChanges": null } }), "{argument}");
    }
}
