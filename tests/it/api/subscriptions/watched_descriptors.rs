//! Subscriptions that watch descriptors: the scripts up to the gap limit, which moves on by itself while the stream runs.

use bitcoin::{OutPoint, Transaction, TxOut};
use btcgraph::mempool::Departure;
use serde_json::{Value, json};

use super::ledger_events::{EventReader, at_depth, event, left, mark, short};
use crate::api::ledgers::descriptors::{PAYER, pay, script, wallet};
use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::{Api, branch, sat, spend_outputs};

const FIELDS: &str = "cursor seq kind depth reason replacedByTxid isBackfill entry { net transaction { txid } }
    matches { descriptorIndex derived { path branch index address } }";

/// A subscription to the wallet with a gap limit of 3.
pub(crate) fn document(arguments: &str) -> String {
    watching(&json!([{ "text": wallet(), "gapLimit": 3 }]), arguments)
}

pub(crate) fn watching(descriptors: &Value, arguments: &str) -> String {
    let descriptors = descriptors
        .as_array()
        .unwrap()
        .iter()
        .map(|descriptor| format!("{{ text: {}, gapLimit: {} }}", descriptor["text"], descriptor["gapLimit"]));
    let descriptors = descriptors.collect::<Vec<_>>().join(", ");
    format!("subscription {{ ledgerEvents(watch: {{ descriptors: [{descriptors}] }} {arguments}) {{ {FIELDS} }} }}")
}

/// A payment of 1,000 sat to each of these indexes of the receive branch.
pub(crate) fn to(coin: OutPoint, indexes: &[u32]) -> Transaction {
    pay(coin, &indexes.iter().map(|index| (0, *index, 1_000)).collect::<Vec<_>>())
}

/// What a subscription tells before it has to wait.
pub(crate) fn resumed(api: &Api, document: &str) -> Vec<Value> {
    EventReader::begin(api, document).more()
}

/// The indexes of the scripts that each event is about.
fn indexes(events: &[Value]) -> Vec<Vec<u64>> {
    let of = |event: &Value| {
        let matches = event["matches"].as_array().unwrap().iter();
        matches.map(|found| found["derived"]["index"].as_u64().unwrap()).collect()
    };
    events.iter().map(of).collect()
}

fn backfilled(events: &[Value]) -> Vec<bool> {
    events.iter().map(|event| event["isBackfill"].as_bool().unwrap()).collect()
}

/// A subscription that resumes behind any of these events receives what follows it.
fn assert_resumes(api: &Api, arguments: &str, events: &[Value]) {
    for (number, event) in (1..).zip(events) {
        let after = format!("{arguments} after: {}", event["cursor"]);
        let rest = EventReader::begin(api, &document(&after)).more();
        assert_eq!(short(&rest), short(&events[number..]), "behind event {number} of {:#?}", short(events));
        let parts = |events: &[Value]| (indexes(events), backfilled(events));
        assert_eq!(parts(&rest), parts(&events[number..]), "behind event {number}");
        if let Some(first) = rest.first() {
            assert_eq!(first["seq"].as_u64(), event["seq"].as_u64().map(|seq| seq + 1));
        }
    }
}

#[test]
fn a_script_that_is_used_moves_the_gap_on() {
    let (mut chain, coins) = chain_with_coins(5);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    assert_eq!(events.more(), Vec::<Value>::new());
    let payments = [(0, vec![2]), (1, vec![5]), (2, vec![8])].map(|(coin, at)| to(coins[coin], &at));
    api.arrive([&payments[0]]);
    let mut all = events.more();
    let derived = json!([{ "descriptorIndex": 0, "derived": {
        "path": "m/84h/1h/0h/0/2", "branch": 0, "index": 2,
        "address": btcgraph::chain::address_of(&script(&wallet(), 0, 2), bitcoin::Network::Regtest),
    } }]);
    assert_eq!((all.len(), &all[0]["matches"], &all[0]["entry"]["net"]), (1, &derived, &json!(1_000)));
    // 5 and 8 are watched only because of the one before
    api.arrive([&payments[1]]);
    api.connect(&chain.mine(vec![payments[0].clone(), payments[1].clone()]).unwrap());
    api.connect(&chain.mine(vec![payments[2].clone()]).unwrap());
    // change is a branch of its own, whose gap has not moved
    let change = pay(coins[3], &[(1, 2, 700)]);
    let behind = pay(coins[4], &[(1, 8, 700)]);
    api.arrive([&change, &behind]);
    all.extend(events.more());
    assert_eq!(
        short(&all),
        [
            event("SEEN", &payments[0]),
            event("SEEN", &payments[1]),
            event("CONFIRMED", &payments[0]),
            event("CONFIRMED", &payments[1]),
            event("CONFIRMED", &payments[2]),
            event("SEEN", &change),
        ]
    );
    assert_eq!(indexes(&all), [[2], [5], [2], [5], [8], [2]]);
    assert_eq!(all[5]["matches"][0]["derived"]["branch"], 1);
    assert_eq!(backfilled(&all), [false; 6]);
    assert_resumes(&api, "", &all);
}

