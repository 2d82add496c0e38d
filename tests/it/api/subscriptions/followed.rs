//! The events of single transactions and outputs, and of those that arrive and match a filter.

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Executor, Request, Response};
use bitcoin::{Amount, OutPoint, ScriptBuf, Transaction, TxOut};
use btcgraph::mempool::{Departure, MempoolLimits};
use btcgraph::sim::{Owner, ScriptKind};
use serde_json::{Value, json};

use crate::api::mempool::projected::{chain_with_coins, large, output_of, paying, paying_of};
use crate::support::api::{Api, branch, response_json, sat, spend_outputs};
use crate::support::clock::paused_runtime;

/// A subscription, read as far as it has something to tell.
struct StatusReader {
    runtime: tokio::runtime::Runtime,
    stream: BoxStream<'static, Response>,
    ended: bool,
}

impl StatusReader {
    fn begin(api: &Api, document: &str) -> Self {
        Self {
            runtime: paused_runtime(),
            stream: api.schema.execute_stream(Request::new(document), None),
            ended: false,
        }
    }

    fn more(&mut self) -> Vec<Value> {
        let (mut reported, wait) = (Vec::new(), std::time::Duration::from_millis(50));
        while let Ok(next) = self.runtime.block_on(async { tokio::time::timeout(wait, self.stream.next()).await }) {
            let Some(response) = next else {
                self.ended = true;
                break;
            };
            let response = response_json(response);
            let data = response["data"].as_object().and_then(|data| data.values().next()).cloned();
            reported.push(if response.get("errors").is_some() { response } else { data.unwrap() });
        }
        reported
    }
}

fn id(of: &Transaction) -> Value {
    json!(of.compute_txid().to_string())
}

fn status_of(transactions: &[&Transaction], until: u32) -> String {
    let txids: Vec<_> = transactions.iter().map(|transaction| id(transaction)).collect();
    format!(
        "subscription {{ transactionStatus(txids: {}, untilConfirmations: {until}) {{
            txid state confirmations replacedByTxid projectedBlockIndex transaction {{ txid }}
        }} }}",
        json!(txids)
    )
}

/// A status as it is sent for a transaction that is known.
fn status(
    of: &Transaction,
    state: &str,
    confirmations: u32,
    by: Option<&Transaction>,
    projected: Option<u32>,
) -> Value {
    json!({
        "txid": id(of), "state": state, "confirmations": confirmations, "replacedByTxid": by.map(id),
        "projectedBlockIndex": projected, "transaction": { "txid": id(of) },
    })
}

#[test]
fn a_transaction_is_followed_from_nowhere_to_its_last_confirmation_and_back_by_reorganisations() {
    let (mut chain, coins) = chain_with_coins(1);
    let fork = chain.tip();
    let mut api = Api::of_chain(&chain);
    let payment = paying(coins[0], 500);
    let mut reported = StatusReader::begin(&api, &status_of(&[&payment], 2));
    let unknown = json!({
        "txid": id(&payment), "state": null, "confirmations": 0, "replacedByTxid": null, "projectedBlockIndex": null,
        "transaction": null,
    });
    assert_eq!(reported.more(), [unknown]);
    api.arrive([&payment]);
    assert_eq!(reported.more(), [status(&payment, "MEMPOOL", 0, None, Some(0))]);
    api.connect(&chain.mine(vec![payment.clone()]).unwrap());
    assert_eq!(reported.more(), [status(&payment, "CONFIRMED", 1, None, None)]);
    // another branch without it
    let new = branch(&mut chain, fork, 2, &[]);
    api.change(1, new.iter().map(AsRef::as_ref));
    assert_eq!(reported.more(), [status(&payment, "REORGED_OUT", 0, None, None)]);
    api.connect(&chain.mine(vec![payment.clone()]).unwrap());
    assert_eq!(reported.more(), [status(&payment, "CONFIRMED", 1, None, None)]);
    assert!(!reported.ended);
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(reported.more(), [status(&payment, "CONFIRMED", 2, None, None)]);
    assert!(reported.ended, "it has as many confirmations as asked for");
}

