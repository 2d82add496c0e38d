//! What is refused, with which code, and what the message says of the value at fault. Each is asked as a literal and,
//! where a value can be one, as a variable.

use std::sync::Arc;

use btcgraph::limits::Limits;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};

use super::expected::address;
use crate::support::api::{Api, branch};

const TXID: &str = "\"4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b\"";
const NO_HASH: &str = "\"00000000000000000000000000000000000000000000000000000000000000ff\"";

/// A chain of 11 blocks, the hash of a block that left it, and the field of its miner's script.
fn scene() -> (Api, String, String) {
    let mut chain = SimChain::new(110);
    chain.mine_empty(10).unwrap();
    let stale = chain.tip();
    let mut api = Api::of_chain_within(&chain, Limits { ids: 20, ..Limits::default() });
    let parent = chain.ancestor(&stale, 1).unwrap();
    api.change(1, branch(&mut chain, parent, 2, &[]).iter().map(Arc::as_ref));
    let owner = format!("address(address: \"{}\")", address(&SimChain::miner().script_pubkey()).unwrap());
    (api, stale.to_string(), owner)
}

/// Where a refusal leaves a null: in the place of the root field, or of a field below it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Null {
    Root,
    Field(&'static str),
}

fn assert_refused(response: &Value, what: &str, code: &str, says: &[&str], null: Null) {
    let errors = response["errors"].as_array().unwrap_or_else(|| panic!("{what} is answered: {response}"));
    for error in errors {
        assert_eq!(error["extensions"]["code"], json!(code), "{what}: {error}");
        let message = error["message"].as_str().unwrap();
        for part in says {
            assert!(message.contains(part), "{what}: {message:?} does not say {part:?}");
        }
    }
    let data = &response["data"];
    match null {
        Null::Root => assert!(data.as_object().unwrap().values().all(Value::is_null), "{what}: {data}"),
        Null::Field(name) => {
            let root = data.as_object().unwrap().values().next().unwrap();
            assert_eq!(root.get(name), Some(&Value::Null), "{what}: {data}");
        }
    }
}

