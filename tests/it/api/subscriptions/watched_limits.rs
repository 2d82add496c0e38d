//! What watched descriptors may cost: limits, what a stream derives, and cursors that no server has made.

use btcgraph::chain::descriptor::OutputDescriptor;
use btcgraph::limits::Limits;
use serde_json::{Value, json};

use super::ledger_events::{EventReader, event, short};
use super::watched_descriptors::{document, resumed, to, watching};
use crate::api::ledgers::descriptors::{PRIVATE, wallet};
use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::Api;

/// The code and the message with which a subscription is refused.
fn refused(api: &Api, document: &str) -> (String, String) {
    let reported = resumed(api, document);
    let error = reported[0]["errors"][0].clone();
    assert_eq!(reported.len(), 1, "{reported:?}");
    (error["extensions"]["code"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
}

#[test]
fn what_is_no_descriptor_or_too_much_is_refused() {
    let (chain, coins) = chain_with_coins(2);
    let limits = Limits { derived_scripts: 20, watched_derived_scripts: 30, gap_limit: 50, ..Limits::default() };
    let mut api = Api::of_chain_within(&chain, limits);
    let of = |text: &str, gap_limit: i32| watching(&json!([{ "text": text, "gapLimit": gap_limit }]), "");
    for (document, code, words) in [
        (watching(&json!([]), ""), "BAD_USER_INPUT", "watch has no address, script or descriptor: give at least one"),
        (of("hello", 3), "BAD_USER_INPUT", "watch.descriptors[0].text is not a descriptor of this network"),
        (of(&format!("wpkh({PRIVATE}/0/*)"), 3), "BAD_USER_INPUT", "the text contains a private key"),
        (of(&"(".repeat(9_000), 3), "BAD_USER_INPUT", "watch.descriptors[0]"),
        (of(&"x".repeat(10_001), 3), "BAD_USER_INPUT", "at most 10000 bytes"),
        (of(&wallet(), 0), "BAD_USER_INPUT", "watch.descriptors[0].gapLimit is 0"),
        (of(&wallet(), 51), "QUERY_LIMIT_EXCEEDED", "gapLimit"),
        (of(&wallet(), 11), "QUERY_LIMIT_EXCEEDED", "derivedScripts"),
        (
            watching(&json!(vec![json!({ "text": "raw(51)", "gapLimit": 1 }); 33]), ""),
            "QUERY_LIMIT_EXCEEDED",
            "watchedDescriptors",
        ),
    ] {
        let (found, message) = refused(&api, &document);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(words), "{message}");
        assert!(!message.contains("tprv"), "{message}");
    }
    let few = Limits { watched_descriptors: 2, watched_branches: 3, ..Limits::default() };
    let small = Api::of_chain_within(&chain, few);
    let limits = small.data("{ server { limits { subscriptions { watchedDescriptors watchedBranches } } } }");
    assert_eq!(limits["server"]["limits"]["subscriptions"], json!({ "watchedDescriptors": 2, "watchedBranches": 3 }));
    for (texts, which, limit, actual) in
        [(vec!["raw(51)"; 3], "watchedDescriptors", 2, 3), (vec![wallet().as_str(); 2], "watchedBranches", 3, 4)]
    {
        let descriptors: Vec<_> = texts.iter().map(|text| json!({ "text": text, "gapLimit": 3 })).collect();
        let reported = resumed(&small, &watching(&json!(descriptors), ""));
        let expected = json!({ "code": "QUERY_LIMIT_EXCEEDED", "argument": "watch.descriptors", "which": which, "limit": limit, "actual": actual });
        assert_eq!(reported[0]["errors"][0]["extensions"], expected);
    }
    let within = json!([{ "text": wallet(), "gapLimit": 3 }, { "text": "raw(51)", "gapLimit": 3 }]);
    assert_eq!(resumed(&small, &watching(&within, "")), Vec::<Value>::new());
    // all streams together watch 30 scripts
    let mut first = EventReader::begin(&api, &of(&wallet(), 8));
    assert_eq!(first.more(), Vec::<Value>::new());
    assert_eq!(refused(&api, &of(&wallet(), 8)).0, "RESOURCE_EXHAUSTED");
    // a stream that needs more than it may have ends
    api.arrive([&to(coins[0], &[7])]);
    assert_eq!(first.more()[0]["errors"][0]["extensions"]["code"], "QUERY_LIMIT_EXCEEDED");
    drop(first);
    assert_eq!(resumed(&api, &of(&wallet(), 2)), Vec::<Value>::new(), "its scripts are free again");
}

#[test]
fn a_subscription_costs_what_it_derives_as_it_begins() {
    let (chain, _) = chain_with_coins(1);
    // one batch of 64 scripts for each branch, and a key
    for (complexity, is_refused) in [(1_329, true), (1_330, false)] {
        let api = Api::of_chain_within(&chain, Limits { complexity, ..Limits::default() });
        let reported = resumed(&api, &document(""));
        assert_eq!(
            reported.iter().any(|event| event["errors"][0]["extensions"]["code"] == "QUERY_LIMIT_EXCEEDED"),
            is_refused,
            "{reported:?}"
        );
    }
}

#[test]
fn a_stream_pays_for_what_it_derives_later() {
    let (chain, coins) = chain_with_coins(2);
    // every third index up to 62, so that the second batch of the receive branch is needed
    let far = to(coins[0], &(2..=62).step_by(3).collect::<Vec<_>>());
    for (complexity, is_refused) in [(1_969, true), (1_970, false)] {
        let mut api = Api::of_chain_within(&chain, Limits { complexity, ..Limits::default() });
        let cursor = api.data("{ snapshot { cursor } }")["snapshot"]["cursor"].clone();
        let mut running = EventReader::begin(&api, &document(""));
        assert_eq!(running.more(), Vec::<Value>::new());
        api.arrive([&far]);
        // neither a stream that runs nor a cursor of before has it for less
        for reported in [running.more(), resumed(&api, &document(&format!("after: {cursor}")))] {
            let code = &reported[0]["errors"][0]["extensions"]["code"];
            assert_eq!((reported.len(), code == "QUERY_LIMIT_EXCEEDED"), (1, is_refused), "{reported:?}");
        }
    }
}

#[test]
fn no_cursor_has_the_server_derive_without_end() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    events.more();
    api.connect(&chain.mine(vec![to(coins[0], &[0])]).unwrap());
    let cursor = events.more()[0]["cursor"].as_str().unwrap().to_owned();
    assert!(cursor.len() < 120, "{cursor}");
    // the seal is no secret: a cursor that says other ends is made as the server does
    let parsed = OutputDescriptor::parse(&wallet(), bitcoin::Network::Regtest).unwrap();
    for (ends, code) in [
        (vec![1 << 31, 1 << 31], "QUERY_LIMIT_EXCEEDED"),
        (vec![u32::MAX, 3], "BAD_USER_INPUT"),
        (vec![0, 3], "BAD_USER_INPUT"),
        (vec![4], "BAD_USER_INPUT"),
        (vec![4, 3, 3], "BAD_USER_INPUT"),
    ] {
        let forged = forge(&cursor, parsed.text(), 0, &ends, &[]);
        assert_eq!(refused(&api, &document(&format!("after: \"{forged}\""))).0, code, "{ends:?}");
    }
    let same = forge(&cursor, parsed.text(), 0, &[4, 3], &[]);
    assert_eq!(same, cursor, "the seal is made as the server makes it");
    let fewer = forge(&cursor, parsed.text(), 0, &[1, 1], &[]);
    assert_eq!(short(&resumed(&api, &document(&format!("after: \"{fewer}\"")))), Vec::<Value>::new());
}