#[test]
fn a_replaced_transaction_is_followed_until_what_took_its_place_is_confirmed_as_often() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let (first, second) = (paying(coins[0], 500), paying(coins[0], 900));
    api.arrive([&first]);
    let mut reported = StatusReader::begin(&api, &status_of(&[&first, &first], 2));
    assert_eq!(reported.more(), [status(&first, "MEMPOOL", 0, None, Some(0))], "each is reported once");
    api.arrive([&second]);
    assert_eq!(reported.more(), [status(&first, "REPLACED", 0, Some(&second), None)]);
    api.arrive([&paying(coins[1], 500)]);
    assert_eq!(reported.more(), Vec::<Value>::new(), "others do not concern it");
    api.connect(&chain.mine(vec![second]).unwrap());
    assert_eq!(reported.more(), Vec::<Value>::new());
    assert!(!reported.ended, "a reorganisation could still bring it back");
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(reported.more(), Vec::<Value>::new());
    assert!(reported.ended);
}

#[test]
fn an_evicted_transaction_may_come_back() {
    let (chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let payment = paying(coins[0], 500);
    api.arrive([&payment]);
    let mut reported = StatusReader::begin(&api, &status_of(&[&payment], 1));
    reported.more();
    api.depart(&payment.compute_txid(), Departure::Evicted);
    assert_eq!(reported.more(), [status(&payment, "EVICTED", 0, None, None)]);
    api.arrive([&payment]);
    assert_eq!(reported.more(), [status(&payment, "MEMPOOL", 0, None, Some(0))]);
    assert!(!reported.ended);
}

#[test]
fn why_a_transaction_left_may_become_known_later() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let (replaced, conflicted) = (paying(coins[0], 500), paying(coins[1], 500));
    api.arrive([&replaced, &conflicted]);
    for left in [&replaced, &conflicted] {
        api.depart(&left.compute_txid(), Departure::Unknown);
    }
    let mut reported = StatusReader::begin(&api, &status_of(&[&replaced, &conflicted], 1));
    let evicted = [&replaced, &conflicted].map(|left| status(left, "EVICTED", 0, None, None));
    assert_eq!(reported.more(), evicted);
    let later = paying(coins[0], 900);
    api.arrive([&later]);
    assert_eq!(reported.more(), [status(&replaced, "REPLACED", 0, Some(&later), None)]);
    let mined = paying(coins[1], 900);
    api.connect(&chain.mine(vec![later, mined.clone()]).unwrap());
    assert_eq!(reported.more(), [status(&conflicted, "CONFLICTED", 0, Some(&mined), None)]);
    assert!(reported.ended, "what took their places is confirmed");
}

fn spends_of(outpoints: &[OutPoint], more: &str) -> String {
    let given = outpoints.iter().map(|outpoint| format!("{{ txid: \"{}\", vout: {} }}", outpoint.txid, outpoint.vout));
    let given = given.collect::<Vec<_>>().join(", ");
    format!(
        "subscription {{ outputSpent(outpoints: [{given}] {more}) {{
            outpoint {{ txid vout }} output {{ outpoint {{ text }} }} spentBy {{ index transaction {{ txid }} }} isConfirmed
        }} }}"
    )
}

fn spent(outpoint: OutPoint, by: &Transaction, confirmed: bool) -> Value {
    json!({
        "outpoint": { "txid": outpoint.txid.to_string(), "vout": outpoint.vout },
        "output": { "outpoint": { "text": outpoint.to_string() } },
        "spentBy": { "index": 0, "transaction": { "txid": id(by) } },
        "isConfirmed": confirmed,
    })
}

/// An output that was spent and is not any more; whether its transaction is known.
fn unspent(outpoint: OutPoint, is_known: bool) -> Value {
    let output = if is_known { json!({ "outpoint": { "text": outpoint.to_string() } }) } else { Value::Null };
    json!({
        "outpoint": { "txid": outpoint.txid.to_string(), "vout": outpoint.vout }, "output": output, "spentBy": null,
        "isConfirmed": false,
    })
}

