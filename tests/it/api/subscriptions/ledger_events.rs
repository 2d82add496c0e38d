//! `ledgerEvents`: the whole life of transactions that concern watched scripts, in order, and going on from where one
//! was.

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request};
use bitcoin::{OutPoint, Transaction};
use btcgraph::limits::Limits;
use btcgraph::mempool::{Departure, MempoolLimits};
use btcgraph::sim::{Owner, Reward, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use crate::api::mempool::projected::{chain_with_coins, output_of, paying, paying_of};
use crate::support::api::{Api, branch, response_json, sat, spend_outputs};
use crate::support::clock::paused_runtime;

/// Whoever owns the coins of [`chain_with_coins`].
const PAYER: Owner = Owner::new(ScriptKind::BareTrue, 1);
const SHOP: Owner = Owner::new(ScriptKind::P2wpkh, 7);

/// A payment of a coin of the payer to the shop, which leaves this fee.
fn to_shop(coin: OutPoint, fee: u64) -> Transaction {
    spend_outputs(PAYER, &[coin], &[PAYER.output(sat(100_000))], vec![SHOP.output(sat(100_000 - fee))])
}

fn document(owner: Owner, arguments: &str, fields: &str) -> String {
    let script = owner.script_pubkey().to_hex_string();
    format!("subscription {{ ledgerEvents(watch: {{ scripts: [\"{script}\"] }} {arguments}) {{ {fields} }} }}")
}

const FIELDS: &str = "cursor seq kind depth reason replacedByTxid entry { net transaction { txid } }";

/// What a subscription tells before it has to wait, and why it ended, if it did.
pub(crate) fn reported(api: &Api, document: &str) -> Vec<Value> {
    EventReader::begin(api, document).more()
}

/// A subscription that stays.
pub(crate) struct EventReader {
    runtime: tokio::runtime::Runtime,
    stream: async_graphql::futures_util::stream::BoxStream<'static, async_graphql::Response>,
}

impl EventReader {
    pub(crate) fn begin(api: &Api, document: &str) -> Self {
        Self { runtime: paused_runtime(), stream: api.schema.execute_stream(Request::new(document), None) }
    }

    /// The events up to one, or until the stream ends or has to wait.
    pub(crate) fn up_to(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut reported = Vec::new();
        while !reported.last().is_some_and(&is_last)
            && let Some(event) = self.one()
        {
            reported.push(event);
        }
        reported
    }

    /// The events until the stream has to wait.
    pub(crate) fn more(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.one()).collect()
    }

    fn one(&mut self) -> Option<Value> {
        let stream = &mut self.stream;
        let next = async { tokio::time::timeout(std::time::Duration::from_millis(50), stream.next()).await };
        let mut response = response_json(self.runtime.block_on(next).ok()??);
        if response.get("errors").is_some() {
            return Some(response);
        }
        Some(response["data"].as_object_mut().unwrap().values_mut().next().unwrap().take())
    }
}

/// (kind, txid, depth, reason, replaced by)
pub(crate) fn short(events: &[Value]) -> Vec<Value> {
    let parts = |event: &Value| {
        json!([
            event["kind"],
            event["entry"]["transaction"]["txid"],
            event["depth"],
            event["reason"],
            event["replacedByTxid"]
        ])
    };
    events.iter().map(parts).collect()
}

fn id(of: &Transaction) -> Value {
    json!(of.compute_txid().to_string())
}

pub(crate) fn event(kind: &str, of: &Transaction) -> Value {
    let depth = if kind == "CONFIRMED" { json!(1) } else { Value::Null };
    json!([kind, id(of), depth, null, null])
}

pub(crate) fn at_depth(of: &Transaction, depth: u32) -> Value {
    json!(["DEPTH_REACHED", id(of), depth, null, null])
}

/// What is not about a transaction.
pub(crate) fn mark(kind: &str) -> Value {
    json!([kind, null, null, null, null])
}

pub(crate) fn left(kind: &str, of: &Transaction, reason: &str, by: &Value) -> Value {
    json!([kind, id(of), null, reason, by])
}