#[test]
fn arguments_of_root_fields() {
    let (api, _, _) = scene();
    let thirty_one = "00".repeat(31);
    let input = "BAD_USER_INPUT";
    let cases: Vec<(String, &str, Vec<&str>, Null)> = vec![
        ("block(height: -1) { id }".to_owned(), input, vec!["-1"], Null::Root),
        ("block { id }".to_owned(), input, vec!["hash", "height"], Null::Root),
        (format!("block(height: 1, hash: {NO_HASH}) {{ id }}"), input, vec!["hash", "height"], Null::Root),
        ("transaction { id }".to_owned(), input, vec!["txid"], Null::Root),
        (format!("output(txid: {TXID}, vout: -1) {{ id }}"), input, vec!["-1"], Null::Root),
        ("script { id }".to_owned(), input, vec!["scriptPubKey", "scriptHash"], Null::Root),
        (format!("script(scriptPubKey: \"51\", scriptHash: {TXID}) {{ id }}"), input, vec!["scriptPubKey"], Null::Root),
        (format!("script(scriptHash: \"{thirty_one}\") {{ id }}"), input, vec!["31"], Null::Root),
        (
            format!("script(scriptHash: {TXID}, electrumScriptHash: {TXID}) {{ id }}"),
            input,
            vec!["scriptPubKey"],
            Null::Root,
        ),
        ("script(scriptHash: \"\") {{ id }}".replace("{{", "{").replace("}}", "}"), input, vec!["0 bytes"], Null::Root),
        ("address(address: \"1BoatSLRHtKNngkdXEeobR76b53LETtpyT?\") { id }".to_owned(), input, vec!["?"], Null::Root),
        (
            "address(address: \"tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx\") { id }".to_owned(),
            input,
            vec!["testnet4"],
            Null::Root,
        ),
        ("ledgerSet(of: {}) { stats { used } }".to_owned(), input, vec!["addresses", "scripts"], Null::Root),
        (
            "transactions(range: { heights: { from: 7, to: 6 } }) { totalCount }".to_owned(),
            input,
            vec!["7", "6"],
            Null::Root,
        ),
        ("transactions(range: { heights: { from: -1 } }) { totalCount }".to_owned(), input, vec!["-1"], Null::Root),
        ("transactions(range: { heights: { to: -5 } }) { totalCount }".to_owned(), input, vec!["-5"], Null::Root),
        (
            "transactions(first: 100000) { totalCount }".to_owned(),
            "QUERY_LIMIT_EXCEEDED",
            vec!["100000", "100"],
            Null::Root,
        ),
        ("transactions(first: 1, last: 1) { totalCount }".to_owned(), input, vec!["first", "last"], Null::Root),
        ("transactions(first: 1, before: \"x\") { totalCount }".to_owned(), input, vec!["first", "before"], Null::Root),
        ("transactions(last: -1) { totalCount }".to_owned(), input, vec!["-1"], Null::Root),
        ("transactions(after: \"x/y\") { totalCount }".to_owned(), input, vec!["x/y"], Null::Root),
    ];
    for (field, code, says, null) in cases {
        assert_refused(&api.ask(&format!("{{ {field} }}")), &field, code, &says, null);
    }
    let outputs = api.ask(&format!("{{ outputsByOutpoint(outpoints: [{{ txid: {TXID}, vout: 0 }}, {{ txid: {TXID}, vout: -2 }}, {{ txid: {TXID}, vout: 1 }}]) {{ vout }} }}"));
    assert_eq!(outputs["data"], json!({ "outputsByOutpoint": [{ "vout": 0 }, null, null] }));
    assert_eq!(outputs["errors"].as_array().unwrap().len(), 1);
    assert_eq!(outputs["errors"][0]["path"], json!(["outputsByOutpoint", 1]));
    let message = "outpoints[1].vout is -2, and the first output of a transaction has index 0";
    assert_eq!(outputs["errors"][0]["message"], message);
    let watched = api.first_event(&format!(
        "subscription {{ outputSpent(outpoints: [{{ txid: {TXID}, vout: 0 }}, {{ txid: {TXID}, vout: -2 }}]) {{ isConfirmed }} }}"
    ));
    assert_eq!(watched["errors"][0]["message"], message);
    let histogram = api.ask("{ mempool { feeHistogram(bins: [1, -1]) { txCount } } }");
    let message = "bins[1] is -1, and a feerate is from 0 to the coin supply per vbyte";
    assert_eq!(histogram["errors"][0]["message"], message);
    for ledger in ["address(address: \"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080\")", "script(scriptPubKey: \"51\")"]
    {
        let filter = "filter: { coinbaseOnly: true, direction: OUT }";
        let answer = api.ask(&format!("{{ {ledger} {{ transactions({filter}) {{ totalCount }} }} }}"));
        let message = "filter.coinbaseOnly is true, and filter.direction is OUT, which exclude each other: a coinbase \
                       spends nothing";
        assert_eq!(answer["errors"][0]["message"], message);
        let expected = json!({ "code": input, "argument": "filter.coinbaseOnly" });
        assert_eq!(answer["errors"][0]["extensions"], expected);
    }
}

#[test]
fn what_is_not_there_is_null_without_an_error() {
    let (api, _, _) = scene();
    for field in [
        "block(height: 12) { id }",
        "block(height: 2147483647) { id }",
        &format!("block(hash: {NO_HASH}) {{ id }}"),
        &format!("transaction(txid: {NO_HASH}) {{ id }}"),
        &format!("output(txid: {NO_HASH}, vout: 0) {{ id }}"),
        &format!("output(txid: {TXID}, vout: 2147483647) {{ id }}"),
        "transactionByIndex(index: 12) { id }",
        "transactionByIndex(index: 9007199254740991) { id }",
    ] {
        let data = api.data(&format!("{{ found: {field} }}"));
        assert_eq!(data, json!({ "found": null }), "{field}");
    }
    let beyond = api.data("{ transactions(range: { heights: { from: 500, to: 600 } }) { totalCount nodes { id } } }");
    assert_eq!(beyond, json!({ "transactions": { "totalCount": 0, "nodes": [] } }));
}