#[test]
fn an_output_that_is_unspent_again_is_reported() {
    let (mut chain, coins) = chain_with_coins(2);
    let fork = chain.tip();
    let mut api = Api::of_chain(&chain);
    api.remember(MempoolLimits { departed: 0, ..MempoolLimits::default() });
    let (waits, mined) = (paying(coins[0], 500), paying(coins[1], 500));
    let on_top = paying_of(output_of(&waits), 99_500, 100);
    let followed = [coins[0], coins[1], output_of(&waits)];
    let mut reported = StatusReader::begin(&api, &spends_of(&followed, ""));
    let mut in_blocks = StatusReader::begin(&api, &spends_of(&followed, ", includeMempool: false"));
    assert_eq!(reported.more(), Vec::<Value>::new(), "what was never spent is not reported");
    assert_eq!(in_blocks.more(), Vec::<Value>::new());
    api.arrive([&waits, &on_top]);
    api.connect(&chain.mine(vec![mined.clone()]).unwrap());
    let spends = [spent(coins[0], &waits, false), spent(output_of(&waits), &on_top, false)];
    let confirmed = spent(coins[1], &mined, true);
    let all = reported.more();
    assert_eq!(all, [spends[0].clone(), confirmed.clone(), spends[1].clone()]);
    assert_eq!(in_blocks.more(), [confirmed]);
    // the journal remembers nothing of what leaves
    api.depart(&waits.compute_txid(), Departure::Evicted);
    assert_eq!(reported.more(), [unspent(coins[0], true), unspent(output_of(&waits), false)]);
    let new = branch(&mut chain, fork, 2, &[]);
    api.change(1, new.iter().map(AsRef::as_ref));
    assert_eq!(reported.more(), [unspent(coins[1], true)]);
    assert_eq!(in_blocks.more(), [unspent(coins[1], true)]);
    api.arrive([&waits]);
    assert_eq!(reported.more(), [spent(coins[0], &waits, false)]);
    assert_eq!(in_blocks.more(), Vec::<Value>::new());
}