#[test]
fn a_payment_is_reported_from_its_arrival_to_its_depth() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(
        &api,
        &document(
            SHOP,
            "depths: [1, 3, 2, 3]",
            "seq kind depth entry { net spent received balanceAfter transaction { state confirmations } } balance { confirmed pendingIn }",
        ),
    );
    assert_eq!(events.more(), Vec::<Value>::new(), "nothing happened yet");
    let (payment, other) = (to_shop(coins[0], 1_000), paying(coins[1], 500));
    api.arrive([&payment, &other]);
    api.connect(&chain.mine(vec![payment.clone(), other]).unwrap());
    api.connect(&chain.mine(Vec::new()).unwrap());
    let entry = |balance: u64, state: &str, confirmations: u32| {
        json!({ "net": 99_000, "spent": 0, "received": 99_000, "balanceAfter": balance,
                "transaction": { "state": state, "confirmations": confirmations } })
    };
    let balance = |confirmed: u64, pending: u64| json!({ "confirmed": confirmed, "pendingIn": pending });
    assert_eq!(
        events.more(),
        [
            json!({ "seq": 1, "kind": "SEEN", "depth": null, "entry": entry(99_000, "MEMPOOL", 0), "balance": balance(0, 99_000) }),
            json!({ "seq": 2, "kind": "CONFIRMED", "depth": 1, "entry": entry(99_000, "CONFIRMED", 1), "balance": balance(99_000, 0) }),
            json!({ "seq": 3, "kind": "DEPTH_REACHED", "depth": 2, "entry": entry(99_000, "CONFIRMED", 2), "balance": balance(99_000, 0) }),
        ]
    );
    api.connect(&chain.mine(Vec::new()).unwrap());
    let depths: Vec<_> = events.more().iter().map(|event| event["depth"].clone()).collect();
    assert_eq!(depths, [json!(3)]);
}

#[test]
fn a_payment_that_vanishes_has_a_reason() {
    let (mut chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(SHOP, "", FIELDS));
    events.more();
    let (first, second) = (to_shop(coins[0], 1_000), to_shop(coins[0], 2_000));
    api.arrive([&first, &second]);
    assert_eq!(
        short(&events.more()),
        [event("SEEN", &first), left("REPLACED", &first, "REPLACED", &id(&second)), event("SEEN", &second)]
    );
    let expiring = to_shop(coins[1], 1_000);
    api.arrive([&expiring]);
    api.depart(&expiring.compute_txid(), Departure::Expired);
    assert_eq!(short(&events.more()), [event("SEEN", &expiring), left("EVICTED", &expiring, "EXPIRED", &Value::Null)]);
    // a block pays somebody else with the same coin
    let conflict = paying(coins[0], 500);
    api.connect(&chain.mine(vec![conflict.clone()]).unwrap());
    assert_eq!(short(&events.more()), [left("CONFLICTED", &second, "CONFLICTED", &id(&conflict))]);
}

#[test]
fn a_reason_that_becomes_known_later_is_a_correction() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let (replaced, conflicted) = (to_shop(coins[0], 1_000), to_shop(coins[1], 1_000));
    api.arrive([&replaced, &conflicted]);
    let fields = "cursor kind depth reason replacedByTxid isCorrection entry { transaction { txid } }";
    let mut events = EventReader::begin(&api, &document(SHOP, "", fields));
    events.more();
    for left in [&replaced, &conflicted] {
        api.depart(&left.compute_txid(), Departure::Unknown);
    }
    let before = events.more();
    assert_eq!(short(&before), [&replaced, &conflicted].map(|gone| left("EVICTED", gone, "UNKNOWN", &Value::Null)));
    let later = to_shop(coins[0], 2_000);
    api.arrive([&later]);
    let conflict = paying(coins[1], 500);
    api.connect(&chain.mine(vec![conflict.clone()]).unwrap());
    let mut after = events.more();
    assert_eq!(
        short(&after),
        [
            left("REPLACED", &replaced, "REPLACED", &id(&later)),
            event("SEEN", &later),
            left("CONFLICTED", &conflicted, "CONFLICTED", &id(&conflict)),
        ]
    );
    let corrections = |events: &[Value]| events.iter().map(|event| event["isCorrection"] == true).collect::<Vec<_>>();
    assert_eq!((corrections(&before), corrections(&after)), (vec![false, false], vec![true, false, true]));

    // a subscriber that resumes behind any event receives what follows it
    after.splice(0..0, before);
    for (heard, event) in (1..).zip(&after) {
        let behind = format!("after: {}", event["cursor"]);
        assert_eq!(reported(&api, &document(SHOP, &behind, fields)), after[heard..]);
    }
}

