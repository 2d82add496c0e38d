//! What holds for every request: before the first block, at its limits, and when it does not fit the schema.

use std::sync::Arc;
use std::time::Duration;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network};
use btcgraph::api::Readiness;
use btcgraph::limits::Limits;
use btcgraph::sim::SimChain;
use btcgraph::view::SyncState;
use serde_json::{Value, json};

use crate::support::api::{Api, error};

#[test]
fn an_empty_index_is_not_ready_and_never_answers_null_or_zero() {
    let api = Api::empty(Network::Regtest, Limits::default());
    let unknown = "00".repeat(32);
    for (field, question) in [
        ("tip", "tip { id }".to_owned()),
        ("block", "block(height: 0) { id }".to_owned()),
        ("transaction", format!("transaction(txid: \"{unknown}\") {{ id }}")),
        ("address", "address(address: \"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080\") { id }".to_owned()),
        ("snapshot", "snapshot { height }".to_owned()),
        ("chainTips", "chainTips { hash }".to_owned()),
        ("node", format!("node(id: \"Block:{unknown}\") {{ id }}")),
    ] {
        let not_ready = json!({
            "code": "NOT_READY",
            "phase": "WAITING_FOR_NODE",
            "indexedHeight": null,
            "nodeHeight": null,
            "blocksPerSecond": null,
            "etaSeconds": null,
        });
        assert_eq!(
            api.ask(&format!("{{ {question} }}")),
            json!({
                "data": { field: null },
                "errors": [error(&json!([field]), 3, "the index is not ready yet; retry later", &not_ready)],
            })
        );
    }
    assert_eq!(api.data("{ __typename }"), json!({ "__typename": "Query" }));

    api.set_state(SyncState { node_height: Some(9.into()), ..SyncState::default() });
    assert_eq!(api.ask("{ tip { id } }")["errors"][0]["extensions"]["nodeHeight"], json!(9));
    let readiness = api.schema.readiness();
    assert_eq!((readiness.indexed_height(), readiness.node_height), (None, Some(9)));
    assert_eq!((readiness.blocks_behind(), readiness.is_within(1)), (None, false));
}

#[test]
fn it_is_ready_once_it_answers_for_the_tip_of_the_node() {
    let mut chain = SimChain::new(20);
    chain.mine_empty(3).unwrap();
    let api = Api::of_chain(&chain);
    let is_ready = |blocks| api.schema.readiness().is_within(blocks);
    assert!(!is_ready(0), "the node was not heard yet");
    let (node_height, node_tip) = (Some(3.into()), Some(api.view().tip().hash));
    let state = SyncState { node_height, node_tip, ..SyncState::default() };
    api.set_state(state);
    assert!(!is_ready(0), "the mempool is yet to come");
    api.set_state(SyncState { mempool_in_sync: true, ..state });
    assert!(is_ready(0));
    api.set_state(SyncState { mempool_in_sync: true, node_height: Some(5.into()), node_tip: None, ..state });
    assert_eq!(api.schema.readiness().blocks_behind(), Some(2));
    assert!(!is_ready(0) && !is_ready(1) && is_ready(2));
}

#[test]
fn the_lag_is_unknown_on_another_branch_of_the_same_height() {
    let mut chain = SimChain::new(20);
    chain.mine_empty(3).unwrap();
    let api = Api::of_chain(&chain);
    let state = SyncState { node_height: Some(3.into()), mempool_in_sync: true, ..SyncState::default() };
    let lag = |hash: BlockHash| {
        api.set_state(SyncState { node_tip: Some(hash), ..state });
        let readiness = api.schema.readiness();
        (readiness.blocks_behind(), readiness.is_within(u32::MAX))
    };
    assert_eq!(lag(chain.tip()), (Some(0), true));
    assert_eq!(lag(BlockHash::all_zeros()), (None, false));
    // the hash counts while the node is unreachable, as its height does
    api.disconnect_node();
    assert_eq!(api.schema.readiness().blocks_behind(), None);
}