#[test]
fn no_cursor_has_the_server_send_history_without_end() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let mut events = EventReader::begin(&api, &document(""));
    events.more();
    let payment = to(coins[0], &[0]);
    api.connect(&chain.mine(vec![payment.clone()]).unwrap());
    let cursor = events.more()[0]["cursor"].as_str().unwrap().to_owned();
    let parsed = OutputDescriptor::parse(&wallet(), bitcoin::Network::Regtest).unwrap();
    let history = [event("CONFIRMED", &payment)];
    let numbers = |height: u32, sent: u32| [height.to_be_bytes(), sent.to_be_bytes()].concat();
    // the ends before, and how much is sent of what is used between them and the ends: stage 1 counts blocks, 2 the mempool
    for (stage, before, place, sent) in [
        (1, [0, 0], numbers(0, 0), &history[..]),
        (1, [1, 1], numbers(0, 0), &[]),
        (1, [0, 0], numbers(u32::MAX, u32::MAX), &[]),
        (1, [0, 0], numbers(0, u32::MAX), &history[..]),
        (2, [0, 0], u64::MAX.to_be_bytes().to_vec(), &[]),
        (2, [0, 0], 0_u64.to_be_bytes().to_vec(), &[]),
    ] {
        let forged = forge(&cursor, parsed.text(), stage, &[4, 3], &[&before[..], &place].concat());
        let reported = resumed(&api, &document(&format!("after: \"{forged}\"")));
        assert_eq!(short(&reported), sent, "{stage} {before:?} {place:?}");
        assert!(reported.iter().all(|event| event["isBackfill"] == true));
    }
    for (stage, rest) in [
        (1, [&[5, 0][..], &numbers(0, 0)].concat()),
        (1, [&[0, 0][..], &[0; 7]].concat()),
        (1, vec![0x80; 40]),
        (2, [&[0, 0][..], &[0; 9]].concat()),
        (3, [&[0, 0][..], &numbers(0, 0)].concat()),
    ] {
        let forged = forge(&cursor, parsed.text(), stage, &[4, 3], &rest);
        assert_eq!(refused(&api, &document(&format!("after: \"{forged}\""))).0, "BAD_USER_INPUT", "{stage} {rest:?}");
    }
}

/// A cursor with another stage, other ends of the branches, and more behind them.
fn forge(cursor: &str, descriptor: &str, stage: u8, ends: &[u32], rest: &[u8]) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use bitcoin::hashes::{Hash, HashEngine, sha256};
    let mut content = URL_SAFE_NO_PAD.decode(cursor).unwrap();
    // version, seq, direction, hash, sent, flag, three numbers
    content.truncate(1 + 8 + 33 + 4 + 1 + 24);
    content.push(stage);
    for end in ends {
        let mut end = *end;
        while end >= 0x80 {
            content.push(u8::try_from(end & 0x7f).unwrap() | 0x80);
            end >>= 7;
        }
        content.push(u8::try_from(end).unwrap());
    }
    content.extend(rest);
    let set = sha256::Hash::hash(&[]);
    let descriptors = sha256::Hash::hash(&[&3_u32.to_be_bytes(), descriptor.as_bytes()].concat());
    let filter = format!("AddressSet:{set} {descriptors} []");
    let mut engine = sha256::Hash::engine();
    for part in [b"ledgerEvents", &b"\0"[..], b"Subscription", b"\0", filter.as_bytes(), b"\0", &content] {
        engine.input(part);
    }
    content.extend(&sha256::Hash::from_engine(engine).to_byte_array()[..8]);
    URL_SAFE_NO_PAD.encode(content)
}
