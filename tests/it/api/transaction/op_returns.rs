//! OP_RETURN outputs by the beginning of their data.

use async_graphql::{Executor, Request};
use bitcoin::script::PushBytesBuf;
use bitcoin::{Amount, ScriptBuf, TxOut};
use btcgraph::api::{Freshness, ReadSet};
use btcgraph::index::OptionalTables;
use btcgraph::sim::{Owner, ScriptKind};
use serde_json::{Value, json};

use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::{Api, spend};

const PAYER: Owner = Owner::new(ScriptKind::BareTrue, 1);

fn output(data: &[u8]) -> TxOut {
    let data = PushBytesBuf::try_from(data.to_vec()).unwrap();
    TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::new_op_return(data) }
}

#[test]
fn op_returns_are_found_by_the_beginning_of_their_data_with_their_table() {
    let (mut chain, coins) = chain_with_coins(3);
    let mut expected = Vec::new();
    for (coin, data) in coins.iter().zip([["omni-one", "other"], ["omnibus", "omni-two"], ["om", "omni-one-more"]]) {
        let payment = spend(&chain, PAYER, &[*coin], data.iter().map(|data| output(data.as_bytes())).collect());
        let txid = payment.compute_txid();
        let block = chain.mine(vec![payment]).unwrap();
        let places = (0..).zip(data).map(|(vout, data)| (data.to_owned(), vout, txid, block.block_hash()));
        expected.extend(places);
    }
    let mut api = Api::of_chain(&chain);
    let ask = |arguments: &str| {
        format!(
            "{{ opReturns({arguments}) {{ edges {{ cursor node {{ vout opReturn {{ utf8 }} transaction {{ txid block {{ \
             hash height }} }} }} }} pageInfo {{ hasNextPage }} }} }}"
        )
    };
    let omni = "prefix: \"6f6d6e69\"";
    let error = api.ask(&ask(omni))["errors"][0]["extensions"].clone();
    assert_eq!(error, json!({ "code": "FEATURE_DISABLED", "feature": "OP_RETURNS", "setting": "index.op_returns" }));
    api.switch_tables(OptionalTables { op_returns: true, ..OptionalTables::default() }, u32::MAX);
    let page = |arguments: &str| {
        let page = api.data(&ask(arguments))["opReturns"].clone();
        let edges = page["edges"].as_array().unwrap().clone();
        let cursor = edges.last().map_or(Value::Null, |edge| edge["cursor"].clone());
        let nodes: Vec<_> = edges.iter().map(|edge| edge["node"].clone()).collect();
        (nodes, cursor, page["pageInfo"]["hasNextPage"] == json!(true))
    };
    let named = |prefix: &str| {
        let found = expected.iter().filter(|(data, ..)| data.starts_with(prefix)).map(|(data, vout, txid, block)| {
            let height = chain.active_blocks().position(|it| it.block_hash() == *block).unwrap();
            json!({ "vout": vout, "opReturn": { "utf8": data }, "transaction": { "txid": txid.to_string(),
                "block": { "hash": block.to_string(), "height": height } } })
        });
        found.collect::<Vec<_>>()
    };
    let oldest_first = named("omni");
    assert_eq!(oldest_first.len(), 4);
    let newest_first: Vec<_> = oldest_first.iter().rev().cloned().collect();
    assert_eq!(page(omni).0, newest_first);
    assert_eq!(page(&format!("{omni}, order: ASC")).0, oldest_first);
    // longer than what the table has, as long as it, and shorter than the data
    for (prefix, hex) in [("omni-one-", "6f6d6e692d6f6e652d"), ("omni-one", "6f6d6e692d6f6e65"), ("omn", "6f6d6e")] {
        assert_eq!(page(&format!("prefix: \"{hex}\", order: ASC")).0, named(prefix), "{prefix}");
    }
    assert_eq!(page("prefix: \"6f6d6e692d6f6e6500\"").0, Vec::<Value>::new());
    // pages, which may end within a transaction
    for order in ["ASC", "DESC"] {
        let all = if order == "ASC" { &oldest_first } else { &newest_first };
        let (first, cursor, more) = page(&format!("{omni}, order: {order}, first: 2"));
        assert_eq!((first, more), (all[..2].to_vec(), true));
        let (rest, _, more) = page(&format!("{omni}, order: {order}, first: 2, after: {cursor}"));
        assert_eq!((rest, more), (all[2..].to_vec(), false));
        assert_eq!(page(&format!("{omni}, order: {order}, last: 2, before: {cursor}")).0, all[..1].to_vec());
        assert_eq!(page(&format!("{omni}, order: {order}, last: 3")).0, all[1..].to_vec());
    }
    // blocks
    assert_eq!(page(&format!("{omni}, range: {{ lastBlocks: 1 }}")).0, newest_first[..1].to_vec());
    assert_eq!(page(&format!("{omni}, range: {{ lastBlocks: 2 }}")).0, newest_first[..3].to_vec());
    for (prefix, size) in [("", "0 bytes"), ("6f", "1 byte"), ("6f6d", "2 bytes")] {
        let answer = api.ask(&ask(&format!("prefix: \"{prefix}\"")));
        assert_eq!(answer["errors"][0]["message"], format!("prefix has {size}: give at least 3"));
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
    }
}