#[test]
fn a_reorganisation_takes_back_the_newest_first_and_confirms_anew() {
    let (mut chain, coins) = chain_with_coins(3);
    let fork = chain.tip();
    let [one, two, three] = [0, 1, 2].map(|coin| to_shop(coins[coin], 1_000));
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(SHOP, "depths: [2]", FIELDS));
    events.more();
    let old =
        [vec![one.clone(), two.clone()], vec![three.clone()]].map(|transactions| chain.mine(transactions).unwrap());
    api.change(0, old.iter().map(AsRef::as_ref));
    assert_eq!(
        short(&events.more()),
        [
            event("CONFIRMED", &one),
            event("CONFIRMED", &two),
            event("CONFIRMED", &three),
            at_depth(&one, 2),
            at_depth(&two, 2),
        ]
    );
    let new = branch(&mut chain, fork, 3, std::slice::from_ref(&three));
    api.change(2, new.iter().map(AsRef::as_ref));
    let reorganised = [
        event("UNCONFIRMED_BY_REORG", &three),
        event("UNCONFIRMED_BY_REORG", &two),
        event("UNCONFIRMED_BY_REORG", &one),
        event("CONFIRMED", &three),
    ];
    assert_eq!(short(&events.more()), reorganised);
    // and back, sent to one that stayed and to one that was away for both
    let last = &reported(&api, &document(SHOP, "depths: [2], after: null", FIELDS));
    assert_eq!(last, &[] as &[Value]);
    api.change(3, old.iter().map(AsRef::as_ref));
    let back = short(&events.more());
    assert_eq!(
        back,
        [
            event("UNCONFIRMED_BY_REORG", &three),
            event("CONFIRMED", &one),
            event("CONFIRMED", &two),
            event("CONFIRMED", &three),
            at_depth(&one, 2),
            at_depth(&two, 2),
        ]
    );
}

#[test]
fn resuming_at_any_event_continues_with_all_flips() {
    let (mut chain, coins) = chain_with_coins(4);
    let fork = chain.tip();
    let mut api = Api::of_chain(&chain);
    let arguments = "depths: [2]";
    let mut staying = EventReader::begin(&api, &document(SHOP, arguments, FIELDS));
    staying.more();
    let [one, two, three, four] = [0, 1, 2, 3].map(|coin| to_shop(coins[coin], 1_000));
    let bumped = to_shop(coins[2], 3_000);
    api.arrive([&one, &two, &three]);
    let old = [vec![one.clone(), two.clone()], vec![four]].map(|transactions| chain.mine(transactions).unwrap());
    api.change(0, old.iter().map(AsRef::as_ref));
    api.arrive([&bumped]);
    let new = branch(&mut chain, fork, 3, &[two]);
    api.change(2, new.iter().map(AsRef::as_ref));
    api.change(3, old.iter().map(AsRef::as_ref));
    api.depart(&bumped.compute_txid(), Departure::Evicted);
    let all = staying.more();
    assert_eq!(all.len(), 21, "{:#?}", short(&all));
    for (number, event) in all.iter().enumerate() {
        let after = format!("{arguments}, after: {}", event["cursor"]);
        let rest = reported(&api, &document(SHOP, &after, FIELDS));
        assert_eq!(short(&rest), short(&all[number + 1..]), "behind event {number}");
        let cursors = |events: &[Value]| events.iter().map(|event| event["cursor"].clone()).collect::<Vec<_>>();
        assert_eq!(cursors(&rest), cursors(&all[number + 1..]), "behind event {number}");
    }
}