#[test]
fn it_stays_ready_for_a_while_without_the_node_and_its_mempool_and_no_longer() {
    let mut chain = SimChain::new(20);
    chain.mine_empty(3).unwrap();
    let api = Api::of_chain(&chain);
    let state = SyncState { node_height: Some(3.into()), mempool_in_sync: true, ..SyncState::default() };
    api.set_state(state);
    api.set_state(SyncState { mempool_in_sync: false, ..state });
    let readiness = api.schema.readiness();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert!(readiness.is_within(0));
    for (silence, mempool_behind, is_ready) in [
        (seconds(30), seconds(30), true),
        (seconds(31), seconds(0), false),
        (seconds(0), seconds(31), false),
        (None, seconds(0), false),
        (seconds(0), None, false),
    ] {
        let readiness = Readiness { silence, mempool_behind, longest_silence: Duration::from_secs(30), ..readiness };
        assert_eq!(readiness.is_within(0), is_ready, "{readiness:?}");
    }
}

#[test]
fn a_document_that_does_not_fit_the_schema_fails_validation() {
    let api = Api::of_chain(&SimChain::new(21));
    for document in [
        "{ nothing }",
        "{ tip }",
        "{ block(height: \"1\") { id } }",
        "{ block(size: 1) { id } }",
        "{ address { id } }",
        "{ tip { ...Unknown } }",
        "query($unused: Int) { tip { id } }",
        "mutation { nothing }",
    ] {
        assert_eq!(api.refusal(document), json!("GRAPHQL_VALIDATION_FAILED"), "{document}");
    }
    assert_eq!(api.refusal("{ tip {"), json!("GRAPHQL_PARSE_FAILED"));
    assert_eq!(api.refusal("query($h: Int!) { block(height: $h) { id } }"), json!("BAD_USER_INPUT"));
    assert_eq!(api.refusal("query A { tip { id } } query B { tip { id } }"), json!("BAD_USER_INPUT"));
}

#[test]
fn a_bad_value_is_refused_with_its_place_and_what_is_expected() {
    let api = Api::of_chain(&SimChain::new(22));
    let hash = "00".repeat(31);
    for (document, variables, message) in [
        (
            format!("{{ block(hash: \"{hash}\") {{ id }} }}"),
            json!({}),
            r#"Invalid value for argument "hash", expected type "BlockHash": a string of 64 hexadecimal digits, got 62 digits"#,
        ),
        (
            "query($of: LedgerInput!) { ledgerSet(of: $of) { id } }".to_owned(),
            json!({ "of": { "scripts": ["51", "5"] } }),
            r#"Invalid value for argument "of.scripts[1]", expected type "Hex": a string of hexadecimal digits, two for each byte, without 0x, got an odd number of them: 1"#,
        ),
    ] {
        let answer = api.ask_with(&document, variables);
        let error = &answer["errors"][0];
        assert_eq!(
            (error["message"].as_str(), &error["extensions"]["code"]),
            (Some(message), &json!("GRAPHQL_VALIDATION_FAILED"))
        );
    }
}