#[test]
fn a_page_of_op_returns_lasts_no_longer_than_the_tip() {
    let (chain, _) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    api.switch_tables(OptionalTables { op_returns: true, ..OptionalTables::default() }, u32::MAX);
    let freshness = |document: &str| {
        let reads = ReadSet::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let response = runtime.block_on(api.schema.execute(Request::new(document).data(reads.clone())));
        assert!(response.errors.is_empty(), "{:?}", response.errors);
        reads.freshness(3)
    };
    let range = "range: { heights: { to: 20 } }";
    assert_eq!(freshness(&format!("{{ blocks({range}) {{ totalCount }} }}")), Freshness::Immutable);
    // where such a page ends is for the settings to say
    let page = format!("{{ opReturns(prefix: \"6f6d6e69\", {range}) {{ nodes {{ vout }} }} }}");
    assert_eq!(freshness(&page), Freshness::UntilNextTip(chain.tip()));
}

#[test]
fn an_op_return_shows_its_bytes_its_pushes_and_its_text() {
    let shown = |payload: &str, pushes: &[&str], utf8: Option<&str>| json!({ "opReturn": { "payload": payload, "pushes": pushes, "data": pushes.concat(), "utf8": utf8 } });
    let expected = [
        ("6a0568656c6c6f", shown("0568656c6c6f", &["68656c6c6f"], Some("hello"))),
        // a letter of two bytes, one in each push
        ("6a01c301a9", shown("01c301a9", &["c3", "a9"], Some("\u{e9}"))),
        ("6a02c328", shown("02c328", &["c328"], None)),
        // an opcode that pushes a number has no data (runes)
        ("6a5d02abcd", shown("5d02abcd", &["abcd"], None)),
        ("6a", shown("", &[], None)),
        // a push that is cut short
        ("6a0268690561", shown("0268690561", &["6869"], Some("hi"))),
        ("6a4c0161", shown("4c0161", &["61"], Some("a"))),
        ("51", json!({ "opReturn": null })),
    ];
    let (mut chain, coins) = chain_with_coins(1);
    let outputs = expected.iter().map(|(script, _)| TxOut {
        value: Amount::from_sat(u64::from(*script == "51")),
        script_pubkey: ScriptBuf::from_hex(script).unwrap(),
    });
    let payment = spend(&chain, PAYER, &[coins[0]], outputs.collect());
    let txid = payment.compute_txid();
    chain.mine(vec![payment]).unwrap();
    let found = Api::of_chain(&chain).data(&format!(
        "{{ transaction(txid: \"{txid}\") {{ outputs(first: {}) {{ nodes {{ opReturn {{ payload pushes data utf8 }} }} }} }} }}",
        expected.len()
    ));
    let expected: Vec<_> = expected.into_iter().map(|(_, shown)| shown).collect();
    assert_eq!(found["transaction"]["outputs"]["nodes"], json!(expected));
}
