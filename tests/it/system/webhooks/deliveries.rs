//! What is delivered, in which order, and where hooks go on.

use std::sync::Arc;
use std::time::Duration;

use bitcoin::Block;
use btcgraph::sim::{Owner, ScriptKind, SimChain};
use btcgraph::webhooks::HookWatch;
use serde_json::{Value, json};

use super::receiver::{Reaction, Received, Receiver, SECRET};
use super::stage::{Stage, connected, heights, hook, scripts};
use crate::support::api::{Api, coinbase_output, sat, spend};
use crate::support::bitcoind::wait_for;

const SHOP: Owner = Owner::new(ScriptKind::P2wpkh, 7);

fn kinds(messages: &[Received]) -> Vec<Value> {
    let short = |message: &Received| {
        let json = message.json();
        json!([json["type"], json["data"]["entry"]["transaction"]["txid"], json["data"]["depth"]])
    };
    messages.iter().map(short).collect()
}

#[test]
fn blocks_are_delivered_in_order_and_signed() {
    let mut stage = Stage::with_blocks(3);
    let receiver = Receiver::start(Reaction::Accept);
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    let blocks = stage.mine(5);
    let messages = receiver.wait_for(5);
    assert_eq!(heights(&messages), connected(4..=8));
    for (message, (block, seq)) in messages.iter().zip(blocks.iter().zip(1..)) {
        message.verify();
        assert_eq!(message.header("content-type"), "application/json");
        let json = message.json();
        assert_eq!((&json["webhook"], &json["data"]["seq"]), (&json!("shop"), &json!(seq)));
        assert_eq!(json["data"]["block"]["hash"], json!(block.block_hash().to_string()));
        assert!(json["data"]["cursor"].is_string() && json["timestamp"].as_str().unwrap().ends_with('Z'));
    }
}

#[test]
fn two_secrets_sign_while_one_replaces_the_other() {
    let mut stage = Stage::with_blocks(1);
    let receiver = Receiver::start(Reaction::Accept);
    let mut hook = hook("shop", &receiver.url(), HookWatch::Blocks);
    let other = "whsec_////////////////////////////////";
    hook.keys = btcgraph::webhooks::SigningKeys::parse(&format!("{other} {SECRET}")).unwrap();
    let _running = stage.deliver(vec![hook]);
    stage.mine(1);
    let mut message = receiver.wait_for(1).remove(0);
    let signatures = message.header("webhook-signature").to_owned();
    let (_, old) = signatures.split_once(' ').expect("two signatures");
    for (name, value) in &mut message.headers {
        if name == "webhook-signature" {
            old.clone_into(value);
        }
    }
    message.verify();
}

#[test]
fn a_reorg_takes_blocks_back_before_it_adds_others() {
    let mut stage = Stage::with_blocks(5);
    let receiver = Receiver::start(Reaction::Accept);
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    stage.mine(1);
    receiver.wait_for(1);
    let fork = stage.chain.ancestor(&stage.chain.tip(), 2).unwrap();
    let mut parent = fork;
    let mut branch: Vec<Arc<Block>> = Vec::new();
    for _ in 0..3 {
        let block = stage.chain.mine_on(parent, Vec::new()).unwrap();
        parent = block.block_hash();
        branch.push(block);
    }
    stage.api.change(2, branch.iter().map(Arc::as_ref));
    let messages = receiver.wait_for(6);
    let left = |height| json!(["chain.block_disconnected", height]);
    let expected = [connected([6]), vec![left(6), left(5)], connected(5..=7)].concat();
    assert_eq!(heights(&messages), expected);
}