/// The message of the only error of an answer, and its code.
fn refused(api: &Api, document: &str, variables: &Value) -> (String, String) {
    let answer = api.ask_with(document, variables.clone());
    assert_eq!(answer["errors"].as_array().map(Vec::len), Some(1), "{answer}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&answer["errors"][0]["message"]), text(&answer["errors"][0]["extensions"]["code"]))
}

#[test]
fn an_integer_beyond_32_bits_is_refused_with_its_argument_and_value() {
    let api = Api::of_chain(&SimChain::new(23));
    let none = json!({});
    for (document, variables, path, got) in [
        ("{ block(height: 99999999999) { id } }", &none, "height", "99999999999"),
        ("{ block(height: -2147483649) { id } }", &none, "height", "-2147483649"),
        ("{ block(height: 18446744073709551615) { id } }", &none, "height", "18446744073709551615"),
        ("{ block(height: 1.5) { id } }", &none, "height", "1.5"),
        ("query($h: Int) { block(height: $h) { id } }", &json!({ "h": 2_147_483_648_u32 }), "height", "2147483648"),
        (
            "{ headers(range: { heights: { from: 1, to: 99999999999 } }) { height } }",
            &none,
            "range.heights.to",
            "99999999999",
        ),
        (
            "query($r: HeightRange!) { chain { range(of: { heights: $r }) { blockCount } } }",
            &json!({ "r": { "to": 4_294_967_296_u64 } }),
            "of.heights.to",
            "4294967296",
        ),
        ("{ tip { transactions(first: 4294967296) { totalCount } } }", &none, "first", "4294967296"),
    ] {
        let message =
            format!("Invalid value for argument \"{path}\", expected type \"Int\": an integer of 32 bits, got {got}");
        assert_eq!(refused(&api, document, variables), (message, "GRAPHQL_VALIDATION_FAILED".to_owned()), "{document}");
    }
    // both ends of the range are let through
    assert_eq!(api.data("{ block(height: 2147483647) { id } }"), json!({ "block": null }));
    assert_eq!(api.refusal("{ block(height: -2147483648) { id } }"), json!("BAD_USER_INPUT"));
}

#[test]
fn an_object_of_an_argument_is_refused_with_the_fields_that_it_may_have() {
    let api = Api::of_chain(&SimChain::new(24));
    let none = json!({});
    let range = "an object with exactly one of the fields heights, times, lastBlocks";
    let at = "an object with exactly one of the fields height, hash, time";
    let with_ledger = |rest: &str| format!("{{ script(scriptPubKey: \"51\") {{ {rest} }} }}");
    for (document, variables, argument, expected) in [
        ("{ headers(range: null) { height } }", &none, ("range", "BlockRange"), format!("{range}, got null")),
        ("{ headers(range: {}) { height } }", &none, ("range", "BlockRange"), format!("{range}, got none of them")),
        (
            "{ headers(range: { lastBlocks: 1, heights: {} }) { height } }",
            &none,
            ("range", "BlockRange"),
            format!("{range}, got lastBlocks, heights"),
        ),
        (
            "{ headers(range: { lastBlocks: null }) { height } }",
            &none,
            ("range", "BlockRange"),
            format!("{range}, got lastBlocks: null"),
        ),
        (
            "query($r: BlockRange) { blocks(range: $r) { totalCount } }",
            &json!({ "r": {} }),
            ("range", "BlockRange"),
            format!("{range}, got none of them"),
        ),
        ("{ headers(range: 5) { height } }", &none, ("range", "BlockRange"), format!("{range}, got 5")),
        (
            &with_ledger("transactions(filter: { range: {} }) { totalCount }"),
            &none,
            ("filter.range", "BlockRange"),
            format!("{range}, got none of them"),
        ),
        (
            &with_ledger("transactions(filter: { range: [1] }) { totalCount }"),
            &none,
            ("filter.range", "BlockRange"),
            format!("{range}, got a list"),
        ),
        (&with_ledger("balance(at: {}) { confirmed }"), &none, ("at", "BlockAt"), format!("{at}, got none of them")),
        (&with_ledger("balance(at: 7) { confirmed }"), &none, ("at", "BlockAt"), format!("{at}, got 7")),
        ("{ blocks(order: 7) { totalCount } }", &none, ("order", "SortOrder"), "one of ASC, DESC, got 7".to_owned()),
    ] {
        let (path, kind) = argument;
        let message = format!("Invalid value for argument \"{path}\", expected type \"{kind}\": {expected}");
        assert_eq!(refused(&api, document, variables).0, message, "{document}");
    }
    for (document, variables, path, kind) in [
        (
            "query($n: Int) { sync { phase } headers(range: { lastBlocks: $n }) { height } }",
            &none,
            "range.lastBlocks",
            "Int!",
        ),
        ("query($n: Txid) { transactionsByTxid(txids: [$n]) { txid } }", &none, "txids[0]", "Txid!"),
        ("query($n: Txid) { ledgers(of: { scripts: [$n] }) { input } }", &none, "of.scripts[0]", "Hex!"),
    ] {
        let message = format!("Invalid value for argument \"{path}\", expected type \"{kind}\": $n has no value");
        assert_eq!(refused(&api, document, variables), (message, "GRAPHQL_VALIDATION_FAILED".to_owned()), "{document}");
    }
    // what may be left out is
    let times = "query($t: DateTime) { headers(range: { times: { from: $t } }) { height } }";
    assert_eq!(api.ask(times).get("errors"), None);
    for (document, message) in [
        (
            "{ blocks(order: UP) { totalCount } }",
            "argument \"order\", enumeration type \"SortOrder\" does not contain the value \"UP\": give one of ASC, DESC",
        ),
        (
            "{ transactions(filter: { scriptTypes: [P2SH, PSH] }) { totalCount } }",
            "does not contain the value \"PSH\": give one of P2PK, P2PKH, P2SH,",
        ),
    ] {
        let found = refused(&api, document, &none).0;
        assert!(found.contains(message), "{found}");
    }
    let refused = api.first_event("subscription { unconfirmedTransaction(filter: 7) { txid } }");
    let message = "Invalid value for argument \"filter\", expected type \"TransactionFilter\": an object, got 7";
    assert_eq!(refused["errors"][0]["message"], message);
}

#[test]
fn a_query_that_is_too_deep_or_asks_for_too_much_is_refused_with_the_limit() {
    let api = Api::of_chain(&SimChain::new(22));
    let deep =
        |levels: usize| format!("{{ tip {}{{ hash }}{} }}", "{ previousBlock ".repeat(levels), " }".repeat(levels));
    assert_eq!(api.ask(&deep(18)).get("errors"), None);
    let extensions = |document: &str| api.ask(document)["errors"][0]["extensions"].clone();
    assert_eq!(
        extensions(&deep(19)),
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "fieldLevels", "limit": 20, "actual": 21 })
    );
    let wide = "{ tip { transactions(first: 100) { nodes { outputs(first: 100) { nodes { id vout value asm scriptType } } } } } }";
    assert_eq!(api.ask(wide).get("errors"), None);
    // 1 + 3 + 100 * (1 + 3 + 100 * (1 + 5))
    let limits = Limits { worst_case_complexity: 60_403, ..Limits::default() };
    let api = Api::of_chain_within(&SimChain::new(22), limits);
    let expected = json!({
        "code": "QUERY_LIMIT_EXCEEDED", "which": "worstCaseComplexity", "limit": 60_403, "actual": 60_404,
        "field": "tip.transactions.nodes.outputs",
    });
    let refused = &api.ask(wide)["errors"][0];
    assert_eq!(refused["extensions"], expected);
    assert_eq!(
        refused["message"],
        "worstCaseComplexity is 60404, and the limit is 60403; tip.transactions.nodes.outputs is the longest list: request \
         smaller pages or fewer fields"
    );
    assert_eq!(api.ask(&wide.replacen("100", "50", 1)).get("errors"), None);
}

