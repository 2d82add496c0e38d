//! RPC and REST requests to both nodes, with a comparison of the whole responses.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use serde_json::{Value, json};

use super::comparison::{Comparison, Exceptions};
use super::pair::Pair;

const EXCEPTIONS: Exceptions = Exceptions {
    left_out: &[
        ("asm", "a disassembled script, which no client here reads"),
        ("desc", "a descriptor, which no client here reads"),
        ("txrate", "a quotient, which no client here reads"),
        ("localservices", "there are no peers to serve"),
        ("localservicesnames", "there are no peers to serve"),
        ("networks", "there are no peers to reach"),
        ("localaddresses", "there are no peers to reach"),
        ("relayfee", "part of getmempoolinfo"),
        ("incrementalfee", "part of getmempoolinfo"),
    ],
    of_knots: &[("txcount", "repeats nTx"), ("header_version", "a part of the version")],
    own: &[
        ("result.version", "each has its own version"),
        ("result.subversion", "each has its own name"),
        ("result.networkactive", "the simulated node has no network"),
        ("disk_size", "the simulated node keeps the unspent outputs in memory"),
    ],
};

/// A request of the legacy version.
fn call(method: &str, params: &Value) -> String {
    json!({"method": method, "params": params, "id": 1}).to_string()
}

#[test]
fn every_method_answers_valid_and_invalid_input_like_a_node() {
    let Some(pair) = Pair::start() else { return };
    let at = |height: u32| pair.real.must("getblockhash", &[json!(height)]);
    let (tip, genesis, unknown) = (at(162), at(0), json!(BlockHash::all_zeros()));
    let stale = json!(pair.stale);
    let txid = pair.real.must("getblock", &[at(158)])["tx"][1].clone();
    let coinbase = pair.real.must("getblock", &[at(10)])["tx"][0].clone();
    let genesis_coinbase = json!("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b");
    let no_hex = json!("g".repeat(64));

    let mut requests = vec![
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
        requests.push(("getblockhash", json!([height])));
    }
    for params in [json!([]), json!([1, 2]), json!({"height": 1}), json!({"depth": 1})] {
        requests.push(("getblockhash", params));
    }
    for hash in [&tip, &genesis, &stale, &unknown, &at(100), &no_hex, &json!("00"), &json!(5)] {
        requests.push(("getblockheader", json!([hash])));
        requests.push(("getblockheader", json!([hash, false])));
        requests.push(("getblock", json!([hash])));
    }
    for params in [
        json!([]),
        json!([null, at(158)]),
        json!([10, at(158)]),
        json!([0]),
        json!([162]),
        json!([-1]),
        json!([null, genesis]),
    ] {
        requests.push(("getchaintxstats", params));
    }
    for hash in [&stale, &unknown, &no_hex, &json!(5)] {
        requests.push(("getchaintxstats", json!([1, hash])));
    }
    requests.push(("getblockheader", json!([tip, 0])));
    requests.push(("getblockheader", json!([5, 0])));
    for verbosity in
        [json!(-1), json!(0), json!(1), json!(2), json!(3), json!(9), json!(false), json!(true), json!("1")]
    {
        for hash in [&at(158), &genesis, &stale] {
            requests.push(("getblock", json!([hash, verbosity])));
        }
    }
    for height in 100..=162 {
        requests.push(("getblock", json!([at(height), 3])));
    }

    let mut comparison = Comparison::default();
    for (method, params) in &requests {
        let (sim, real) = pair.post(&call(method, params));
        comparison.compare(&format!("{method} {params}"), &sim, &real, &EXCEPTIONS);
    }
    comparison.assert_equal(&EXCEPTIONS, pair.real_is_knots());
}

#[test]
fn requests_and_batches_of_both_versions_are_framed_like_a_node() {
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
fn every_rest_path_is_answered_like_a_real_node() {
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
