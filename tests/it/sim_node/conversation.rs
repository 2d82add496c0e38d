//! The same questions asked of both nodes, and every word of the answers compared.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use serde_json::{Value, json};

use super::answers::{Comparison, Exceptions};
use super::pair::Pair;

const EXCEPTIONS: Exceptions = Exceptions {
    left_out: &[
        ("asm", "a script in other words, which nobody here reads"),
        ("desc", "a descriptor, which nobody here reads"),
        ("localservices", "there are no peers to serve"),
        ("localservicesnames", "there are no peers to serve"),
        ("networks", "there are no peers to reach"),
        ("localaddresses", "there are no peers to reach"),
        ("relayfee", "told by getmempoolinfo"),
        ("incrementalfee", "told by getmempoolinfo"),
    ],
    of_knots: &[("txcount", "repeats nTx"), ("header_version", "a part of the version")],
    own: &[
        ("result.version", "each has its own version"),
        ("result.subversion", "each has its own name"),
        ("result.networkactive", "the simulated node has no network"),
        ("disk_size", "the simulated node keeps the unspent outputs in memory"),
    ],
};

/// A question in the old manner.
fn call(method: &str, params: &Value) -> String {
    json!({"method": method, "params": params, "id": 1}).to_string()
}

#[test]
fn every_method_that_our_client_calls_is_answered_as_by_a_real_node_on_good_and_bad_input() {
    let Some(pair) = Pair::start() else { return };
    let at = |height: u32| pair.real.must("getblockhash", &[json!(height)]);
    let (tip, genesis, unknown) = (at(162), at(0), json!(BlockHash::all_zeros()));
    let stale = json!(pair.stale);
    let txid = pair.real.must("getblock", &[at(158)])["tx"][1].clone();
    let coinbase = pair.real.must("getblock", &[at(10)])["tx"][0].clone();
    let genesis_coinbase = json!("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b");
    let no_hex = json!("g".repeat(64));

    let mut questions = vec![
        ("getblockchaininfo", json!([])),
        ("getblockchaininfo", json!([1])),
        ("getnetworkinfo", json!([])),
        ("getbestblockhash", json!([])),
        ("getblockcount", json!([])),
        ("getchaintips", json!([])),
        ("getzmqnotifications", json!([])),
        ("gettxoutsetinfo", json!([])),
        ("gettxoutsetinfo", json!(["hash_serialized_3"])),
        ("gettxoutsetinfo", json!(["none"])),
        ("gettxoutsetinfo", json!(["muhash"])),
        ("gettxoutsetinfo", json!([null, null, null])),
        ("gettxoutsetinfo", json!(["other"])),
        ("gettxoutsetinfo", json!(["none", 5])),
        ("gettxoutsetinfo", json!([5])),
        ("getrawtransaction", json!([txid])),
        ("getrawtransaction", json!([txid, false, at(158)])),
        ("getrawtransaction", json!([txid, true, at(158)])),
        ("getrawtransaction", json!([txid, 2, at(158)])),
        ("getrawtransaction", json!([coinbase, 2, at(10)])),
        ("getrawtransaction", json!([txid, "1", at(158)])),
        ("getrawtransaction", json!([txid, false, genesis])),
        ("getrawtransaction", json!([txid, false, unknown])),
        ("getrawtransaction", json!([txid, false, "00"])),
        ("getrawtransaction", json!(["00"])),
        ("getrawtransaction", json!([genesis_coinbase])),
        ("getrawtransaction", json!([genesis_coinbase, 0, genesis])),
        ("nosuchmethod", json!([])),
    ];
    for height in [json!(0), json!(162), json!(163), json!(-1), json!(1.5), json!("1"), json!(null), json!(1_u64 << 40)]
    {
        questions.push(("getblockhash", json!([height])));
    }
    for params in [json!([]), json!([1, 2]), json!({"height": 1}), json!({"depth": 1})] {
        questions.push(("getblockhash", params));
    }
    for hash in [&tip, &genesis, &stale, &unknown, &at(100), &no_hex, &json!("00"), &json!(5)] {
        questions.push(("getblockheader", json!([hash])));
        questions.push(("getblockheader", json!([hash, false])));
        questions.push(("getblock", json!([hash])));
    }
    questions.push(("getblockheader", json!([tip, 0])));
    questions.push(("getblockheader", json!([5, 0])));
    for verbosity in
        [json!(-1), json!(0), json!(1), json!(2), json!(3), json!(9), json!(false), json!(true), json!("1")]
    {
        for hash in [&at(158), &genesis, &stale] {
            questions.push(("getblock", json!([hash, verbosity])));
        }
    }
    for height in 100..=162 {
        questions.push(("getblock", json!([at(height), 3])));
    }

    let mut comparison = Comparison::default();
    for (method, params) in &questions {
        let (sim, real) = pair.post(&call(method, params));
        comparison.compare(&format!("{method} {params}"), &sim, &real, &EXCEPTIONS);
    }
    comparison.assert_equal(&EXCEPTIONS, pair.real_is_knots());
}