#[test]
fn fields_that_cannot_be_one_are_refused_wherever_they_come_from() {
    let api = Api::of_chain(&SimChain::new(22));
    for (document, key, fault) in [
        ("{ tip { height height: hash } }", "height", None),
        ("{ tip { height ... on Block { height: hash } } }", "height", Some("as height and as hash")),
        ("{ tip { hash } ... on Query { tip: block(height: 0) { hash } } }", "tip", Some("as tip and as block")),
        (
            "query { ...F tip { hash } } fragment F on Query { tip: block(height: 0) { hash } }",
            "tip",
            Some("as block and as tip"),
        ),
        (
            "{ block(height: 0) { hash } ... on Query { block(height: 1) { hash } } }",
            "block",
            Some("with different arguments"),
        ),
        (
            "{ tip { transactions(first: 1) { totalCount } ... on Block { transactions(first: 2) { totalCount } } } }",
            "transactions",
            Some("with different arguments"),
        ),
        ("{ tip { a: height } tip { a: hash } }", "a", Some("as height and as hash")),
        (
            "{ node(id: \"Server:main\") { ... on Block { a: height } ... on ServerInfo { a: softwareVersion } } }",
            "a",
            Some("as Int! and as String!"),
        ),
        (
            "{ node(id: \"Server:main\") { ... on Block { a: hash } ... on Transaction { a: txid } } }",
            "a",
            Some("as BlockHash! and as Txid!"),
        ),
        (
            // of the first, which is of another type, both are no conflict
            "{ search(text: \"1\") { nodes { ... on Block { x: height } ... on Transaction { x: vsize } } } ...F }
                fragment F on Query { search(text: \"1\") { nodes { ... on Transaction { x: weight } } } }",
            "x",
            Some("as vsize and as weight"),
        ),
        (
            "{ search(text: \"1\") { nodes { a: __typename ... on Transaction { a: txid } } } }",
            "a",
            Some("as __typename and as txid"),
        ),
    ] {
        let error = &api.ask(document)["errors"][0];
        assert_eq!(error["extensions"]["code"], "GRAPHQL_VALIDATION_FAILED", "{document}: {error}");
        let message = error["message"].as_str().unwrap();
        if let Some(fault) = fault {
            let expected =
                format!("the field {key} is asked for twice in one place, {fault}: give one of them an alias");
            assert_eq!(message, expected, "{document}");
            assert_eq!(error["locations"].as_array().map(Vec::len), Some(2));
        }
    }
    for document in [
        "{ tip { height ... on Block { height } } tip { hash } }",
        "query($h: Int = 0) { block(height: $h) { hash } ...F } fragment F on Query { block(height: $h) { height } }",
        // below fields of types that never meet
        "{ nodes(ids: []) { ... on Address { utxos(first: 1) { nodes { a: height } } }
            ... on Script { utxos(first: 1) { nodes { a: matureAtHeight } } } } }",
        "{ search(text: \"1\") { nodes { ... on Block { __typename height } ... on Transaction { __typename } } } }",
    ] {
        let answer = api.ask(document);
        assert_eq!(answer.get("errors"), None, "{document}: {answer}");
    }
}