#[test]
fn arguments_of_ledgers() {
    let (api, stale, owner) = scene();
    let input = "BAD_USER_INPUT";
    let stale_at = format!("{{ hash: \"{stale}\" }}");
    let unknown_at = format!("{{ hash: {NO_HASH} }}");
    let blocks = [
        ("{ height: 12 }", vec!["12", "11"]),
        ("{ height: -3 }", vec!["-3"]),
        (stale_at.as_str(), vec![stale.as_str(), "stale"]),
        (unknown_at.as_str(), vec!["00ff"]),
        ("{ time: \"2009-01-01T00:00:00Z\" }", vec!["2009-01-01T00:00:00Z"]),
    ];
    for (at, says) in &blocks {
        for (name, rest) in [("balance", "{ confirmed }"), ("stats", "{ received }"), ("utxos", "{ totalCount }")] {
            let ask = format!("{{ owner: {owner} {{ {name}(at: {at}) {rest} }} }}");
            assert_refused(&api.ask(&ask), &ask, input, says, Null::Field(name));
        }
        let ask = format!("{{ output(txid: {TXID}, vout: 0) {{ spendStatus(at: {at}) }} }}");
        assert_refused(&api.ask(&ask), &ask, input, says, Null::Field("spendStatus"));
    }
    let fields: [(&str, &str, &str, Vec<&str>); 11] = [
        ("utxos", "filter: { minConfirmations: -1 }", input, vec!["-1"]),
        ("utxos", "first: 101", "QUERY_LIMIT_EXCEEDED", vec!["101"]),
        ("utxos", "last: 1, after: \"x\"", input, vec!["last", "after"]),
        ("utxos", "before: \"x\", after: \"x\"", input, vec!["after", "before"]),
        ("transactions", "filter: { range: { heights: { from: 5, to: 4 } } }", input, vec!["5", "4"]),
        ("transactions", "filter: { range: { heights: { from: -5 } } }", input, vec!["-5"]),
        (
            "transactions",
            "filter: { range: { times: { from: \"2020-01-02T00:00:00Z\", to: \"2020-01-01T00:00:00Z\" } } }",
            input,
            vec!["2020-01-02T00:00:00Z", "2020-01-01T00:00:00Z"],
        ),
        ("transactions", "last: 2147483647", "QUERY_LIMIT_EXCEEDED", vec!["2147483647"]),
        ("transactions", "before: \"AAAA\"", input, vec!["AAAA"]),
        ("coinbaseBlocks", "first: -1", input, vec!["-1"]),
        ("coinbaseBlocks", "after: \"\"", input, vec!["\"\""]),
    ];
    for (name, arguments, code, says) in fields {
        let ask = format!("{{ owner: {owner} {{ {name}({arguments}) {{ totalCount }} }} }}");
        assert_refused(&api.ask(&ask), &ask, code, &says, Null::Field(name));
    }
}

