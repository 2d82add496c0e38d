//! The effect of a transaction on an owner, and the inputs and outputs of a history that are the owner's: against the blocks
//! of the chain, for confirmed, unconfirmed, decoded and unsent transactions.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{OutPoint, ScriptBuf, Transaction, TxIn, TxOut};
use btcgraph::sim::{Owner, Rng, ScriptKind, SimChain};
use serde_json::{Value, json};

use super::expected::{Scripts, Truth, address, hostile_chain, known_scripts, set, some};
use crate::support::api::{Api, coinbase_output, sat, spend};
use crate::support::cut::{IndexForm, live_and_cut};

const EFFECT: &str = "received spent net feePaid feeAttribution ownInputCount ownOutputCount isSelfTransfer";

/// All outputs of a chain, by their outpoints.
fn outputs(truth: &Truth) -> BTreeMap<OutPoint, TxOut> {
    let transactions = truth.blocks.iter().flat_map(|block| &block.txdata);
    let outputs = transactions.flat_map(|transaction| {
        let txid = transaction.compute_txid();
        (0..).zip(&transaction.output).map(move |(vout, output)| (OutPoint { txid, vout }, output.clone()))
    });
    outputs.collect()
}

fn can_be_spent(output: &TxOut) -> bool {
    !output.script_pubkey.is_op_return() && output.script_pubkey.len() <= 10_000
}

/// The inputs and outputs of a transaction that are an owner's, with their values; `None` for an unknown input.
#[allow(clippy::type_complexity)]
fn own_parts(
    transaction: &Transaction,
    outputs: &BTreeMap<OutPoint, TxOut>,
    scripts: &Scripts,
) -> (Option<Vec<(usize, u64)>>, Vec<(usize, u64)>) {
    let own = |output: &TxOut| can_be_spent(output) && scripts.contains(&output.script_pubkey);
    let value = |(index, output): (usize, &TxOut)| own(output).then(|| (index, output.value.to_sat()));
    let paid = transaction.output.iter().enumerate().filter_map(value).collect();
    if transaction.is_coinbase() {
        return (Some(Vec::new()), paid);
    }
    let prevouts: Option<Vec<&TxOut>> =
        transaction.input.iter().map(|input| outputs.get(&input.previous_output)).collect();
    (prevouts.map(|prevouts| prevouts.into_iter().enumerate().filter_map(value).collect()), paid)
}

/// What a transaction does to an owner.
fn effect(transaction: &Transaction, outputs: &BTreeMap<OutPoint, TxOut>, scripts: &Scripts) -> Value {
    let (spent, paid) = own_parts(transaction, outputs, scripts);
    let received: u64 = paid.iter().map(|(_, value)| value).sum();
    let Some(spent) = spent else {
        return json!({
            "received": received, "spent": null, "net": null, "feePaid": null, "feeAttribution": "UNKNOWN",
            "ownInputCount": null, "ownOutputCount": paid.len(), "isSelfTransfer": null,
        });
    };
    let own: u64 = spent.iter().map(|(_, value)| value).sum();
    let paid_in_all: u64 = transaction.output.iter().map(|output| output.value.to_sat()).sum();
    let all = transaction.input.iter().filter_map(|input| outputs.get(&input.previous_output));
    let all: u64 = all.map(|output| output.value.to_sat()).sum();
    let is_whole = spent.len() == transaction.input.len();
    let (attribution, fee) = match spent.len() {
        0 => ("NO_INPUTS", 0),
        _ if is_whole => ("ALL_INPUTS", all - paid_in_all),
        _ => {
            let fee = u128::from(all - paid_in_all) * u128::from(own) / u128::from(all.max(1));
            ("PROPORTIONAL", u64::try_from(fee).unwrap())
        }
    };
    let spendable = transaction.output.iter().filter(|output| can_be_spent(output)).count();
    json!({
        "received": received,
        "spent": own,
        "net": i64::try_from(received).unwrap() - i64::try_from(own).unwrap(),
        "feePaid": fee,
        "feeAttribution": attribution,
        "ownInputCount": spent.len(),
        "ownOutputCount": paid.len(),
        "isSelfTransfer": !spent.is_empty() && is_whole && spendable > 0 && paid.len() == spendable,
    })
}

/// The argument that names these scripts.
fn of(scripts: &Scripts, random: &mut Rng) -> String {
    let (mut addresses, mut hexes) = (Vec::new(), Vec::new());
    for script in scripts {
        match address(script) {
            Some(address) if random.chance(70) => addresses.push(address),
            _ => hexes.push(script.to_hex_string()),
        }
    }
    format!("{{ addresses: {}, scripts: {} }}", json!(addresses), json!(hexes))
}