#[test]
fn an_answer_that_comes_to_too_many_bytes_of_transactions_is_refused_with_the_limit() {
    let chain = SimChain::new(24);
    let mut api = Api::empty(Network::Regtest, Limits { transaction_bytes: 2_000, ..Limits::default() });
    api.change(0, chain.active_blocks().map(Arc::as_ref));
    // the coinbase of genesis has 204 bytes: read once, sent as often as it is asked for
    let reported = |times: usize| {
        let again = (1..times).map(|number| format!(" again{number}: hex")).collect::<Vec<_>>().concat();
        format!("{{ tip {{ height transactions {{ nodes {{ hex{again} }} }} }} }}")
    };
    for _ in 0..2 {
        assert_eq!(api.ask(&reported(8)).get("errors"), None, "each answer has the whole allowance");
    }
    let response = api.ask(&reported(9));
    assert_eq!(response["data"], json!({ "tip": { "height": 0, "transactions": null } }));
    let expected =
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "transactionBytes", "limit": 2_000, "actual": 2_040 });
    assert_eq!(response["errors"][0]["extensions"], expected);

    let coinbase = api.data("{ tip { transactions { nodes { txid } } } }")["tip"]["transactions"]["nodes"][0]["txid"]
        .as_str()
        .unwrap()
        .to_owned();
    let read = |number: u32| format!(" read{number}: transaction(txid: \"{coinbase}\") {{ size }}");
    let reads = (0..10).map(read).collect::<Vec<_>>().concat();
    let response = api.ask(&format!("{{ {reads} }}"));
    assert_eq!(
        response["errors"].as_array().map(Vec::len),
        Some(1),
        "nine are read, the tenth is too much: {response}"
    );
    for field in [
        "wtxid",
        "inputs { nodes { scriptSigHex } }",
        "outputs { nodes { scriptPubKey } }",
        "outputs { nodes { asm } }",
    ] {
        let again = (0..60).map(|number| format!(" of{number}: {field}")).collect::<Vec<_>>().concat();
        let response = api.ask(&format!("{{ tip {{ transactions(first: 1) {{ nodes {{ {again} }} }} }} }}"));
        assert_eq!(response["errors"][0]["extensions"]["which"], json!("transactionBytes"), "{field}");
    }
}

