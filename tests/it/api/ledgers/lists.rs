//! Pages put together are the list: in both directions, for every size, and while blocks arrive between them.

use std::sync::Arc;

use btcgraph::sim::{Owner, Reward, Rng, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use super::expected::{Scripts, Truth, UTXO, hostile_chain, known_scripts, one, set};
use super::walk::List;
use crate::support::api::Api;
use crate::support::cut::{IndexForm, live_and_cut};

/// The script whose history is longest.
fn busiest(truth: &Truth) -> bitcoin::ScriptBuf {
    truth.model.history.iter().max_by_key(|(_, rows)| rows.len()).unwrap().0.clone()
}

/// Lists of a chain with all their rows in order.
fn lists(chain: &SimChain, truth: &Truth) -> Vec<(List, Vec<Value>)> {
    let script = busiest(truth);
    let (alone, several) = (Scripts::from([script.clone()]), known_scripts(chain).into_iter().step_by(4).collect());
    let owners = [(one(&script, &mut Rng::new(1)), alone), (set(&several, &mut Rng::new(2)), several)];
    let mut lists = Vec::new();
    for (owner, scripts) in owners {
        let entries = |kept: &dyn Fn(u32) -> bool, ascending: bool| {
            let mut rows: Vec<_> = truth.txnums(&scripts).into_iter().filter(|txnum| kept(*txnum)).collect();
            if !ascending {
                rows.reverse();
            }
            let txid = |txnum: u32| truth.model.transactions[usize::try_from(txnum).unwrap()].txid;
            rows.into_iter()
                .map(|txnum| json!({ "transaction": { "txid": txid(txnum).to_string() } }))
                .collect::<Vec<_>>()
        };
        let list = |field, arguments: &str, row| List::new(owner.clone(), field, arguments, row);
        let txid = "transaction { txid }";
        lists.push((list("transactions", "order: ASC", txid), entries(&|_| true, true)));
        lists.push((list("transactions", "", txid), entries(&|_| true, false)));
        let between = |txnum: u32| (105..=130).contains(&truth.height(txnum));
        let heights = "order: null, filter: { range: { heights: { from: 105, to: 130 } } }";
        lists.push((list("transactions", heights, txid), entries(&between, false)));
        let out = |txnum: u32| truth.ways(txnum, &scripts).1;
        lists.push((list("transactions", "order: ASC, filter: { direction: OUT }", txid), entries(&out, true)));
        let mined = |txnum: u32| truth.is_coinbase(txnum);
        lists.push((
            list("transactions", "filter: { coinbaseOnly: true, direction: null }", txid),
            entries(&mined, false),
        ));
        let everything = "filter: { minConfirmations: null, includeImmature: null }";
        lists.push((list("utxos", everything, UTXO), truth.utxos(&scripts)));
        let past = Truth::at(chain, 120);
        lists.push((list("utxos", "at: { height: 120 }", UTXO), past.utxos(&scripts)));
        let heights = truth.payouts(&scripts).into_iter().rev().map(|height| json!({ "height": height }));
        lists.push((list("coinbaseBlocks", "", "height"), heights.collect()));
    }
    let all = |heights: std::ops::RangeInclusive<u32>| {
        let kept = truth.model.transactions.iter().filter(move |kept| heights.contains(&kept.height));
        kept.map(|kept| json!({ "txid": kept.txid.to_string() })).collect::<Vec<_>>()
    };
    lists.push((
        List::new("", "transactions", "order: ASC, range: { heights: { from: 101, to: 115 } }", "txid"),
        all(101..=115),
    ));
    let newest = all(125..=u32::MAX).into_iter().rev().collect();
    lists.push((List::new("", "transactions", "order: null, range: { heights: { from: 125 } }", "txid"), newest));
    lists
}

live_and_cut!(
    every_list_is_the_same_in_pages_of_every_size_from_either_end,
    a_page_stays_the_same_page_and_the_walk_goes_on_while_blocks_arrive,
    parts_of_blocks_and_transactions_come_in_pages_of_every_size,
);

fn every_list_is_the_same_in_pages_of_every_size_from_either_end(form: IndexForm) {
    let (chain, _) = hostile_chain(80, 140);
    let (mut api, truth) = (Api::of_chain_in(form, &chain), Truth::whole(&chain));
    for (list, expected) in lists(&chain, &truth) {
        assert!(expected.len() > 5, "{list:?}");
        // small pages of a long list show nothing that those of a short one do not
        let sizes: Vec<usize> = match expected.len() {
            0..40 => (1..=41).chain([99, 100]).collect(),
            40..120 => vec![3, 7, 24, 25, 26, 39, 40, 41, 99, 100],
            _ => vec![11, 63, 100],
        };
        for size in sizes {
            assert_eq!(list.forwards(&mut api, size, |_| ()), expected, "{list:?}, {size} at a time");
            assert_eq!(list.backwards(&mut api, size, |_| ()), expected, "{list:?} backwards, {size} at a time");
        }
    }
}

fn a_page_stays_the_same_page_and_the_walk_goes_on_while_blocks_arrive(form: IndexForm) {
    let (chain, _) = hostile_chain(81, 130);
    let truth = Truth::whole(&chain);
    let script = busiest(&truth);
    for (list, expected) in lists(&chain, &truth) {
        let mut api = Api::of_chain_in(form, &chain);
        let (mut at_first, mut growing) = (None, chain.clone());
        let again = list.page(&api, "first: 7");
        let rows = list.forwards(&mut api, 7, |api| {
            // every other block pays a script that is asked for
            let reward = Reward::to(if growing.height().to_u32().is_multiple_of(2) {
                script.clone()
            } else {
                Owner::new(ScriptKind::P2wpkh, 950).script_pubkey()
            });
            let template = Template { reward: Some(reward), ..Template::default() };
            api.connect(&growing.mine_template(template).unwrap());
            at_first.get_or_insert_with(|| list.page(api, &format!("first: 7, after: {}", again.end)));
        });
        // lists that grow at their end reach what has come meanwhile; all others end where they ended
        let (known, fresh) = rows.split_at(expected.len().min(rows.len()));
        assert_eq!(without_confirmations(known), without_confirmations(&expected), "{list:?}");
        let grows = list.arguments == "order: ASC";
        assert!(grows || fresh.is_empty(), "{list:?}: {fresh:?}");
        if let Some(page) = at_first {
            let later = list.page(&api, &format!("first: 7, after: {}", again.end));
            assert_eq!(without_confirmations(&later.rows), without_confirmations(&page.rows), "{list:?}");
            assert_eq!(later.start, page.start, "{list:?}");
        }
    }
}

/// What does not change while blocks arrive.
fn without_confirmations(rows: &[Value]) -> Vec<Value> {
    let mut rows = rows.to_vec();
    for row in rows.iter_mut().filter_map(Value::as_object_mut) {
        row.remove("confirmations");
    }
    rows
}

fn parts_of_blocks_and_transactions_come_in_pages_of_every_size(form: IndexForm) {
    let (chain, _) = hostile_chain(82, 130);
    let mut api = Api::of_chain_in(form, &chain);
    let blocks: Vec<_> = chain.active_blocks().map(Arc::clone).collect();
    let block = blocks.iter().max_by_key(|block| block.txdata.len()).unwrap();
    let transactions = || blocks.iter().flat_map(|block| &block.txdata);
    let wide = transactions().max_by_key(|transaction| transaction.output.len()).unwrap();
    let deep = transactions().max_by_key(|transaction| transaction.input.len()).unwrap();
    let txids =
        block.txdata.iter().map(|transaction| json!({ "txid": transaction.compute_txid().to_string() })).collect();
    let outputs = (0..).zip(&wide.output);
    let outputs =
        outputs.map(|(vout, output): (u32, _)| json!({ "vout": vout, "value": output.value.to_sat() })).collect();
    let outpoints = deep.input.iter().map(|input| input.previous_output);
    let outpoints =
        outpoints.map(|spent| json!({ "outpoint": { "txid": spent.txid.to_string(), "vout": spent.vout } })).collect();
    let of = |transaction: &bitcoin::Transaction| format!("transaction(txid: \"{}\")", transaction.compute_txid());
    let lists: [(List, Vec<Value>); 3] = [
        (List::new(format!("block(hash: \"{}\")", block.block_hash()), "transactions", "", "txid"), txids),
        (List::new(of(wide), "outputs", "", "vout value"), outputs),
        (List::new(of(deep), "inputs", "", "outpoint { txid vout }"), outpoints),
    ];
    for (list, expected) in lists {
        assert!(expected.len() > 4, "{list:?}");
        for size in (1..=30).chain([99, 100]) {
            assert_eq!(list.forwards(&mut api, size, |_| ()), expected, "{list:?}, {size} at a time");
            assert_eq!(list.backwards(&mut api, size, |_| ()), expected, "{list:?} backwards, {size} at a time");
        }
    }
}