/// Scripts of which some are paid or spent by a transaction.
fn owner_of(
    transaction: &Transaction,
    outputs: &BTreeMap<OutPoint, TxOut>,
    known: &[ScriptBuf],
    random: &mut Rng,
) -> Scripts {
    let spent = transaction.input.iter().filter_map(|input| outputs.get(&input.previous_output));
    let parts: Vec<ScriptBuf> = spent.chain(&transaction.output).map(|output| output.script_pubkey.clone()).collect();
    let mut scripts = some(known, 3, random);
    let share = *random.choose(&[30, 60, 100]).unwrap();
    scripts.extend(parts.into_iter().filter(|_| random.chance(share)));
    scripts
}

live_and_cut!(
    an_owner_gains_and_pays_what_the_blocks_say,
    an_entry_has_the_inputs_and_outputs_of_the_ledger,
    an_unsent_transaction_has_the_effect_that_it_will_have,
);

fn an_owner_gains_and_pays_what_the_blocks_say(form: IndexForm) {
    let (mut chain, mut hostile) = hostile_chain(85, 140);
    hostile.repeat_coinbase(&mut chain, 0).unwrap();
    hostile.branch(&mut chain, 4, 6).unwrap();
    let (api, truth, mut random) = (Api::of_chain_in(form, &chain), Truth::whole(&chain), Rng::new(85));
    let (outputs, known) = (outputs(&truth), known_scripts(&chain));
    let transactions: Vec<&Transaction> = truth.blocks[1..].iter().flat_map(|block| &block.txdata).collect();
    let mut attributions = BTreeSet::new();
    for _ in 0..250 {
        let transaction = **random.choose(&transactions).as_ref().unwrap();
        let scripts = owner_of(transaction, &outputs, &known, &mut random);
        let (of, txid) = (of(&scripts, &mut random), transaction.compute_txid());
        let found = api.data(&format!(
            "{{ transaction(txid: \"{txid}\") {{ netEffect(of: {of}) {{ {EFFECT} }} fee }}
                decodeTransaction(hex: \"{}\") {{ transaction {{ netEffect(of: {of}) {{ {EFFECT} }} }} }} }}",
            serialize_hex(transaction)
        ));
        let expected = effect(transaction, &outputs, &scripts);
        assert_eq!(found["transaction"]["netEffect"], expected, "{txid}");
        assert_eq!(found["decodeTransaction"]["transaction"]["netEffect"], expected, "{txid}");
        if expected["feeAttribution"] == json!("ALL_INPUTS") {
            assert_eq!(found["transaction"]["fee"], expected["feePaid"]);
        }
        attributions.insert(expected["feeAttribution"].to_string());
    }
    assert_eq!(attributions.len(), 3, "{attributions:?}");
    // nobody owns what the genesis block pays
    let genesis = &truth.blocks[0].txdata[0];
    let of = of(&Scripts::from([genesis.output[0].script_pubkey.clone()]), &mut random);
    let found =
        api.data(&format!("{{ transactionByIndex(index: 0) {{ netEffect(of: {of}) {{ received net feePaid }} }} }}"));
    let nothing = json!({ "received": 0, "net": 0, "feePaid": 0 });
    assert_eq!(found["transactionByIndex"]["netEffect"], nothing);
}

fn an_entry_has_the_inputs_and_outputs_of_the_ledger(form: IndexForm) {
    let (mut chain, mut hostile) = hostile_chain(86, 140);
    hostile.repeat_coinbase(&mut chain, 0).unwrap();
    let (api, truth, mut random) = (Api::of_chain_in(form, &chain), Truth::whole(&chain), Rng::new(86));
    let (outputs, known) = (outputs(&truth), known_scripts(&chain));
    let transactions: BTreeMap<_, _> = truth
        .blocks
        .iter()
        .flat_map(|block| &block.txdata)
        .map(|transaction| (transaction.compute_txid().to_string(), transaction))
        .collect();
    let (mut spending, mut paying) = (0, 0);
    for _ in 0..25 {
        let scripts = some(&known, 30, &mut random);
        let owner = set(&scripts, &mut random);
        let found = api.data(&format!(
            "{{ owner: {owner} {{ transactions(first: 40) {{ nodes {{ received spent transaction {{ txid }}
                inputs {{ totalCount nodes {{ index prevout {{ value }} }} }}
                outputs {{ totalCount nodes {{ vout value }} }} }} }} }} }}"
        ));
        for entry in found["owner"]["transactions"]["nodes"].as_array().unwrap() {
            let transaction = transactions[entry["transaction"]["txid"].as_str().unwrap()];
            let (spent, paid) = own_parts(transaction, &outputs, &scripts);
            let spent = spent.unwrap();
            let nodes = spent.iter().map(|(index, value)| json!({ "index": index, "prevout": { "value": value } }));
            let inputs = json!({ "totalCount": spent.len(), "nodes": nodes.collect::<Vec<_>>() });
            assert_eq!(entry["inputs"], inputs, "{entry}");
            let nodes = paid.iter().map(|(vout, value)| json!({ "vout": vout, "value": value }));
            let outputs = json!({ "totalCount": paid.len(), "nodes": nodes.collect::<Vec<_>>() });
            assert_eq!(entry["outputs"], outputs, "{entry}");
            assert_eq!(entry["spent"], json!(spent.iter().map(|(_, value)| value).sum::<u64>()));
            // a copy of a coinbase (BIP30) receives what it does not overwrite
            if !transaction.is_coinbase() {
                assert_eq!(entry["received"], json!(paid.iter().map(|(_, value)| value).sum::<u64>()));
            }
            spending += usize::from(spent.len() > 1);
            paying += usize::from(paid.len() > 1);
        }
    }
    assert!(spending > 3 && paying > 3, "{spending} {paying}");
}