#[test]
fn a_resumed_stream_reports_deep_stale_blocks_too() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let arguments = "depths: [2, 101, 150]";
    let mut staying = EventReader::begin(&api, &document(SHOP, arguments, FIELDS));
    staying.more();
    let [deep, young] = [0, 1].map(|coin| to_shop(coins[coin], 1_000));
    let first = chain.mine(vec![deep.clone()]).unwrap();
    api.connect(&first);
    api.change(0, chain.mine_empty(48).unwrap().iter().map(AsRef::as_ref));
    let rewarded = |chain: &mut SimChain| {
        let reward = Some(Reward::to(SHOP.script_pubkey()));
        chain.mine_template(Template { reward, ..Template::default() }).unwrap()
    };
    // one block brings the coinbases to 101 and to 100 confirmations and the payment to 150
    let [older, newer] = [0; 2].map(|_| rewarded(&mut chain));
    api.change(0, [&*older, &*newer]);
    api.change(0, chain.mine_empty(98).unwrap().iter().map(AsRef::as_ref));
    let before = staying.more();
    let fork = chain.tip();
    api.connect(&chain.mine(vec![young.clone()]).unwrap());
    let new = branch(&mut chain, fork, 2, std::slice::from_ref(&young));
    api.change(1, new.iter().map(AsRef::as_ref));
    let [older, newer] = [&older.txdata[0], &newer.txdata[0]];
    let matured = json!(["MATURED", id(newer), 100, null, null]);
    let joined = [event("CONFIRMED", &young), at_depth(older, 101), at_depth(&deep, 150), matured];
    let all = staying.more();
    assert_eq!(short(&all)[..5], [&joined[..], &[event("UNCONFIRMED_BY_REORG", &young)]].concat());
    let reported_before = before.last().unwrap();
    for (number, event) in std::iter::once(reported_before).chain(&all).enumerate() {
        let after = format!("{arguments}, after: {}", event["cursor"]);
        assert_eq!(
            short(&reported(&api, &document(SHOP, &after, FIELDS))),
            short(&all[number..]),
            "behind event {number}"
        );
    }
}

#[test]
fn beyond_the_kept_events_come_chain_gap_and_mempool() {
    let (mut chain, coins) = chain_with_coins(4);
    let fork = chain.tip();
    let mut api = Api::of_chain(&chain);
    api.remember(MempoolLimits { events: 2, ..MempoolLimits::default() });
    let mut staying = EventReader::begin(&api, &document(SHOP, "", FIELDS));
    staying.more();
    let [one, two, three, four] = [0, 1, 2, 3].map(|coin| to_shop(coins[coin], 1_000));
    let old = chain.mine(vec![one.clone(), two.clone()]).unwrap();
    api.connect(&old);
    let heard = staying.more();
    let new = branch(&mut chain, fork, 2, std::slice::from_ref(&one));
    api.change(1, new.iter().map(AsRef::as_ref));
    api.arrive([&three, &four, &paying_of(output_of(&three), 99_000, 100)]);
    let after = |cursor: &Value| document(SHOP, &format!("after: {cursor}"), FIELDS);
    // of the first event of the block only
    let rest = reported(&api, &after(&heard[0]["cursor"]));
    let expected = [
        event("CONFIRMED", &two),
        event("UNCONFIRMED_BY_REORG", &two),
        event("UNCONFIRMED_BY_REORG", &one),
        event("CONFIRMED", &one),
        mark("GAP"),
        event("SEEN", &three),
        event("SEEN", &four),
    ];
    assert_eq!(short(&rest)[..7], expected);
    assert_eq!(short(&rest)[8..], [mark("GAP_END")]);
    for (number, event) in rest.iter().enumerate() {
        assert_eq!(short(&reported(&api, &after(&event["cursor"]))), short(&rest)[number + 1..]);
    }
}

#[test]
fn a_gap_is_reported_where_bytes_of_departures_are_gone() {
    let (chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    api.remember(MempoolLimits { departed_bytes: 0, ..MempoolLimits::default() });
    let mut staying = EventReader::begin(&api, &document(SHOP, "", FIELDS));
    staying.more();
    let [one, two] = [0, 1].map(|coin| to_shop(coins[coin], 1_000));
    api.arrive([&one]);
    let heard = staying.more();
    assert_eq!(short(&heard), [event("SEEN", &one)]);
    api.depart(&one.compute_txid(), Departure::Expired);
    let gap = [mark("GAP"), mark("GAP_END")];
    let rest = reported(&api, &document(SHOP, &format!("after: {}", heard[0]["cursor"]), FIELDS));
    assert_eq!(short(&rest), gap);
    assert_eq!(short(&staying.more()), gap);
    api.arrive([&two]);
    assert_eq!(short(&staying.more()), [event("SEEN", &two)]);
    let rest = reported(&api, &document(SHOP, &format!("after: {}", rest[1]["cursor"]), FIELDS));
    assert_eq!(short(&rest), [event("SEEN", &two)]);
}

#[test]
fn coins_of_a_coinbase_mature_with_a_hundred_confirmations() {
    let mut chain = SimChain::new(81);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(SHOP, "", FIELDS));
    events.more();
    let reward = Reward::to(SHOP.script_pubkey());
    let first = chain.mine_template(Template { reward: Some(reward), ..Template::default() }).unwrap();
    api.connect(&first);
    let coinbase = &first.txdata[0];
    let heard = events.more();
    assert_eq!(short(&heard), [event("CONFIRMED", coinbase)]);
    api.change(0, chain.mine_empty(98).unwrap().iter().map(AsRef::as_ref));
    assert_eq!(events.more(), Vec::<Value>::new());
    api.change(0, chain.mine_empty(1_200).unwrap().iter().map(AsRef::as_ref));
    let matured = vec![json!(["MATURED", id(coinbase), 100, null, null])];
    assert_eq!(short(&events.more()), matured);
    let after = format!("after: {}", heard[0]["cursor"]);
    assert_eq!(short(&reported(&api, &document(SHOP, &after, FIELDS))), matured);
}