#[test]
fn a_block_that_pays_behind_the_gap_is_sent_whole() {
    let (mut chain, coins) = chain_with_coins(6);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document("depths: [2]"));
    events.more();
    // the later index first, in one transaction with an earlier one, and in the next block of the same change
    let (far, near, next) = (to(coins[0], &[6]), to(coins[1], &[2, 4]), to(coins[2], &[9]));
    let blocks = [vec![far.clone(), near.clone()], vec![next.clone()]].map(|block| chain.mine(block).unwrap());
    api.change(0, blocks.iter().map(AsRef::as_ref));
    let all = events.more();
    let expected = [
        event("CONFIRMED", &far),
        event("CONFIRMED", &near),
        event("CONFIRMED", &next),
        at_depth(&far, 2),
        at_depth(&near, 2),
    ];
    assert_eq!(short(&all), expected);
    assert_eq!(indexes(&all), [vec![6], vec![2, 4], vec![9], vec![6], vec![2, 4]]);
    assert_resumes(&api, "depths: [2]", &all);
    // and so is a mempool in which the later index arrived first
    let (far, near) = (to(coins[3], &[14]), to(coins[4], &[11]));
    api.arrive([&far, &near]);
    assert_eq!(short(&events.more()), [event("SEEN", &far), event("SEEN", &near)]);
}

#[test]
fn history_behind_the_gap_is_sent_when_the_gap_moves() {
    let (mut chain, coins) = chain_with_coins(6);
    // behind the gap: one is mined before the subscription begins, one after, one waits, one leaves
    let early = to(coins[0], &[4]);
    chain.mine(vec![early.clone()]).unwrap();
    let mut api = Api::of_chain(&chain);
    let arguments = "depths: [2, 3, 9]";
    let mut events = EventReader::begin(&api, &document(arguments));
    events.more();
    let [mined, waiting, gone] = [(1, 5), (2, 4), (3, 3)].map(|(coin, at)| to(coins[coin], &[at]));
    api.arrive([&waiting, &gone]);
    api.depart(&gone.compute_txid(), Departure::Evicted);
    api.connect(&chain.mine(vec![mined.clone()]).unwrap());
    assert_eq!(events.more(), Vec::<Value>::new());
    let near = to(coins[4], &[2]);
    api.arrive([&near]);
    let mut all = events.more();
    assert_eq!(
        short(&all),
        [
            event("CONFIRMED", &early),
            event("CONFIRMED", &mined),
            at_depth(&early, 2),
            event("SEEN", &waiting),
            event("SEEN", &near),
        ]
    );
    assert_eq!(backfilled(&all), [true, true, true, true, false]);
    assert_resumes(&api, arguments, &all);
    api.connect(&chain.mine(vec![near.clone(), waiting.clone()]).unwrap());
    all.extend(events.more());
    let mined_later =
        [event("CONFIRMED", &near), event("CONFIRMED", &waiting), at_depth(&mined, 2), at_depth(&early, 3)];
    assert_eq!(short(&all[5..]), mined_later);
    assert_resumes(&api, arguments, &all[3..]);
    // of the history what waited and was mined since comes with its block only
    for (number, heard) in (1..).zip(&all[..3]) {
        let rest = resumed(&api, &document(&format!("{arguments} after: {}", heard["cursor"])));
        let expected = short(&all[number..]).into_iter().filter(|sent| *sent != event("SEEN", &waiting));
        assert_eq!(short(&rest), expected.collect::<Vec<_>>(), "behind event {number}");
    }
}

#[test]
fn a_reorganisation_does_not_move_the_gap_back() {
    let (mut chain, coins) = chain_with_coins(4);
    let fork = chain.tip();
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    let mut all = events.more();
    let [near, middle, far] = [(0, 2), (1, 5), (2, 8)].map(|(coin, at)| to(coins[coin], &[at]));
    let old = chain.mine(vec![near.clone(), middle.clone()]).unwrap();
    api.connect(&old);
    let new = branch(&mut chain, fork, 2, std::slice::from_ref(&far));
    // the newest state has no payment to 2 and to 5
    api.change(1, new.iter().map(AsRef::as_ref));
    all.extend(events.more());
    let expected = [
        event("CONFIRMED", &near),
        event("CONFIRMED", &middle),
        event("UNCONFIRMED_BY_REORG", &middle),
        event("UNCONFIRMED_BY_REORG", &near),
        event("CONFIRMED", &far),
    ];
    assert_eq!(short(&all), expected);
    assert_resumes(&api, "", &all);
    // who comes now, without a cursor, finds a wallet whose gap is in front of it
    let again = to(coins[3], &[7]);
    api.arrive([&again]);
    assert_eq!(resumed(&api, &document("")), Vec::<Value>::new());
    assert_eq!(short(&events.more()), [event("SEEN", &again)]);
}