#[test]
fn the_introspection_query_of_common_clients_passes() {
    let api = Api::of_chain(&SimChain::new(23));
    let mut of_type = String::new();
    for _ in 0..9 {
        of_type = format!("ofType {{ kind name {of_type} }}");
    }
    let schema = api.data(&format!(
        "query IntrospectionQuery {{ __schema {{ description queryType {{ name }} mutationType {{ name }} subscriptionType {{ name }}
            types {{ ...FullType }} directives {{ name description isRepeatable locations args(includeDeprecated: true) {{ ...InputValue }} }} }} }}
         fragment FullType on __Type {{ kind name description specifiedByURL
            fields(includeDeprecated: true) {{ name description args(includeDeprecated: true) {{ ...InputValue }} type {{ ...TypeRef }} isDeprecated deprecationReason }}
            inputFields(includeDeprecated: true) {{ ...InputValue }} interfaces {{ ...TypeRef }}
            enumValues(includeDeprecated: true) {{ name description isDeprecated deprecationReason }} possibleTypes {{ ...TypeRef }} }}
         fragment InputValue on __InputValue {{ name description type {{ ...TypeRef }} defaultValue isDeprecated deprecationReason }}
         fragment TypeRef on __Type {{ kind name {of_type} }}"
    ));
    let description = schema["__schema"]["description"].as_str().unwrap();
    assert!(description.starts_with("Blocks, transactions, addresses"), "{description}");
    let node = schema["__schema"]["types"].as_array().unwrap().iter().find(|found| found["name"] == "Node").unwrap();
    let mut possible: Vec<&str> =
        node["possibleTypes"].as_array().unwrap().iter().filter_map(|found| found["name"].as_str()).collect();
    possible.sort_unstable();
    assert_eq!(
        possible,
        [
            "Address",
            "AddressSet",
            "Block",
            "Chain",
            "DescriptorAccount",
            "DifficultyEpoch",
            "Mempool",
            "Miner",
            "Output",
            "Reorg",
            "Script",
            "ServerInfo",
            "Transaction"
        ]
    );
    assert_eq!(schema["__schema"]["mutationType"], json!({ "name": "Mutation" }));
}

#[test]
fn a_given_private_key_is_in_no_message() {
    // of the test vectors of BIP32 and of the wiki's page on WIF
    let extended = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi";
    let exported = "KwdMAjGmerYanjeui5SHS7JkmpZvVipYvB2LJGU1ZxJwYvP98617";
    let mut chain = SimChain::new(44);
    chain.mine_empty(1).unwrap();
    let api = Api::of_chain(&chain);
    for key in [extended, exported] {
        for question in [
            format!("{{ node(id: \"{key}\") {{ id }} }}"),
            format!("{{ node(id: \"Address:{key}\") {{ id }} }}"),
            format!("{{ nodes(ids: [\"Transaction:{key}\"]) {{ id }} }}"),
            format!("{{ address(address: \"{key}\") {{ id }} }}"),
            format!("{{ address(address: \"wpkh({key}/0/*)\") {{ id }} }}"),
            format!("{{ transaction(txid: \"{key}\") {{ id }} }}"),
            format!("{{ block(hash: \"{key}\") {{ id }} }}"),
            format!("{{ block(hash: {key}) {{ id }} }}"),
            format!("{{ blocks(after: \"{key}\", first: 1) {{ nodes {{ id }} }} }}"),
            format!("mutation {{ broadcastTransaction(hex: \"{key}\") {{ __typename }} }}"),
            format!("query($k: {key}) {{ tip {{ id }} }}"),
            format!("{{ {key} }}"),
            format!("query {key}($k: Int!) {{ block(height: $k) {{ id }} }}"),
        ] {
            let answer = api.ask(&question);
            assert!(!answer["errors"].as_array().unwrap().is_empty(), "{question}");
            assert!(!answer.to_string().contains(&key[..12]), "{question}: {answer}");
        }
    }
}