#[test]
fn a_payment_is_followed_from_the_mempool_to_its_depth() {
    let mut stage = Stage::with_blocks(101);
    let receiver = Receiver::start(Reaction::Accept);
    let watch = scripts(&[SHOP.script_pubkey().to_hex_string()], &[3], &[]);
    let address = HookWatch::Ledger {
        addresses: vec![btcgraph::chain::address_of(&SHOP.script_pubkey(), bitcoin::Network::Regtest).unwrap()],
        scripts: Vec::new(),
        descriptors: Vec::new(),
        depths: vec![3],
        kinds: vec!["CONFIRMED".to_owned()],
    };
    let confirmed = Receiver::start(Reaction::Accept);
    let hooks = vec![hook("all", &receiver.url(), watch), hook("confirmed", &confirmed.url(), address)];
    let _running = stage.deliver(hooks);
    let first = stage.chain.active_blocks().nth(1).unwrap().clone();
    let payment =
        spend(&stage.chain, SimChain::miner(), &[coinbase_output(&first, 0)], vec![SHOP.output(sat(100_000))]);
    stage.api.arrive([&payment]);
    receiver.wait_for(1);
    let block = stage.chain.mine(vec![payment.clone()]).unwrap();
    stage.api.connect(&block);
    receiver.wait_for(2);
    stage.mine(2);
    let messages = receiver.wait_for(3);
    let txid = json!(payment.compute_txid().to_string());
    assert_eq!(
        kinds(&messages),
        [
            json!(["ledger.seen", txid, null]),
            json!(["ledger.confirmed", txid, 1]),
            json!(["ledger.depth_reached", txid, 3])
        ]
    );
    assert_eq!(messages[1].json()["data"]["entry"]["net"], json!(100_000));
    assert_eq!(messages[2].json()["data"]["balance"]["confirmed"], json!(100_000));
    assert_eq!(kinds(&confirmed.wait_for(1)), [json!(["ledger.confirmed", txid, 1])]);
}

#[test]
fn a_hook_has_the_fields_that_it_sets() {
    let mut stage = Stage::with_blocks(1);
    let receiver = Receiver::start(Reaction::Accept);
    let mut hook = hook("shop", &receiver.url(), HookWatch::Blocks);
    hook.fields = Some("... on BlockConnected { block { weight } }".to_owned());
    let _running = stage.deliver(vec![hook]);
    stage.mine(1);
    let data = receiver.wait_for(1)[0].json()["data"].take();
    let names: Vec<_> = data.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["__typename", "block", "cursor", "seq"]);
    assert!(data["block"]["weight"].is_number());
}

#[test]
fn what_the_schema_does_not_have_is_refused_at_the_start() {
    let stage = Stage::with_blocks(1);
    let refused = |fields: &str, watch: HookWatch| {
        let mut hook = hook("shop", "http://127.0.0.1/", watch);
        hook.fields = Some(fields.to_owned()).filter(|fields| !fields.is_empty());
        stage.prepare(vec![hook]).map(|_| ()).unwrap_err().to_string()
    };
    let watch = |depths: &[u32], kinds: &[&str]| scripts(&["51".to_owned()], depths, kinds);
    for (fields, watch, setting, named) in [
        ("nonsense", HookWatch::Blocks, "fields", "nonsense"),
        ("block {", HookWatch::Blocks, "fields", "fields opens a bracket that it does not close"),
        ("", watch(&[], &["PAID"]), "kinds or depths", "PAID"),
        ("txid nonsense", watch(&[], &["PAID"]), "kinds or depths", "PAID"),
        ("", watch(&(2..=30).collect::<Vec<_>>(), &[]), "kinds or depths", "depths"),
    ] {
        let error = refused(fields, watch);
        assert!(error.starts_with(&format!("the webhook shop: its {setting} are wrong: ")), "{error}");
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn hooks_go_on_where_they_were_after_every_stop() {
    let mut stage = Stage::with_blocks(2);
    let receiver = Receiver::start(Reaction::RefuseEverySecond);
    for _ in 0..6 {
        let running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
        stage.mine(4);
        receiver.wait_for_attempts(receiver.received().len() + 3);
        drop(running);
        stage.mine(1);
    }
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    let messages = receiver.wait_for(30);
    assert_eq!(heights(&messages), connected(3..=32), "none is lost or out of order");
    let bodies =
        |id: &str| receiver.received().into_iter().filter(|sent| sent.id == id).map(|sent| sent.body).collect();
    for message in &messages {
        let bodies: Vec<String> = bodies(&message.id);
        assert!(bodies.iter().all(|body| *body == message.body), "an attempt has another body: {bodies:?}");
    }
}

#[test]
fn a_cursor_that_leads_nowhere_is_a_gap() {
    let mut stage = Stage::with_blocks(3);
    let receiver = Receiver::start(Reaction::Accept);
    drop(stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]));
    // of another chain
    let mut other = SimChain::new(8);
    other.mine_empty(3).unwrap();
    let mut position = stage.position("shop").unwrap();
    let cursor =
        crate::support::api::Api::of_chain(&other).data("{ snapshot { cursor } }")["snapshot"]["cursor"].take();
    position["cursor"] = cursor.clone();
    std::fs::write(stage.directory().join("shop.json"), position.to_string()).unwrap();
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    let gap = receiver.wait_for(1)[0].json();
    assert_eq!((&gap["type"], &gap["data"]["code"]), (&json!("webhook.gap"), &json!("CURSOR_EXPIRED")));
    assert_eq!(gap["data"]["after"], cursor);
    assert_eq!(gap["data"]["cursor"], stage.api.data("{ snapshot { cursor } }")["snapshot"]["cursor"]);
    stage.mine(2);
    assert_eq!(heights(&receiver.wait_for(3)[1..]), connected(4..=5));
}

