//! The past: what scripts held right after any block, named by height, hash or time, against the model of the chain up
//! to that block.

use bitcoin::Txid;
use btcgraph::chain::Height;
use btcgraph::sim::{Rng, SimChain};
use serde_json::{Value, json};

use super::expected::{FIGURES, Truth, UTXO, hostile_chain, known_scripts, one, set, some};
use super::walk::List;
use crate::support::api::Api;
use crate::support::cut::{IndexForm, live_and_cut};

/// A chain with everything in it: reorganised, and with coinbases that were repeated, one of them twice.
fn eventful(seed: u64) -> SimChain {
    let (mut chain, mut hostile) = hostile_chain(seed, 110);
    hostile.branch(&mut chain, 5, 6).unwrap();
    for spent in [0, 1] {
        let (_, later) = hostile.repeat_coinbase(&mut chain, spent).unwrap();
        hostile.mine(&mut chain).unwrap();
        chain.mine_duplicate_coinbase(&later, Vec::new()).unwrap();
        for _ in 0..3 {
            hostile.mine(&mut chain).unwrap();
        }
    }
    chain
}

/// Heights at random, among them those around each repeated coinbase.
fn moments(whole: &Truth, random: &mut Rng) -> Vec<u32> {
    let repeated = whole.model.copies.values().filter(|copies| copies.len() > 1).flatten();
    let repeated = repeated.flat_map(|txnum| [whole.height(*txnum) - 1, whole.height(*txnum)]);
    let random = (0..8).map(|_| u32::try_from(random.below(u64::from(whole.tip()) + 1)).unwrap());
    repeated.chain(random).chain([0, whole.tip()]).collect()
}

/// The three ways to name a block, and the height that each means.
fn names(api: &Api, chain: &SimChain, whole: &Truth, height: u32) -> [(String, u32); 3] {
    let time = api.data(&format!("{{ block(height: {height}) {{ medianTime }} }}"))["block"]["medianTime"].take();
    let median = |height: u32| chain.median_time_past(&chain.hash_at(Height::from(height)).unwrap()).unwrap();
    let newest = (0..=whole.tip()).rfind(|other| median(*other) <= median(height)).unwrap();
    [
        (format!("{{ height: {height} }}"), height),
        (format!("{{ hash: \"{}\" }}", whole.hash(height)), height),
        (format!("{{ time: {time} }}"), newest),
    ]
}

live_and_cut!(
    balances_totals_and_coins_of_the_past_are_those_of_the_chain_up_to_that_block,
    filters_of_the_past_look_from_that_block,
    an_output_had_at_each_block_the_state_that_the_chain_up_to_it_gives_it,
);

fn balances_totals_and_coins_of_the_past_are_those_of_the_chain_up_to_that_block(form: IndexForm) {
    let (chain, mut random) = (eventful(70), Rng::new(70));
    let (mut api, whole, scripts) = (Api::of_chain_in(form, &chain), Truth::whole(&chain), known_scripts(&chain));
    // the owners of the repeated coinbases, whose past is the most eventful
    let repeated = whole.model.copies.iter().find(|(_, copies)| copies.len() > 1).unwrap();
    let first = &whole.blocks[usize::try_from(whole.height(repeated.1[0])).unwrap()].txdata[0];
    let planted: Vec<_> = first.output.iter().map(|output| output.script_pubkey.clone()).collect();
    for height in moments(&whole, &mut random) {
        for (at, meant) in names(&api, &chain, &whole, height) {
            let truth = Truth::at(&chain, usize::try_from(meant).unwrap());
            let mixed = some(&scripts, 8, &mut random).into_iter().chain(planted.iter().cloned()).collect();
            let from = if random.chance(50) { &planted } else { &scripts };
            let alone = random.choose(from).unwrap().clone();
            let sole = one(&alone, &mut random);
            let several = set(&mixed, &mut random);
            for (owner, scripts) in [(sole, [alone].into()), (several, mixed)] {
                let figures = FIGURES.replace("stats {", "stats(at: $at) {").replace("balance {", "balance(at: $at) {");
                let mut expected = truth.figures(&scripts);
                expected["utxos"] = json!({
                    "totalCount": expected["stats"]["utxoCount"],
                    "totalValue": expected["balance"]["confirmed"],
                });
                let asked = format!("{figures} utxos(at: $at, first: 0) {{ totalCount totalValue }}");
                let found = api.data(&format!("{{ owner: {owner} {{ {} }} }}", asked.replace("$at", &at)));
                assert_eq!(found["owner"], expected, "{owner} at {at}");
                let utxos = List::new(&owner, "utxos", &format!("at: {at}"), UTXO).all(&mut api);
                assert_eq!(utxos, truth.utxos(&scripts), "{owner} at {at}");
            }
        }
    }
}