#[test]
fn a_spend_is_reported_in_mempool_block_and_after_a_reorg() {
    let (mut chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let before = paying(coins[0], 500);
    api.connect(&chain.mine(vec![before.clone()]).unwrap());
    let fork = chain.tip();
    let (first, second, third) = (paying(coins[1], 500), paying(coins[1], 900), paying(coins[1], 1_100));
    let on_top = paying_of(output_of(&first), 99_500, 100);
    let followed = [coins[0], coins[1], output_of(&first), coins[2]];
    let mut reported = StatusReader::begin(&api, &spends_of(&followed, ""));
    let mut in_blocks = StatusReader::begin(&api, &spends_of(&followed, ", includeMempool: false"));
    assert_eq!(reported.more(), [spent(coins[0], &before, true)], "the others are unspent, or not there yet");
    assert_eq!(in_blocks.more(), [spent(coins[0], &before, true)]);
    api.arrive([&first, &on_top]);
    assert_eq!(reported.more(), [spent(coins[1], &first, false), spent(output_of(&first), &on_top, false)]);
    api.arrive([&second]);
    assert_eq!(reported.more(), [spent(coins[1], &second, false), unspent(output_of(&first), true)]);
    api.connect(&chain.mine(vec![second.clone()]).unwrap());
    assert_eq!(reported.more(), [spent(coins[1], &second, true)]);
    assert_eq!(in_blocks.more(), [spent(coins[1], &second, true)]);
    let new = branch(&mut chain, fork, 2, std::slice::from_ref(&third));
    api.change(1, new.iter().map(AsRef::as_ref));
    assert_eq!(reported.more(), [spent(coins[1], &third, true)]);
    assert_eq!(in_blocks.more(), [spent(coins[1], &third, true)]);
    assert!(!reported.ended);
}

#[test]
fn a_projected_position_is_sent_at_most_once_a_second() {
    let (chain, coins) = chain_with_coins(4);
    let mut api = Api::of_chain(&chain);
    let payment = large(coins[0], 20_000);
    let mut reported = StatusReader::begin(&api, &status_of(&[&payment], 1));
    reported.more();
    api.arrive([&payment]);
    let projected =
        |events: &[Value]| events.iter().map(|event| event["projectedBlockIndex"].clone()).collect::<Vec<_>>();
    assert_eq!(projected(&reported.more()), [json!(0)]);
    // in the same second two come before it
    api.arrive([&large(coins[1], 30_000), &large(coins[2], 40_000)]);
    assert_eq!(projected(&reported.more()), Vec::<Value>::new());
    reported.runtime.block_on(async { tokio::time::sleep(std::time::Duration::from_millis(1_100)).await });
    assert_eq!(projected(&reported.more()), [json!(1)], "though nothing was published since");
}

#[test]
fn lists_that_are_empty_or_too_long_are_refused() {
    let (chain, coins) = chain_with_coins(1);
    let limits = btcgraph::limits::Limits { watched_items: 1, ..btcgraph::limits::Limits::default() };
    let mut api = Api::empty(bitcoin::Network::Regtest, limits);
    api.change(0, chain.active_blocks().map(AsRef::as_ref));
    let code =
        |document: &str| StatusReader::begin(&api, document).more()[0]["errors"][0]["extensions"]["code"].clone();
    let (one, two) = (paying(coins[0], 500), paying(coins[0], 501));
    assert_eq!(code(&status_of(&[&one, &two], 6)), "QUERY_LIMIT_EXCEEDED");
    assert_eq!(code(&spends_of(&[output_of(&one), output_of(&two)], "")), "QUERY_LIMIT_EXCEEDED");
    for document in [status_of(&[], 6), status_of(&[&one], 0), spends_of(&[], "")] {
        assert_eq!(code(&document), "BAD_USER_INPUT", "{document}");
    }
}

#[test]
fn a_watch_reports_what_pays_and_what_spends_its_script() {
    let (chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let [from, to] = [1, 2].map(|key| Owner::new(ScriptKind::BareTrue, key));
    let note = TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::new_op_return(b"note") };
    let payment =
        spend_outputs(from, &[coins[0]], &[from.output(sat(100_000))], vec![to.output(sat(98_000)), note.clone()]);
    // alone, with few others, and among so many that the scripts of a transaction are looked for among them
    let watching = |script: ScriptBuf| {
        [0, 3, 4, 20].map(|others| {
            let others = (0..others).map(|other| Owner::new(ScriptKind::P2wpkh, 100 + other).script_pubkey());
            let scripts: Vec<_> = others.chain([script.clone()]).map(|script| script.to_hex_string()).collect();
            format!("subscription {{ unconfirmedTransaction(watch: {{ scripts: {scripts:?} }}) {{ txid }} }}")
        })
    };
    let watches = [from.script_pubkey(), to.script_pubkey(), note.script_pubkey].map(watching);
    let mut streams = watches.map(|watches| watches.map(|watch| StatusReader::begin(&api, &watch)));
    for stream in streams.iter_mut().flatten() {
        assert_eq!(stream.more(), Vec::<Value>::new());
    }
    let other = paying(coins[1], 500);
    api.arrive([&payment, &other]);
    let txid = |of: &Transaction| json!({ "txid": id(of) });
    // an output that cannot be spent belongs to no ledger
    let reported = [vec![txid(&payment), txid(&other)], vec![txid(&payment)], Vec::new()];
    for (streams, reported) in streams.iter_mut().zip(reported) {
        for stream in streams {
            assert_eq!(stream.more(), reported);
        }
    }
}

#[test]
fn arrivals_pass_the_filter_and_the_watch() {
    let (chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let (cheap, dear) = (paying(coins[0], 500), paying(coins[1], 50_000));
    let arriving = |arguments: &str| format!("subscription {{ unconfirmedTransaction{arguments} {{ txid }} }}");
    let rate = arriving("(filter: { minFeeRate: 100 })");
    let value = arriving("(filter: { minValue: 90000 })");
    let script = cheap.output[0].script_pubkey.to_hex_string();
    let watched = arriving(&format!("(watch: {{ scripts: [\"{script}\"] }}, filter: {{ maxFeeRate: 100000 }})"));
    let others = arriving("(watch: { scripts: [\"52\"] })");
    let documents = [arriving(""), rate, value, watched, others];
    let mut streams = documents.map(|document| StatusReader::begin(&api, &document));
    for stream in &mut streams {
        assert_eq!(stream.more(), Vec::<Value>::new());
    }
    api.arrive([&cheap, &dear]);
    let txid = |of: &Transaction| json!({ "txid": id(of) });
    let both = vec![txid(&cheap), txid(&dear)];
    let expected = [both.clone(), vec![txid(&dear)], vec![txid(&cheap)], both, Vec::new()];
    for (stream, expected) in streams.iter_mut().zip(expected) {
        assert_eq!(stream.more(), expected);
    }
}