fn an_unsent_transaction_has_the_effect_that_it_will_have(form: IndexForm) {
    let mut chain = SimChain::new(87);
    let (miner, one, other) = (SimChain::miner(), Owner::new(ScriptKind::P2wpkh, 3), Owner::new(ScriptKind::P2wpkh, 4));
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let paid = vec![one.output(sat(600)), other.output(sat(300)), one.output(sat(7)), miner.output(sat(9))];
    let funding = spend(&chain, miner, &[coinbase_output(&first, 0)], paid);
    chain.mine(vec![funding.clone()]).unwrap();
    let mut api = Api::of_chain_in(form, &chain);
    let mut outputs = outputs(&Truth::whole(&chain));
    let coin = |vout| OutPoint { txid: funding.compute_txid(), vout };
    // a transaction of the mempool, and one that spends it and was never sent
    let waiting = spend(&chain, one, &[coin(0), coin(2)], vec![one.output(sat(500)), other.output(sat(50))]);
    let change = OutPoint { txid: waiting.compute_txid(), vout: 0 };
    outputs.extend((0..).zip(waiting.output.clone()).map(|(vout, output)| (OutPoint { vout, ..change }, output)));
    let input = [change, coin(1)].map(|previous_output| TxIn { previous_output, ..TxIn::default() });
    let mut unsent = Transaction { input: input.to_vec(), output: vec![other.output(sat(703))], ..waiting.clone() };
    api.arrive([&waiting]);
    let hex = |transaction: &Transaction| serialize_hex(transaction);
    let (owner, all): (Scripts, Scripts) =
        ([one.script_pubkey()].into(), [one.script_pubkey(), other.script_pubkey()].into());
    let mut random = Rng::new(87);
    let mut decoded = |transaction: &Transaction, scripts: &Scripts| {
        let of = of(scripts, &mut random);
        let document = format!(
            "{{ decodeTransaction(hex: \"{}\") {{ transaction {{ netEffect(of: {of}) {{ {EFFECT} }} }} }} }}",
            hex(transaction)
        );
        api.data(&document)["decodeTransaction"]["transaction"]["netEffect"].take()
    };
    for scripts in [&owner, &all] {
        for transaction in [&waiting, &unsent] {
            assert_eq!(decoded(transaction, scripts), effect(transaction, &outputs, scripts));
        }
    }
    // 97 of 800 are the fee: 97 × 500 / 800 is 60.6
    let shared = decoded(&unsent, &owner);
    assert_eq!((&shared["feePaid"], &shared["feeAttribution"]), (&json!(60), &json!("PROPORTIONAL")), "{shared}");
    assert_eq!(decoded(&unsent, &all)["isSelfTransfer"], json!(true));
    // an output that nobody knows, and outputs that exceed the inputs
    let unknown = OutPoint { vout: 99, ..change };
    unsent.input.push(TxIn { previous_output: unknown, ..TxIn::default() });
    assert_eq!(decoded(&unsent, &owner), effect(&unsent, &outputs, &owner));
    unsent.input.pop();
    unsent.output[0].value = sat(801);
    let invalid = decoded(&unsent, &owner);
    assert_eq!((&invalid["spent"], &invalid["feePaid"]), (&json!(500), &Value::Null), "{invalid}");

    // the entry of the mempool
    let found = api.data(&format!(
        "{{ script(scriptPubKey: \"{:x}\") {{ transactions(first: 1) {{ nodes {{ transaction {{ txid }}
            inputs {{ totalCount nodes {{ index }} }} one: inputs(first: 1) {{ nodes {{ index }} pageInfo {{ hasNextPage endCursor }} }}
            last: inputs(last: 1) {{ nodes {{ index }} pageInfo {{ hasPreviousPage }} }}
            outputs {{ totalCount nodes {{ vout }} }} }} }} }} }}",
        one.script_pubkey()
    ));
    let entry = &found["script"]["transactions"]["nodes"][0];
    assert_eq!(entry["transaction"]["txid"], json!(waiting.compute_txid()));
    assert_eq!(entry["inputs"], json!({ "totalCount": 2, "nodes": [{ "index": 0 }, { "index": 1 }] }));
    assert_eq!(entry["outputs"], json!({ "totalCount": 1, "nodes": [{ "vout": 0 }] }));
    assert_eq!(entry["one"]["nodes"], json!([{ "index": 0 }]));
    assert_eq!(entry["one"]["pageInfo"]["hasNextPage"], json!(true));
    assert_eq!(entry["last"], json!({ "nodes": [{ "index": 1 }], "pageInfo": { "hasPreviousPage": true } }));
    let after = &entry["one"]["pageInfo"]["endCursor"];
    let rest = api.data(&format!(
        "{{ script(scriptPubKey: \"{:x}\") {{ transactions(first: 1) {{ nodes {{
            inputs(after: {after}) {{ nodes {{ index }} pageInfo {{ hasNextPage hasPreviousPage }} }} }} }} }} }}",
        one.script_pubkey()
    ));
    let page = json!({ "nodes": [{ "index": 1 }], "pageInfo": { "hasNextPage": false, "hasPreviousPage": true } });
    assert_eq!(rest["script"]["transactions"]["nodes"][0]["inputs"], page);
}