fn filters_of_the_past_look_from_that_block(form: IndexForm) {
    let (chain, mut random) = (eventful(71), Rng::new(71));
    let (mut api, whole, scripts) = (Api::of_chain_in(form, &chain), Truth::whole(&chain), known_scripts(&chain));
    let scripts = some(&scripts, 60, &mut random);
    let owner = set(&scripts, &mut random);
    for height in moments(&whole, &mut random).into_iter().take(12) {
        let truth = Truth::at(&chain, usize::try_from(height).unwrap());
        let coins = truth.utxos(&scripts);
        for confirmations in [0, 1, 2, 50, 100] {
            let arguments = format!(
                "at: {{ height: {height} }}, filter: {{ minConfirmations: {confirmations}, minValue: 546, includeImmature: false }}"
            );
            let found = List::new(&owner, "utxos", &arguments, UTXO).all(&mut api);
            let kept = coins.iter().filter(|coin| {
                let ripe = coin["matureAtHeight"].as_u64().is_none_or(|mature| mature <= u64::from(height) + 1);
                ripe && coin["confirmations"].as_u64() >= Some(confirmations) && coin["value"].as_u64() >= Some(546)
            });
            assert_eq!(found, kept.cloned().collect::<Vec<_>>(), "{arguments}");
        }
    }
}

fn an_output_had_at_each_block_the_state_that_the_chain_up_to_it_gives_it(form: IndexForm) {
    let (chain, mut random) = (eventful(72), Rng::new(72));
    let (api, whole) = (Api::of_chain_in(form, &chain), Truth::whole(&chain));
    let transactions: Vec<_> = whole
        .blocks
        .iter()
        .flat_map(|block| &block.txdata)
        .map(|transaction| (transaction.compute_txid(), transaction))
        .collect();
    let repeated = whole.model.copies.values().filter(|copies| copies.len() > 1).flatten().copied();
    let repeated: Vec<u32> = repeated.collect();
    for height in moments(&whole, &mut random) {
        let truth = Truth::at(&chain, usize::try_from(height).unwrap());
        let (mut document, mut expected, mut copies_expected) = (Vec::new(), serde_json::Map::new(), Vec::new());
        for number in 0..60 {
            let txnum = if number < repeated.len() {
                repeated[number]
            } else {
                u32::try_from(random.below(transactions.len() as u64)).unwrap()
            };
            let (txid, transaction) = &transactions[usize::try_from(txnum).unwrap()];
            let vout = random.index(transaction.output.len());
            let script = &transaction.output[vout].script_pubkey;
            let never = script.is_op_return() || script.len() > 10_000;
            let vout = u32::try_from(vout).unwrap();
            let by_id = status(&truth, txid, vout, None, never);
            document.push(format!(
                "o{number}: output(txid: \"{txid}\", vout: {vout}) {{ spendStatus(at: {{ height: {height} }}) }}"
            ));
            expected.insert(format!("o{number}"), json!({ "spendStatus": by_id }));
            // the copy itself, if a later one took its place
            let copies = &whole.model.copies[txid];
            let own =
                if copies.last() == Some(&txnum) { by_id } else { status(&truth, txid, vout, Some(txnum), never) };
            document.push(format!("i{number}: transactionByIndex(index: {txnum}) {{ outputs(first: 100) {{ nodes {{ spendStatus(at: {{ height: {height} }}) }} }} }}"));
            copies_expected.push((number, usize::try_from(vout).unwrap(), own));
        }
        let data = api.data(&format!("{{ {} }}", document.join("\n")));
        for (name, expected) in expected {
            assert_eq!(data[&name], expected, "{name} at {height}");
        }
        for (number, vout, expected) in copies_expected {
            let outputs = &data[&format!("i{number}")]["outputs"]["nodes"];
            assert_eq!(outputs[vout]["spendStatus"], expected, "copy {number} at {height}");
        }
    }
}

/// The state of an output, of one copy of its transaction or of the newest.
fn status(truth: &Truth, txid: &Txid, vout: u32, copy: Option<u32>, never: bool) -> Value {
    let copies = truth.model.copies.get(txid).cloned().unwrap_or_default();
    let Some(&newest) = copies.last() else { return Value::Null };
    let copy = copy.unwrap_or(newest);
    if !copies.contains(&copy) {
        return Value::Null;
    }
    if copy == 0 || never {
        return json!("UNSPENDABLE");
    }
    if truth.model.spends.contains_key(&(copy, vout)) {
        return json!("SPENT");
    }
    if copy == newest { json!("UNSPENT") } else { json!("UNSPENDABLE") }
}