/// What a receiver takes of a hook whose position is that of an earlier run of the server, while two payments wait.
fn taken_after_a_restart(receiver: &Receiver, begun: impl FnOnce()) -> Vec<Value> {
    let mut stage = Stage::with_blocks(102);
    let shop = || vec![hook("shop", &receiver.url(), scripts(&[SHOP.script_pubkey().to_hex_string()], &[], &[]))];
    drop(stage.deliver(shop()));
    stage.api = Api::of_chain(&stage.chain);
    let payments = [1, 2].map(|number| {
        let coin = coinbase_output(stage.chain.active_blocks().nth(number).unwrap(), 0);
        spend(&stage.chain, SimChain::miner(), &[coin], vec![SHOP.output(sat(100_000))])
    });
    stage.api.arrive(&payments);
    let running = stage.deliver(shop());
    receiver.wait_for_attempts(1);
    begun();
    receiver.wait_for(4);
    let metrics = &running.metrics[0];
    wait_for("the hook to have caught up", Duration::from_secs(20), || (metrics.lag_seconds() == 0).then_some(()));
    receiver.wait_for(4).iter().map(|message| json!([message.json()["type"], message.json()["data"]["seq"]])).collect()
}

#[test]
fn a_failed_or_slow_attempt_does_not_begin_a_gap_anew() {
    let expected =
        [json!(["ledger.gap", 1]), json!(["ledger.seen", 2]), json!(["ledger.seen", 3]), json!(["ledger.gap_end", 4])];
    let failing = Receiver::start(Reaction::RefuseEverySecond);
    assert_eq!(taken_after_a_restart(&failing, || {}), expected);
    // longer than the stream stays open
    let slow = Receiver::start(Reaction::AcceptAfter(Duration::from_millis(3_500)));
    assert_eq!(taken_after_a_restart(&slow, || slow.react(Reaction::Accept)), expected);
}

#[test]
fn another_watch_list_is_a_gap() {
    let mut stage = Stage::with_blocks(101);
    let receiver = Receiver::start(Reaction::Accept);
    let of = |keys: &[u32]| {
        let list: Vec<_> =
            keys.iter().map(|key| Owner::new(ScriptKind::P2wpkh, *key).script_pubkey().to_hex_string()).collect();
        vec![hook("shop", &receiver.url(), scripts(&list, &[], &["CONFIRMED"]))]
    };
    let pay = |stage: &mut Stage, number: usize| {
        let coin = coinbase_output(&stage.chain.active_blocks().nth(number).unwrap().clone(), 0);
        let payment = spend(&stage.chain, SimChain::miner(), &[coin], vec![SHOP.output(sat(100_000))]);
        let block = stage.chain.mine(vec![payment]).unwrap();
        stage.api.connect(&block);
    };
    let running = stage.deliver(of(&[7]));
    pay(&mut stage, 1);
    receiver.wait_for(1);
    drop(running);
    let running = stage.deliver(of(&[7, 8]));
    let gap = receiver.wait_for(2)[1].json();
    assert_eq!((&gap["type"], &gap["data"]["code"]), (&json!("webhook.gap"), &json!("WATCH_CHANGED")));
    pay(&mut stage, 2);
    let seq = |messages: &[Received]| messages.last().unwrap().json()["data"]["seq"].clone();
    assert_eq!(seq(&receiver.wait_for(3)), json!(1), "the numbers begin anew");
    drop(running);
    // the same list in another order is the same
    let _running = stage.deliver(of(&[8, 7]));
    pay(&mut stage, 3);
    assert_eq!(kinds(&receiver.wait_for(4))[3][0], json!("ledger.confirmed"));
}