#[test]
fn an_owner_that_is_none_is_refused() {
    let mut chain = SimChain::new(88);
    chain.mine_empty(3).unwrap();
    let api = Api::of_chain(&chain);
    let refused = |of: &str| {
        let response =
            api.ask(&format!("{{ transactionByIndex(index: 1) {{ txid netEffect(of: {of}) {{ received }} }} }}"));
        let data = &response["data"]["transactionByIndex"];
        assert!(data["txid"].is_string() && data["netEffect"].is_null(), "{response}");
        let error = &response["errors"][0];
        assert_eq!(error["extensions"]["code"], json!("BAD_USER_INPUT"), "{response}");
        error["message"].as_str().unwrap().to_owned()
    };
    assert!(refused("{}").contains("neither addresses nor scripts nor descriptors"));
    assert!(refused("{ addresses: [\"nonsense\"] }").contains("\"nonsense\""));
    refused("{ descriptors: [{ text: \"wpkh(nothing)\" }] }");
    refused("{ scripts: [], descriptors: [{ text: \"raw(51)\", gapLimit: 0 }] }");
    let found = api
        .data("{ transactionByIndex(index: 1) { none: netEffect(of: { scripts: [] }) { received isSelfTransfer } } }");
    assert_eq!(found["transactionByIndex"]["none"], json!({ "received": 0, "isSelfTransfer": false }));
}

#[test]
fn a_descriptor_owns_its_unused_scripts_up_to_the_gap_limit() {
    const DESCRIPTOR: &str = "wpkh(tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B/<0;1>/*)";
    let mut chain = SimChain::new(89);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let api = Api::of_chain(&chain);
    let derived = api.data(&format!(
        "{{ validateDescriptor(text: \"{DESCRIPTOR}\") {{ error {{ message }} derivedAddresses(first: 30) {{ scriptPubKey }}
            change: derivedAddresses(branch: 1, first: 3) {{ scriptPubKey }} }} }}"
    ));
    let derived = &derived["validateDescriptor"];
    let script = |list: &str, index: usize| {
        let hex = derived[list][index]["scriptPubKey"].as_str().unwrap_or_else(|| panic!("{derived}"));
        ScriptBuf::from_hex(hex).unwrap()
    };
    let pays = |value, script_pubkey| TxOut { value: sat(value), script_pubkey };
    let outputs = vec![
        pays(1, script("derivedAddresses", 0)),
        pays(10, script("derivedAddresses", 19)),
        pays(100, script("derivedAddresses", 20)),
        pays(1_000, script("change", 2)),
    ];
    let unsent = spend(&chain, SimChain::miner(), &[coinbase_output(&first, 0)], outputs);
    for (gap, received) in [(20, 1_011), (21, 1_111), (2, 1)] {
        let of = format!("{{ descriptors: [{{ text: \"{DESCRIPTOR}\", gapLimit: {gap} }}] }}");
        let found = api.data(&format!(
            "{{ decodeTransaction(hex: \"{}\") {{ transaction {{ netEffect(of: {of}) {{ received feePaid }} }} }} }}",
            serialize_hex(&unsent)
        ));
        let effect = &found["decodeTransaction"]["transaction"]["netEffect"];
        assert_eq!(*effect, json!({ "received": received, "feePaid": 0 }), "{gap}");
    }
}
