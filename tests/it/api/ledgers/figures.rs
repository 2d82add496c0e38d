//! Totals, balances, coins and histories of scripts and sets of them, against the model, while a hostile chain grows,
//! reorganises and repeats coinbases.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{Block, Network};
use btcgraph::sim::{Hostile, Owner, Reward, Rng, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use super::expected::{ENTRY, FIGURES, Scripts, Truth, UTXO, follow, known_scripts, one, set, some};
use super::walk::List;
use crate::support::api::{Api, coinbase_output, sat, spend};
use crate::support::cut::{IndexForm, live_and_cut};

fn sum(rows: &[Value], field: &str) -> u64 {
    rows.iter().map(|row| row[field].as_u64().unwrap()).sum()
}

/// Everything that a ledger says of itself now.
#[track_caller]
fn assert_ledger(api: &mut Api, truth: &Truth, owner: &str, scripts: &Scripts) {
    let found = api.data(&format!("{{ owner: {owner} {{ {FIGURES} utxos(first: 0) {{ totalCount totalValue }} }} }}"));
    let mut expected = truth.figures(scripts);
    let confirmed = expected["balance"]["confirmed"].clone();
    expected["utxos"] = json!({ "totalCount": expected["stats"]["utxoCount"], "totalValue": confirmed });
    assert_eq!(found["owner"], expected, "{owner} at height {}", truth.tip());

    let utxos = List::new(owner, "utxos", "", UTXO).all(api);
    assert_eq!(utxos, truth.utxos(scripts), "{owner} at height {}", truth.tip());
    assert_eq!(json!(sum(&utxos, "value")), confirmed);
    let ripe = "filter: { includeImmature: false, minConfirmations: 1 }";
    let ripe = List::new(owner, "utxos", ripe, UTXO).all(api);
    assert_eq!(json!(sum(&ripe, "value")), expected["balance"]["spendable"], "{owner}");

    let entries = truth.entries(scripts);
    let transactions = List::new(owner, "transactions", "order: ASC", ENTRY).all(api);
    let sorted = |entries: Vec<Value>| entries.into_iter().map(sort_touched).collect::<Vec<_>>();
    assert_eq!(sorted(transactions), entries, "{owner}");
    let mut newest_first = sorted(List::new(owner, "transactions", "", ENTRY).all(api));
    if let Some(newest) = newest_first.first() {
        assert_eq!(newest["balanceAfter"], confirmed);
    }
    newest_first.reverse();
    assert_eq!(newest_first, entries, "{owner}");
}

fn sort_touched(mut entry: Value) -> Value {
    let touched: BTreeSet<String> = serde_json::from_value(entry["touched"].take()).unwrap();
    entry["touched"] = json!(touched);
    entry
}

live_and_cut!(
    scripts_and_sets_equal_the_model_after_every_step,
    outputs_of_nothing_are_receipts_and_spends_all_the_same,
    a_repeated_coinbase_has_no_immature_output,
    what_leads_from_a_history_to_a_repeated_coinbase_shows_the_copy_that_its_id_stands_for,
);

fn scripts_and_sets_equal_the_model_after_every_step(form: IndexForm) {
    let (mut chain, mut hostile, mut random) = (SimChain::new(60), Hostile::new(60), Rng::new(60));
    let (mut api, mut fed) = (Api::of(Network::Regtest, []), Vec::<Arc<Block>>::new());
    let mut check = |chain: &SimChain| {
        follow(&mut api, chain, &mut fed);
        api.take(form);
        let (truth, scripts) = (Truth::whole(chain), known_scripts(chain));
        for _ in 0..4 {
            let script = random.choose(&scripts).unwrap();
            let owner = one(script, &mut random);
            assert_ledger(&mut api, &truth, &owner, &Scripts::from([script.clone()]));
        }
        for most in [3, 12] {
            let scripts = some(&scripts, most, &mut random);
            let owner = set(&scripts, &mut random);
            assert_ledger(&mut api, &truth, &owner, &scripts);
        }
    };
    for step in 1..=130 {
        hostile.mine(&mut chain).unwrap();
        if step % 26 == 0 {
            check(&chain);
        }
    }
    for depth in [1, 7, 40] {
        hostile.branch(&mut chain, depth, depth + 1).unwrap();
        check(&chain);
    }
    for spent in [0, 2] {
        let (_, later) = hostile.repeat_coinbase(&mut chain, spent).unwrap();
        check(&chain);
        // again, while the copy in front of it is immature
        for _ in 0..20 {
            hostile.mine(&mut chain).unwrap();
        }
        chain.mine_duplicate_coinbase(&later, Vec::new()).unwrap();
        check(&chain);
    }
    hostile.branch(&mut chain, 30, 32).unwrap();
    check(&chain);
}

#[test]
fn members_say_what_each_stands_for_and_count_once() {
    let (chain, _) = super::expected::hostile_chain(61, 120);
    let api = Api::of_chain(&chain);
    let script = SimChain::miner().script_pubkey();
    let address = super::expected::address(&script).unwrap();
    let data = api.data(&format!(
        "{{ ledgerSet(of: {{ addresses: [\"{address}\", \"{}\", \"nonsense\"], scripts: [\"{script:x}\", \"51\"] }}) {{
            members {{ input error {{ code message position }} ledger {{ ... on Address {{ address }} ... on Script {{ hex }} }} }} stats {{ txCount received }} }}
            script(scriptPubKey: \"{script:x}\") {{ stats {{ txCount received }} }} }}",
        address.to_uppercase()
    ));
    let (set, alone) = (&data["ledgerSet"], &data["script"]);
    assert_eq!(set["stats"], alone["stats"], "an anyone-can-spend script that nobody paid adds nothing");
    let member = |input: &str| json!({ "input": input, "error": null, "ledger": { "address": address } });
    let members = set["members"].as_array().unwrap();
    assert_eq!(members[0], member(&address));
    assert_eq!(members[1], member(&address.to_uppercase()));
    let message = "\"nonsense\": the checksum does not match: the address is mistyped";
    let error = json!({ "code": "WRONG_CHECKSUM", "message": message, "position": null });
    assert_eq!(members[2], json!({ "input": "nonsense", "error": error, "ledger": null }));
    assert_eq!(members[3], member(&script.to_hex_string()));
    assert_eq!(members[4], json!({ "input": "51", "error": null, "ledger": { "hex": "51" } }));
    let empty = api.data(&format!("{{ ledgerSet(of: {{ addresses: [], scripts: [] }}) {{ {FIGURES} }} }}"));
    assert_eq!(empty["ledgerSet"], Truth::whole(&chain).figures(&Scripts::new()));
}