#[test]
fn questions_are_framed_as_by_a_real_node_alone_and_in_batches_in_both_manners() {
    let Some(pair) = Pair::start() else { return };
    let mut comparison = Comparison::default();
    for body in [
        r#"{"method":"getblockcount","id":1}"#,
        r#"{"method":"getblockcount","id":"a","params":null}"#,
        r#"{"method":"getblockcount"}"#,
        r#"{"jsonrpc":"1.0","method":"getblockhash","params":[999],"id":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"getblockcount","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"getblockhash","params":[999],"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"nosuchmethod","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"getblockcount","id":null}"#,
        r#"{"jsonrpc":"2.0","method":"getblockcount"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"[7,{"method":"getblockcount","id":1},{"method":"nosuchmethod","id":2},{"jsonrpc":"2.0","method":"getblockhash","params":[],"id":3},{"jsonrpc":"2.0","method":"getblockcount"},{"jsonrpc":"2.0","id":4}]"#,
        r#"[{"jsonrpc":"2.0","method":"getblockcount"}]"#,
        "[]",
        "{}",
        r#"{"id":1}"#,
        r#"{"method":7,"id":1}"#,
        r#"{"method":"getblockhash","params":7,"id":1}"#,
        "7",
        "",
        "{",
        "\u{feff}",
    ] {
        let (sim, real) = pair.post(body);
        comparison.compare(body, &sim, &real, &EXCEPTIONS);
    }
    for path in ["/", "/other"] {
        let (sim, real) = pair.get(path);
        comparison.compare(path, &sim, &real, &EXCEPTIONS);
    }
    comparison.assert_no_difference();
}

#[test]
fn every_path_of_rest_that_our_client_asks_for_is_answered_as_by_a_real_node() {
    let Some(pair) = Pair::start() else { return };
    let at = |height: u32| pair.real.must("getblockhash", &[json!(height)]).as_str().unwrap().to_owned();
    let (tip, genesis, unknown, stale) = (at(162), at(0), BlockHash::all_zeros(), pair.stale);
    let mut paths: Vec<String> = [
        "chaininfo.json",
        "chaininfo.bin",
        "chaininfo",
        "blockhashbyheight/0.bin",
        "blockhashbyheight/162.hex",
        "blockhashbyheight/5.json",
        "blockhashbyheight/5",
        "blockhashbyheight/163.bin",
        "blockhashbyheight/-1.bin",
        "blockhashbyheight/x.bin",
        "nosuchpath",
        "blockpart/x.bin",
        "",
    ]
    .map(str::to_owned)
    .into();
    for count in ["1", "5", "2000", "0", "2001", "x", "-1"] {
        paths.push(format!("headers/{count}/{genesis}.bin"));
    }
    paths.push(format!("headers/{}.bin?count=7", at(150)));
    paths.push(format!("headers/{}.hex", at(150)));
    for hash in [&tip, &genesis, &at(158), &stale.to_string(), &unknown.to_string(), &"00".to_owned()] {
        paths.push(format!("headers/3/{hash}.bin"));
        for kind in ["block", "spenttxouts"] {
            paths.extend(["bin", "hex"].map(|format| format!("{kind}/{hash}.{format}")));
        }
    }
    paths.extend(["json", "xml"].map(|format| format!("headers/3/{}.{format}", at(158))));
    for kind in ["block", "block/notxdetails", "spenttxouts"] {
        paths.push(format!("{kind}/{}.json", at(158)));
    }
    paths.push(format!("block/{tip}"));
    paths.extend((100..=162).map(|height| format!("spenttxouts/{}.bin", at(height))));

    let mut comparison = Comparison::default();
    let lacks_spent_outputs = pair.real_lacks_spent_outputs();
    for path in paths.into_iter().filter(|path| !(lacks_spent_outputs && path.starts_with("spenttxouts"))) {
        let (sim, real) = pair.get(&format!("/rest/{path}"));
        comparison.compare(&path, &sim, &real, &EXCEPTIONS);
    }
    comparison.assert_no_difference();
}