#[test]
fn a_payment_that_left_before_it_was_sent_moves_the_gap() {
    let (chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    events.more();
    let (near, far) = (to(coins[0], &[2]), to(coins[1], &[5]));
    // all of it before the stream looks
    api.arrive([&near]);
    api.depart(&near.compute_txid(), Departure::Evicted);
    api.arrive([&far]);
    api.depart(&far.compute_txid(), Departure::Expired);
    let all = events.more();
    assert_eq!(
        short(&all),
        [
            event("SEEN", &near),
            left("EVICTED", &near, "SIZE_LIMIT", &Value::Null),
            event("SEEN", &far),
            left("EVICTED", &far, "EXPIRED", &Value::Null),
        ]
    );
    assert_resumes(&api, "", &all);
}

#[test]
fn a_wallet_used_beyond_the_gap_while_the_client_slept_loses_nothing() {
    let (mut chain, coins) = chain_with_coins(8);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    events.more();
    let first = [to(coins[0], &[0]), to(coins[1], &[1])];
    api.connect(&chain.mine(first.to_vec()).unwrap());
    let heard = events.more();
    assert_eq!(short(&heard), [event("CONFIRMED", &first[0]), event("CONFIRMED", &first[1])]);
    let [a, b, c, d] = [(2, 4), (3, 7), (4, 5), (5, 9)].map(|(coin, at)| to(coins[coin], &[at]));
    api.connect(&chain.mine(vec![c.clone(), b.clone()]).unwrap());
    api.connect(&chain.mine(vec![a.clone()]).unwrap());
    api.arrive([&d]);
    // behind a part of a block the rest of it comes first
    let after = |event: &Value| document(&format!("after: {}", event["cursor"]));
    let rest = [event("CONFIRMED", &c), event("CONFIRMED", &b), event("CONFIRMED", &a), event("SEEN", &d)];
    assert_eq!(short(&resumed(&api, &after(&heard[0])))[1..], rest);
    assert_eq!(short(&resumed(&api, &after(&heard[1]))), rest);
    // a server that is started anew, or another one, has no mempool of then
    let mut other = Api::of_chain(&chain);
    other.arrive([&d]);
    let restarted = resumed(&other, &after(&heard[0]));
    assert_eq!(short(&restarted)[..4], [&[event("CONFIRMED", &first[1])], &rest[..3]].concat());
    assert_eq!(short(&restarted)[4..], [mark("GAP"), event("SEEN", &d), mark("GAP_END")]);
    for (number, event) in restarted.iter().enumerate().skip(4) {
        assert_eq!(short(&resumed(&other, &after(event))), short(&restarted)[number + 1..], "behind event {number}");
    }
    assert_eq!(restarted[0]["seq"], 2);
}

#[test]
fn a_query_and_then_a_subscription_leave_no_gap() {
    let (mut chain, coins) = chain_with_coins(6);
    let before = [to(coins[0], &[0]), to(coins[1], &[6])];
    chain.mine(before.to_vec()).unwrap();
    let mut api = Api::of_chain(&chain);
    let cursor = api.data("{ snapshot { cursor } }")["snapshot"]["cursor"].clone();
    let [near, far] = [(2, 3), (3, 9)].map(|(coin, at)| to(coins[coin], &[at]));
    api.connect(&chain.mine(vec![near.clone(), far.clone()]).unwrap());
    let all = resumed(&api, &document(&format!("after: {cursor}")));
    // the payment to 6 stood behind the gap of the query
    assert_eq!(short(&all), [event("CONFIRMED", &before[1]), event("CONFIRMED", &near), event("CONFIRMED", &far)]);
    assert_eq!(backfilled(&all), [true, false, false]);
}

#[test]
fn what_pays_old_and_new_scripts_is_sent_again_as_a_whole() {
    let (mut chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    events.more();
    let both = to(coins[0], &[0, 5]);
    api.connect(&chain.mine(vec![both.clone()]).unwrap());
    let before = events.more();
    assert_eq!((&before[0]["entry"]["net"], indexes(&before)), (&json!(1_000), vec![vec![0]]));
    let near = to(coins[1], &[3]);
    api.arrive([&near]);
    let after = events.more();
    assert_eq!(short(&after), [event("CONFIRMED", &both), event("SEEN", &near)]);
    assert_eq!((&after[0]["entry"]["net"], indexes(&after)), (&json!(2_000), vec![vec![0, 5], vec![3]]));
}

#[test]
fn a_spend_of_a_script_moves_the_gap_as_a_payment_does() {
    let (mut chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    events.more();
    let payment = pay(coins[0], &[(0, 2, 50_000)]);
    let spend = crate::api::ledgers::descriptors::spend_wallet(
        OutPoint { txid: payment.compute_txid(), vout: 0 },
        vec![TxOut { value: sat(40_000), script_pubkey: script(&wallet(), 1, 1) }],
    );
    api.connect(&chain.mine(vec![payment.clone(), spend.clone()]).unwrap());
    let far = pay(coins[1], &[(1, 4, 900)]);
    api.arrive([&far]);
    let all = events.more();
    assert_eq!(short(&all), [event("CONFIRMED", &payment), event("CONFIRMED", &spend), event("SEEN", &far)]);
    assert_eq!(all[1]["entry"]["net"], -10_000);
    let places = |event: &Value| {
        let matches = event["matches"].as_array().unwrap().iter();
        matches.map(|found| json!([found["derived"]["branch"], found["derived"]["index"]])).collect::<Vec<_>>()
    };
    assert_eq!(places(&all[1]), [json!([0, 2]), json!([1, 1])]);
}

#[test]
fn descriptors_are_watched_beside_addresses_and_each_other() {
    let (chain, coins) = chain_with_coins(4);
    let mut api = Api::of_chain(&chain);
    let fixed = format!("raw({})", script(&wallet(), 0, 40).to_hex_string());
    let receive = wallet().replace("<0;1>", "0");
    let descriptors = json!([{ "text": fixed, "gapLimit": 1 }, { "text": receive, "gapLimit": 2 }, { "text": wallet(), "gapLimit": 3 }]);
    let mut events = EventReader::begin(&api, &watching(&descriptors, ""));
    events.more();
    let both = to(coins[0], &[1, 40]);
    api.arrive([&both]);
    let all = events.more();
    let places = all[0]["matches"].as_array().unwrap().iter().map(|found| {
        json!([
            found["descriptorIndex"],
            found["derived"]["branch"],
            found["derived"]["index"],
            found["derived"]["path"]
        ])
    });
    assert_eq!(
        places.collect::<Vec<_>>(),
        [json!([0, 0, 0, null]), json!([1, 0, 1, "m/84h/1h/0h/0/1"]), json!([2, 0, 1, "m/84h/1h/0h/0/1"]),]
    );
    assert_eq!(all[0]["entry"]["net"], 2_000);
    let after = format!("after: {}", all[0]["cursor"]);
    assert_eq!(resumed(&api, &watching(&descriptors, &after)), Vec::<Value>::new());
    // another order is another set, whose ends would be others
    let reversed = json!(descriptors.as_array().unwrap().iter().rev().collect::<Vec<_>>());
    let refused = resumed(&api, &watching(&reversed, &after));
    assert_eq!(refused[0]["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
}

#[test]
fn unconfirmed_transactions_of_a_descriptor_are_sent() {
    let (chain, coins) = chain_with_coins(6);
    let mut api = Api::of_chain(&chain);
    let document = format!(
        "subscription {{ unconfirmedTransaction(watch: {{ descriptors: [{{ text: {}, gapLimit: 3 }}] }}) {{ txid }} }}",
        json!(wallet())
    );
    let before = to(coins[0], &[1]);
    api.arrive([&before]);
    let mut events = EventReader::begin(&api, &document);
    assert_eq!(events.more(), Vec::<Value>::new());
    let [far, other, near, next] =
        [(1, vec![5]), (2, vec![30]), (3, vec![3]), (4, vec![8])].map(|(coin, at)| to(coins[coin], &at));
    api.arrive([&far, &other]);
    assert_eq!(events.more(), Vec::<Value>::new(), "they are behind the gap");
    api.arrive([&near, &next]);
    let txids = |sent: &[&Transaction]| {
        sent.iter().map(|sent| json!({ "txid": sent.compute_txid().to_string() })).collect::<Vec<_>>()
    };
    assert_eq!(events.more(), txids(&[&far, &near, &next]));
}

#[test]
fn other_transactions_are_not_sent() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    events.more();
    let other = spend_outputs(PAYER, &[coins[0]], &[PAYER.output(sat(100_000))], vec![PAYER.output(sat(99_000))]);
    api.arrive([&other]);
    api.connect(&chain.mine(vec![other]).unwrap());
    assert_eq!(events.more(), Vec::<Value>::new());
}