fn outputs_of_nothing_are_receipts_and_spends_all_the_same(form: IndexForm) {
    let mut chain = SimChain::new(62);
    let (miner, owner) = (SimChain::miner(), Owner::new(ScriptKind::P2wpkh, 3));
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let nothing = spend(&chain, miner, &[coinbase_output(&first, 0)], vec![owner.output(sat(0)), miner.output(sat(9))]);
    chain.mine(vec![nothing.clone()]).unwrap();
    let coin = bitcoin::OutPoint { txid: nothing.compute_txid(), vout: 0 };
    chain.mine(vec![spend(&chain, owner, &[coin], vec![owner.output(sat(0))])]).unwrap();
    let mut api = Api::of_chain_in(form, &chain);
    let (truth, scripts) = (Truth::whole(&chain), Scripts::from([owner.script_pubkey()]));
    let owner = one(&owner.script_pubkey(), &mut Rng::new(1));
    let entries = truth.entries(&scripts);
    assert_eq!([&entries[0]["sentToSelf"], &entries[1]["sentToSelf"]], [&json!(false), &json!(true)]);
    for (direction, from) in [("IN", 0), ("OUT", 1), ("BOTH", 0)] {
        let arguments = format!("order: ASC, filter: {{ direction: {direction} }}");
        let found = List::new(&owner, "transactions", &arguments, ENTRY).all(&mut api);
        assert_eq!(found, entries[from..], "{direction}");
    }
}