#[test]
fn a_transaction_of_several_watched_scripts_is_sent_once() {
    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let scripts = [PAYER, SHOP].map(|owner| json!(owner.script_pubkey().to_hex_string()).to_string()).join(", ");
    let document = format!(
        "subscription {{ ledgerEvents(watch: {{ scripts: [{scripts}] }}) {{ kind entry {{ net sentToSelf }} }} }}"
    );
    let mut events = EventReader::begin(&api, &document);
    events.more();
    let payment = to_shop(coins[0], 1_000);
    api.arrive([&payment]);
    api.connect(&chain.mine(vec![payment]).unwrap());
    let entry = json!({ "net": -1_000, "sentToSelf": true });
    let expected = ["SEEN", "CONFIRMED"].map(|kind| json!({ "kind": kind, "entry": entry }));
    assert_eq!(events.more(), expected);
}

#[test]
fn an_idle_subscriber_keeps_no_state() {
    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(SHOP, "", FIELDS));
    events.more();
    for number in 0..100 {
        let transactions = if number == 0 { vec![to_shop(coins[0], 1_000)] } else { Vec::new() };
        api.connect(&chain.mine(transactions).unwrap());
        assert_eq!(events.more().len(), usize::from(number == 0));
        // the ring of the channel holds none that everybody has read
        assert_eq!(api.live_heads(), 1, "after block {number}");
    }
}

fn code_of(api: &Api, document: &str) -> Value {
    let reported = reported(api, document);
    assert_eq!(reported.len(), 1, "{reported:?}");
    reported[0]["errors"][0]["extensions"]["code"].clone()
}

#[test]
fn what_cannot_be_watched_and_cursors_of_others_are_refused() {
    let (chain, _) = chain_with_coins(1);
    let mut api = Api::empty(bitcoin::Network::Regtest, Limits { watched_items: 2, ..Limits::default() });
    api.change(0, chain.active_blocks().map(AsRef::as_ref));
    let watching = |watch: &str| format!("subscription {{ ledgerEvents(watch: {watch}) {{ seq }} }}");
    assert_eq!(code_of(&api, &watching("{ scripts: [\"51\", \"52\", \"53\"] }")), "QUERY_LIMIT_EXCEEDED");
    for watch in ["{}", "{ scripts: [] }", "{ addresses: [\"nobody\"] }"] {
        assert_eq!(code_of(&api, &watching(watch)), "BAD_USER_INPUT", "{watch}");
    }
    for arguments in ["depths: [0]", "depths: [1, -2]", "after: \"AAAA\""] {
        assert_eq!(code_of(&api, &document(SHOP, arguments, "seq")), "BAD_USER_INPUT", "{arguments}");
    }
    let many = format!("depths: {:?}", (1..=21).collect::<Vec<_>>());
    assert_eq!(code_of(&api, &document(SHOP, &many, "seq")), "QUERY_LIMIT_EXCEEDED");

    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(SHOP, "", FIELDS));
    events.more();
    api.connect(&chain.mine(vec![to_shop(coins[0], 1_000)]).unwrap());
    let cursor = &events.more()[0]["cursor"];
    assert_eq!(code_of(&api, &document(PAYER, &format!("after: {cursor}"), FIELDS)), "BAD_USER_INPUT");
    assert_eq!(code_of(&api, &document(SHOP, &format!("depths: [4], after: {cursor}"), FIELDS)), "BAD_USER_INPUT");
    assert_eq!(
        reported(&api, &document(SHOP, &format!("depths: [1, 1], after: {cursor}"), FIELDS)),
        Vec::<Value>::new()
    );
}