#[test]
fn values_that_no_scalar_takes_are_errors_of_the_request_as_literals_and_as_variables() {
    let (api, _, owner) = scene();
    let short = json!("ab".repeat(31));
    let cases = [
        ("BlockHash", "block(hash: $v) { id }", vec![short.clone(), json!(""), json!(5), json!("zz".repeat(32))]),
        ("Txid", "transaction(txid: $v) { id }", vec![short.clone(), json!("x".repeat(64)), json!(1.5)]),
        ("[Txid!]!", "transactionsByTxid(txids: $v) { id }", vec![json!([short]), json!([null])]),
        (
            "UInt53!",
            "transactionByIndex(index: $v) { id }",
            vec![json!(-1), json!(9_007_199_254_740_992_u64), json!("x")],
        ),
        ("Hash256", "script(electrumScriptHash: $v) { id }", vec![short.clone(), json!("zz".repeat(32)), json!(5)]),
        ("Hex", "script(scriptPubKey: $v) { id }", vec![json!("5"), json!("0x51"), json!("gg"), json!(51)]),
        ("Int", "block(height: $v) { id }", vec![json!(2_147_483_648_u64), json!("1"), json!(1.5), json!(true)]),
        ("DateTime", "OWNER { balance(at: { time: $v }) { confirmed } }", vec![json!("yesterday"), json!(0)]),
        ("Sats", "OWNER { utxos(filter: { minValue: $v }) { totalCount } }", vec![json!(-1), json!(0.5), json!("1e3")]),
        ("Boolean", "OWNER { utxos(filter: { includeImmature: $v }) { totalCount } }", vec![json!("yes"), json!(1)]),
        (
            "BlockAt",
            "OWNER { balance(at: $v) { confirmed } }",
            vec![json!({}), json!({ "height": 1, "time": "2030-01-01T00:00:00Z" }), json!({ "height": null })],
        ),
    ];
    for (kind, field, values) in cases {
        let field = field.replace("OWNER", &format!("owner: {owner}"));
        for value in values {
            let literal = api.ask(&format!("{{ {} }}", field.replace("$v", &graphql(&value))));
            let variable = api.ask_with(&format!("query($v: {kind}) {{ {field} }}"), json!({ "v": value }));
            for (how, response) in [("literal", literal), ("variable", variable)] {
                let what = format!("{field} with {value} as {how}");
                let code = response["errors"][0]["extensions"]["code"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{what}: {response}"));
                assert!(["BAD_USER_INPUT", "GRAPHQL_VALIDATION_FAILED"].contains(&code), "{what}: {response}");
                let data = &response["data"];
                let nothing = data.is_null()
                    || data.as_object().unwrap().values().all(|root| {
                        root.is_null() || root.as_object().is_some_and(|fields| fields.values().all(Value::is_null))
                    });
                assert!(nothing, "{what}: {response}");
            }
        }
    }
}

/// A value as a document writes it.
fn graphql(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}: {}", graphql(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(graphql).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[test]
fn lists_that_are_too_long() {
    let (api, _, _) = scene();
    let ids = |count: usize, item: &str| vec![item; count].join(", ");
    let outpoint = format!("{{ txid: {TXID}, vout: 0 }}");
    for (field, item) in [
        ("transactionsByTxid(txids: [LIST]) { id }", TXID),
        ("outputsByOutpoint(outpoints: [LIST]) { id }", outpoint.as_str()),
        ("ledgerSet(of: { scripts: [LIST] }) { stats { used } }", "\"51\""),
        ("ledgerSet(of: { addresses: [\"x\"], scripts: [LIST] }) { stats { used } }", "\"51\""),
    ] {
        let extra = usize::from(field.contains("\"x\""));
        let ask = |count: usize| api.ask(&format!("{{ {} }}", field.replace("LIST", &ids(count - extra, item))));
        assert_eq!(ask(20).get("errors"), None, "{field}");
        let refused = ask(21);
        assert_refused(&refused, field, "QUERY_LIMIT_EXCEEDED", &["21", "20"], Null::Root);
        assert_eq!(refused["errors"][0]["extensions"]["which"], json!("idsPerList"));
    }
}

#[test]
fn cursors_of_other_lists_filters_and_orders() {
    let (api, _, owner) = scene();
    let lists = [
        ("transactions", "order: ASC"),
        ("transactions", "order: DESC"),
        ("transactions", "filter: { range: { heights: { from: 1 } } }"),
        ("transactions", "filter: { direction: IN }"),
        ("utxos", ""),
        ("utxos", "filter: { minValue: 1 }"),
        ("utxos", "at: { height: 5 }"),
        ("utxos", "at: { height: 6 }"),
        ("coinbaseBlocks", ""),
    ];
    let page = |owner: &str, (name, arguments): (&str, &str), page: &str| {
        api.ask(&format!("{{ owner: {owner} {{ {name}({arguments} {page}) {{ pageInfo {{ endCursor }} }} }} }}"))
    };
    for one in lists {
        let first = page(&owner, one, "first: 1");
        let cursor = first["data"]["owner"][one.0]["pageInfo"]["endCursor"].as_str().unwrap();
        let after = format!("first: 1, after: \"{cursor}\"");
        for other in lists {
            let response = page(&owner, other, &after);
            if one == other {
                assert_eq!(response.get("errors"), None, "{one:?}: {response}");
            } else {
                let what = format!("{one:?} in {other:?}");
                assert_refused(&response, &what, "BAD_USER_INPUT", &[cursor], Null::Field(other.0));
            }
        }
        // the same script is another object as a script, and in a set
        let script = SimChain::miner().script_pubkey().to_hex_string();
        for elsewhere in
            [format!("script(scriptPubKey: \"{script}\")"), format!("ledgerSet(of: {{ scripts: [\"{script}\"] }})")]
        {
            assert_refused(&page(&elsewhere, one, &after), &elsewhere, "BAD_USER_INPUT", &[cursor], Null::Field(one.0));
        }
    }
}

#[test]
fn long_wrong_values_are_cut_in_messages() {
    let (api, _, owner) = scene();
    let long = "x".repeat(100_000);
    for field in [
        "address(address: $v) { id }",
        "transactions(after: $v) { totalCount }",
        "OWNER { utxos(before: $v) { totalCount } }",
    ] {
        let field = field.replace("OWNER", &format!("owner: {owner}"));
        let response = api.ask_with(&format!("query($v: String!) {{ {field} }}"), json!({ "v": long }));
        assert_eq!(response["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"), "{field}");
        assert!(response.to_string().len() < 1_000, "{field} answers with {} bytes", response.to_string().len());
    }
}