fn a_repeated_coinbase_has_no_immature_output(form: IndexForm) {
    let (mut chain, burnt) = (SimChain::new(63), Owner::new(ScriptKind::OpReturn, 1).script_pubkey());
    let owner = Owner::new(ScriptKind::P2pkh, 4);
    let reward = Reward::to(owner.script_pubkey()).and(sat(1_000), burnt.clone());
    let first = chain.mine_template(Template { reward: Some(reward), ..Template::default() }).unwrap();
    chain.mine_empty(3).unwrap();
    chain.mine_duplicate_coinbase(&first.block_hash(), Vec::new()).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let scripts = Scripts::from([owner.script_pubkey(), burnt]);
    let owner = set(&scripts, &mut Rng::new(2));
    assert_eq!(
        api.data(&format!("{{ owner: {owner} {{ {FIGURES} }} }}"))["owner"],
        Truth::whole(&chain).figures(&scripts)
    );
}

fn what_leads_from_a_history_to_a_repeated_coinbase_shows_the_copy_that_its_id_stands_for(form: IndexForm) {
    let owner = Owner::new(ScriptKind::P2pkh, 5);
    let mut chain = SimChain::new(64);
    let reward = Some(Reward::to(owner.script_pubkey()));
    let first = chain.mine_template(Template { reward, ..Template::default() }).unwrap();
    chain.mine_empty(3).unwrap();
    let later = chain.mine_duplicate_coinbase(&first.block_hash(), Vec::new()).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let ask = "id block { hash } outputs { nodes { id spendStatus unspendableReason } }";
    let txid = first.txdata[0].compute_txid();
    let data = api.data(&format!(
        "{{ transaction(txid: \"{txid}\") {{ {ask} }} owner: {} {{
            transactions {{ nodes {{ transaction {{ {ask} }} }} }}
            utxos(at: {{ height: 2 }}) {{ nodes {{ height output {{ id spendStatus unspendableReason }} }} }} }} }}",
        one(&owner.script_pubkey(), &mut Rng::new(3))
    ));
    let latest = &data["transaction"];
    assert_eq!(latest["block"]["hash"], json!(later.block_hash().to_string()));
    let entry = json!({ "transaction": latest });
    assert_eq!(data["owner"]["transactions"]["nodes"], json!([entry, entry]));
    let output = &latest["outputs"]["nodes"][0];
    assert_eq!(data["owner"]["utxos"]["nodes"], json!([{ "height": 1, "output": output }]));
}

#[test]
fn sets_have_one_id_only_if_their_entries_are_the_same() {
    let (chain, _) = super::expected::hostile_chain(61, 20);
    let api = Api::of_chain(&chain);
    let id = |of: &str| api.data(&format!("{{ ledgerSet(of: {of}) {{ id }} }}"))["ledgerSet"]["id"].clone();
    let first = id("{ scripts: [\"51\", \"52\"] }");
    assert_eq!(first, id("{ addresses: [], scripts: [\"51\", \"52\"] }"));
    for other in [
        "{ scripts: [\"52\", \"51\"] }",
        "{ scripts: [\"5152\"] }",
        "{ scripts: [\"51\", \"52\", \"52\"] }",
        // which are no addresses
        "{ addresses: [\"51\"], scripts: [\"52\"] }",
        "{ addresses: [\"51\", \"52\"] }",
    ] {
        assert_ne!(first, id(other), "{other}");
    }
    let with_address = format!("76a914{}88ac", "17".repeat(20));
    assert_ne!(
        id(&format!("{{ scripts: [\"{with_address}\"] }}")),
        id(&format!("{{ addresses: [\"{with_address}\"] }}"))
    );
    // two texts of one account are shown as given
    let key = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";
    let account = |text: &str| id(&format!("{{ descriptors: [{{ text: \"{text}\" }}] }}"));
    assert_ne!(account(key), account(&format!("pkh({key}/<0;1>/*)")));
    assert_eq!(api.data(&format!("{{ node(id: {first}) {{ id }} }}")), json!({ "node": null }));
}
