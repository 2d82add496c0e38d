//! What answers cost: the fields that are resolved, and more for those that do more.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::{Executor, Request, Variables};
use btcgraph::api::{Account, Budget, BudgetExhausted, Include};
use btcgraph::chain::StructuralFeature;
use btcgraph::limits::Limits;
use btcgraph::sim::{Hostile, SimChain};
use serde_json::{Value, json};

use crate::api::mempool::projected::{chain_with_coins, paying};
use crate::support::api::{Api, response_json};

fn chain(blocks: u32) -> SimChain {
    let (mut chain, mut hostile) = (SimChain::new(140), Hostile::new(140));
    for _ in 0..blocks {
        hostile.mine(&mut chain).unwrap();
    }
    chain
}

/// The extensions of the only error of an answer without data.
fn refusal(answer: &Value) -> Value {
    assert_eq!((&answer["data"], answer["errors"].as_array().map(Vec::len)), (&Value::Null, Some(1)), "{answer}");
    answer["errors"][0]["extensions"].clone()
}

/// What an answer costs: the lowest limit within which it is given.
fn cost(chain: &SimChain, query: &str) -> usize {
    let is_answered = |complexity: usize| {
        let answer = Api::of_chain_within(chain, Limits { complexity, ..Limits::default() }).ask(query);
        assert!(answer.get("errors").is_none() || refusal(&answer)["which"] == json!("complexity"), "{answer}");
        answer.get("errors").is_none()
    };
    let (mut low, mut high) = (0, 4_096);
    assert!(is_answered(high), "{query}");
    while high - low > 1 {
        let middle = low.midpoint(high);
        *(if is_answered(middle) { &mut high } else { &mut low }) = middle;
    }
    high
}

#[test]
fn an_answer_costs_its_fields_and_what_they_do_beside() {
    let chain = chain(130);
    let txids = chain.active_blocks().last().unwrap().txdata.len();
    for (query, expected) in [
        ("{ tip { height hash } }", 3),
        // pages are as full as they are
        ("{ tip { transactions(first: 1) { nodes { txid } } } }", 5),
        ("{ blocks(first: 100) { nodes { height } } }", 202),
        ("{ blocks(first: 100) { nodes { __typename } } }", 102),
        ("{ headers(range: { heights: { from: 0, to: 49 } }) { __typename } }", 1 + 50 + 50),
        ("{ __typename tip { __typename height } }", 2),
        ("{ __schema { types { name fields { name } } } }", 1),
        ("{ tip { txids } }", 2 + 2 * txids),
        ("{ tip { transaction(index: 0) { merkleProof { root } } } }", 4 + 850),
        // a block is read once for all of an answer
        (
            "{ tip { transaction(index: 0) { merkleProof { root } again: merkleProof { root } merkleBlockHex } } }",
            7 + 850,
        ),
        ("{ tip { transaction(index: 0) { wtxidProof { position } again: wtxidProof { position } } } }", 6 + 4_000),
        ("{ chain { supply { immatureCoinbase } } }", 3 + 550),
        ("{ chain { summary { recentStaleBlockCount } } }", 3 + 100),
        ("{ ledgers(of: { scripts: [\"51\", \"52\"] }) { input } }", 1 + 2 + 2 + 2),
        ("{ ledgerSet(of: { scripts: [\"51\", \"52\"] }) { id } }", 2 + 2),
    ] {
        assert_eq!(cost(&chain, query), expected, "{query}");
    }
}

#[test]
fn a_nested_query_with_default_pages_is_answered_though_full_pages_would_cost_more() {
    let query = "{ blocks { nodes { hash transactions { nodes { txid
        inputs { nodes { prevout { value address } } } outputs { nodes { value address } } } } } } }";
    let chain = chain(60);
    let worst_case = Api::of_chain_within(&chain, Limits { worst_case_complexity: 1, ..Limits::default() });
    let refused = refusal(&worst_case.ask(query));
    assert_eq!(refused["which"], json!("worstCaseComplexity"), "{refused}");
    assert!(refused["actual"].as_u64() > Some(100_000), "{refused}");
    // 25 blocks of 25 transactions of 100 inputs or outputs, of which the first is named
    assert_eq!(refused["field"], json!("blocks.nodes.transactions.nodes.inputs"), "{refused}");
    let answer = Api::of_chain(&chain).ask(query);
    assert_eq!(answer.get("errors"), None);
    assert_eq!(answer["data"]["blocks"]["nodes"].as_array().unwrap().len(), 25);
}

/// A budget that never holds what a large document needs.
struct SmallBudget;

impl Budget for SmallBudget {
    fn take(&self, cost: u64) -> Result<u64, BudgetExhausted> {
        let limit = 1_000_u64;
        limit.checked_sub(cost).ok_or(BudgetExhausted { limit, wait: Duration::ZERO })
    }

    fn give_back(&self, cost: u64) -> u64 {
        cost
    }

    fn charge(&self, _: u64) -> u64 {
        0
    }
}

#[test]
fn a_document_that_no_budget_of_the_client_pays_for_is_refused_with_its_longest_list() {
    let api = Api::of_chain(&chain(3));
    let ask = |document: &str| {
        let account = Arc::new(Account::new(true, Include::default(), Some(Arc::new(SmallBudget))));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        response_json(runtime.block_on(api.schema.execute(Request::new(document).data(account))))
    };
    assert_eq!(ask("{ tip { transactions(first: 100) { nodes { txid } } } }").get("errors"), None);
    let refused = ask("{ tip { transactions(first: 100) { nodes { txid outputs(first: 50) { nodes { value } } } } } }");
    let extensions = json!({
        "code": "QUERY_LIMIT_EXCEEDED", "which": "costPerMinute", "limit": 1_000, "actual": 1 + 3 + 100 * (2 + 3 + 50 * 2),
        "field": "tip.transactions.nodes.outputs",
    });
    assert_eq!(refusal(&refused), extensions);
    let message = refused["errors"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("is the longest list: request smaller pages or fewer fields"), "{message}");
}

#[test]
fn fields_of_an_interface_cost_what_they_cost_of_its_types() {
    let api = Api::of_chain_within(&chain(3), Limits { worst_case_complexity: 1, ..Limits::default() });
    let actual = |document: &str| {
        refusal(&api.ask(document))["actual"].as_u64().unwrap_or_else(|| panic!("{document}: {}", api.ask(document)))
    };
    for fields in [
        "transactions(first: 100) { nodes { net transaction { outputs(first: 50) { nodes { value } } } } }",
        "balanceHistory(group: DAY) { balanceAfter }",
        "coinbaseBlocks(first: 100) { nodes { hash time } }",
        "utxos(first: 10) { nodes { value } }",
    ] {
        let of = |wanted: &str| format!("{{ ledgers(of: {{ scripts: [\"51\"] }}) {{ ledger {{ {wanted} }} }} }}");
        let by_types = ["Address", "AddressSet", "DescriptorAccount", "Script"]
            .map(|kind| actual(&of(&format!("... on {kind} {{ {fields} }}"))));
        let by_type = by_types[0];
        assert!(by_type > 20 && by_types == [by_type; 4], "{fields}: {by_types:?}");
        for by_interface in [
            of(fields),
            of(&format!("... on Ledger {{ {fields} }}")),
            of(&format!("... {{ {fields} }}")),
            format!("{} fragment F on Ledger {{ {fields} }}", of("...F")),
        ] {
            assert_eq!(actual(&by_interface), by_type, "{by_interface}");
        }
    }
}

#[test]
fn fields_of_a_fragment_cost_what_they_cost_in_its_place() {
    let api = Api::of_chain_within(&chain(3), Limits { worst_case_complexity: 1, ..Limits::default() });
    let actual = |document: &str| refusal(&api.ask(document))["actual"].as_u64().unwrap();
    let pages = "transactions(first: 100) { nodes { outputs(first: 20) { nodes { value } } } }";
    for (place, condition) in [
        ("node(id: \"Block:00\")", "Block"),
        ("ledgers(of: { scripts: [\"51\"] }) { ledger", "Script"),
        ("search(text: \"1\") { nodes", "Block"),
    ] {
        let fields = if condition == "Script" { "transactions(first: 100) { nodes { net } }" } else { pages };
        let closing = " }".repeat(place.matches('{').count() - place.matches("of: {").count());
        let inline = format!("{{ {place} {{ ... on {condition} {{ {fields} }} }}{closing} }}");
        let spread = format!("{{ {place} {{ ...F }}{closing} }} fragment F on {condition} {{ {fields} }}");
        let twice = format!(
            "{{ {place} {{ ...G }}{closing} }} fragment G on {condition} {{ ...F }} fragment F on {condition} {{ {fields} }}"
        );
        let expected = actual(&inline);
        assert!(expected > 200, "{inline}: {expected}");
        assert_eq!([actual(&spread), actual(&twice)], [expected; 2], "{spread}");
    }
}

#[test]
fn an_operation_does_not_need_the_variables_of_others() {
    let api = Api::of_chain(&chain(3));
    let document =
        "query A { tip { height } } query B($hashes: [BlockHash!]!) { blocksByHash(hashes: $hashes) { id } }";
    let ask = |operation: &str| api.execute(Request::new(document).operation_name(operation));
    assert_eq!(ask("A")["data"]["tip"]["height"], json!(3));
    let error = &ask("B")["errors"][0];
    assert_eq!(error["message"], "the variable $hashes of type [BlockHash!]! has no value");
    assert_eq!(error["extensions"], json!({ "code": "BAD_USER_INPUT", "variable": "hashes" }));
}

#[test]
fn only_what_can_be_executed_is_in_the_worst_case() {
    let api = Api::of_chain_within(&chain(3), Limits { worst_case_complexity: 10, ..Limits::default() });
    let light = "query Light { tip { height } }";
    let heavy = "query Heavy { blocks(first: 100) { nodes { ...F } } } fragment F on Block { height hash }";
    let both = format!("{light} {heavy}");
    let ask = |document: &str, operation: &str, variables: Value| {
        api.execute(Request::new(document).operation_name(operation).variables(Variables::from_json(variables)))
    };
    assert_eq!(ask(&both, "Light", json!({})).get("errors"), None);
    let refused = refusal(&ask(&both, "Heavy", json!({})));
    assert_eq!((&refused["actual"], &refused["field"]), (&json!(3 + 100 * 3), &json!("blocks")), "{refused}");

    let conditional = "query Q($leaves: Boolean! = true) {
        tip { height } blocks(first: 100) @skip(if: $leaves) { nodes { height } } more: blocks(first: 100) @include(if: false) { totalCount } }";
    assert_eq!(ask(conditional, "Q", json!({})).get("errors"), None);
    let refused = refusal(&ask(conditional, "Q", json!({ "leaves": false })));
    assert_eq!((&refused["actual"], &refused["field"]), (&json!(2 + 3 + 100 * 2), &json!("blocks")), "{refused}");
}

#[test]
fn a_series_has_at_most_a_point_for_each_block_of_its_range() {
    let api = Api::of_chain_within(&chain(3), Limits { worst_case_complexity: 1, ..Limits::default() });
    for (arguments, points) in [
        ("range: { lastBlocks: 5 }", 5),
        ("range: { heights: { from: 1, to: 2 } }, group: BLOCK", 2),
        ("range: { lastBlocks: 5 }, group: HOUR, includeEmpty: true", 2_000),
        ("group: BLOCK", 2_000),
        ("group: MONTH", 25 * 12),
        ("range: { lastBlocks: 5000 }, group: DAY", 2_000),
        ("range: { times: { from: \"2026-01-01T00:00:00Z\", to: \"2026-12-31T00:00:00Z\" } }, group: DAY", 364 + 6),
    ] {
        let refused = refusal(&api.ask(&format!("{{ chain {{ series({arguments}) {{ startAt }} }} }}")));
        // the chain, the list, each point with its field and its bounds, and the bounds behind the last
        assert_eq!(refused["actual"], json!(1 + 1 + points * (1 + 1 + 5) + 1 + 5), "{arguments}: {refused}");
    }
}

#[test]
fn rows_that_are_read_for_others_are_in_the_worst_case() {
    let api = Api::of_chain_within(&chain(3), Limits { worst_case_complexity: 1, ..Limits::default() });
    for (query, expected) in [
        ("{ blocks(first: 10) { nodes { height } } }", 3 + 10 * 2),
        ("{ blocks(first: 10, filter: { isEmpty: true }) { nodes { height } } }", 3 + 10 * (2 + 10) + 10),
        ("{ blocks(first: 10, filter: { minTxCount: 2 }) { nodes { height } } }", 3 + 10 * 2 + 20_000 / 3),
        ("{ transactions(first: 10) { nodes { txid } } }", 3 + 10 * 2),
        ("{ transactions(first: 10, filter: { minValue: 1 }) { nodes { txid } } }", 3 + 10 * 2 + 20_000),
        ("{ tip { transactions(first: 10) { nodes { txid } } } }", 4 + 10 * 2),
        ("{ tip { transactions(first: 10, filter: { minValue: 1 }) { nodes { txid } } } }", 4 + 10 * 2 + 3_000),
        ("{ opReturns(first: 10, prefix: \"6f6d6e69\") { nodes { value } } }", 3 + 10 * 2 + 20_000),
        ("{ tip { silentPaymentTweaks(first: 10) { nodes { tweak } } } }", 5 + 10 * (2 + 60) + 3_000),
        ("{ mempool { feeHistogram(bins: [1, 2]) { fromRate } } }", 2 + 2 * 2 + 1_000),
    ] {
        assert_eq!(refusal(&api.ask(query))["actual"], json!(expected), "{query}");
    }
}

#[test]
fn an_answer_that_costs_too_much_is_refused_as_a_whole_with_the_field_and_what_is_allowed() {
    let api = Api::of_chain_within(&chain(30), Limits { complexity: 40, ..Limits::default() });
    let answer = api.ask("{ tip { height } blocks(first: 20) { nodes { hash height } } }");
    let refused = refusal(&answer);
    let field = refused["field"].as_str().unwrap().to_owned();
    assert!(["blocks.nodes.hash", "blocks.nodes.height", "blocks.nodes"].contains(&field.as_str()), "{refused}");
    let expected =
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "complexity", "limit": 40, "actual": 41, "field": field });
    assert_eq!(refused, expected);
    let (path, message) = (&answer["errors"][0]["path"], answer["errors"][0]["message"].as_str().unwrap());
    assert_eq!((&path[0], &path[1]), (&json!("blocks"), &json!("nodes")), "{path}");
    let sentence = format!(
        "the answer costs more than 40: it costs 41 up to the field {field}; ask for less: fewer fields, smaller pages or ranges, a smaller gapLimit"
    );
    assert_eq!(message, sentence);
    // by what a field does beside
    let refused = refusal(&api.ask("{ chain { supply { immatureCoinbase } } }"));
    assert_eq!((&refused["actual"], &refused["field"]), (&json!(553), &json!("chain.supply.immatureCoinbase")));
}

#[test]
fn a_refused_answer_stops_and_has_one_error_however_many_fields_are_left() {
    let api = Api::of_chain_within(&chain(120), Limits { complexity: 1_000, ..Limits::default() });
    let alias = |alias| format!("a{alias}: blocks(first: 100) {{ nodes {{ hash height }} }}");
    let blocks = (0..50).map(alias).collect::<Vec<_>>().join(" ");
    assert_eq!(refusal(&api.ask(&format!("{{ {blocks} }}")))["actual"], json!(1_001));
    // lists are counted before they are read
    let hashes = vec![format!("\"{}\"", "00".repeat(32)); 900].join(" ");
    let twice = format!(
        "{{ a: blocksByHash(hashes: [{hashes}]) {{ __typename }} b: blocksByHash(hashes: [{hashes}]) {{ __typename }} }}"
    );
    let refused = refusal(&api.ask(&twice));
    assert!(refused["actual"].as_u64() > Some(1_000), "{refused}");
}

#[test]
fn rows_that_a_filter_leaves_out_are_charged() {
    let chain = chain(130);
    let api = Api::of_chain(&chain);
    let blocks: Vec<_> = chain.active_blocks().collect();
    let largest = (0..blocks.len()).max_by_key(|height| blocks[*height].txdata.len()).unwrap();
    let of_largest = u64::try_from(blocks[largest].txdata.len()).unwrap();
    let of_all = blocks.iter().map(|block| u64::try_from(block.txdata.len()).unwrap()).sum::<u64>();
    assert!(of_largest > 5, "the chain has a block with some transactions");
    let block = format!("block(height: {largest})");
    for (query, expected) in [
        // a field, one for each transaction of the block, and the count
        (
            format!("{{ {block} {{ transactions(filter: {{ minValue: 9007199254740991 }}) {{ totalCount }} }} }}"),
            3 + of_largest,
        ),
        (
            format!(
                "{{ transactions(range: {{ heights: {{ from: {largest}, to: {largest} }} }}, filter: {{ minValue: 9007199254740991 }}) {{ totalCount }} }}"
            ),
            2 + of_largest,
        ),
        (
            "{ transactions(filter: { isCoinbase: true, minValue: 9007199254740991 }) { totalCount } }".to_owned(),
            2 + of_all,
        ),
        // 131 rows, three for 1
        ("{ blocks(filter: { minTxCount: 100000 }) { totalCount } }".to_owned(), 2 + 44),
        ("{ blocks(filter: { signalsBit: 28, isEmpty: false }) { totalCount } }".to_owned(), 2 + 44),
        // without a condition, rows cost what is asked of them
        ("{ blocks(filter: {}) { totalCount } }".to_owned(), 2),
        (format!("{{ {block} {{ transactions(filter: {{}}) {{ totalCount }} }} }}"), 3),
    ] {
        assert_eq!(api.cost(&query), expected, "{query}");
    }
    // those that may spend a multisig are looked at with what they spend
    let inputs = |transaction: &bitcoin::Transaction| u64::try_from(transaction.input.len()).unwrap();
    let may_spend = blocks[largest].txdata.iter().filter(|found| StructuralFeature::MultisigSpend.may_be_of(found));
    let looked_up = may_spend.map(inputs).sum::<u64>();
    let query = format!(
        "{{ {block} {{ transactions(filter: {{ features: [MULTISIG_SPEND], minValue: 9007199254740991 }}) {{ totalCount }} }} }}"
    );
    assert_eq!(api.cost(&query), 3 + of_largest, "what another condition leaves out is not looked up");
    let query =
        format!("{{ {block} {{ transactions(last: 0, filter: {{ features: [MULTISIG_SPEND] }}) {{ totalCount }} }} }}");
    let last = blocks[largest].txdata.last().unwrap();
    assert_eq!(api.cost(&query), 3 + 1 + inputs(last), "the row behind an empty page is read");
    assert!(looked_up >= inputs(last));
}

#[test]
fn rows_of_ledgers_and_of_the_mempool_are_charged() {
    let (chain, coins) = chain_with_coins(7);
    let mut api = Api::of_chain(&chain);
    api.arrive(&coins.iter().map(|coin| paying(*coin, 1_000)).collect::<Vec<_>>());
    let script = SimChain::miner().script_pubkey().to_hex_string();
    let counts = api.data(&format!("{{ script(scriptPubKey: \"{script}\") {{ stats {{ txCount utxoCount }} }} }}"));
    let [transactions, utxos] = ["txCount", "utxoCount"].map(|name| counts["script"]["stats"][name].as_u64().unwrap());
    assert!(transactions > 6 && utxos > 6, "{counts}");
    for (query, expected) in [
        (
            "{ mempool { transactions(filter: { minValue: 9007199254740991 }, order: ARRIVAL) { totalCount } } }"
                .to_owned(),
            3 + 3,
        ),
        (
            "{ mempool { transactions(filter: { scriptTypes: [P2MS] }, order: ARRIVAL) { totalCount } } }".to_owned(),
            3 + 7,
        ),
        ("{ mempool { transactions(order: ARRIVAL) { totalCount } } }".to_owned(), 3),
        (
            format!(
                "{{ script(scriptPubKey: \"{script}\") {{ transactions(filter: {{ minAbsNet: 9000000000000000, includeMempool: false }}) {{ totalCount }} }} }}"
            ),
            3 + transactions.div_ceil(3),
        ),
        (
            format!(
                "{{ script(scriptPubKey: \"{script}\") {{ utxos(filter: {{ minValue: 9000000000000000, includeSpentInMempool: true, minConfirmations: 1 }}) {{ totalCount }} }} }}"
            ),
            3 + utxos.div_ceil(3),
        ),
    ] {
        assert_eq!(api.cost(&query), expected, "{query}");
    }
}

#[test]
fn a_fee_histogram_costs_what_it_reads_of_the_mempool() {
    let (chain, coins) = chain_with_coins(1_000);
    let mut api = Api::of_chain(&chain);
    api.arrive(&coins.iter().map(|coin| paying(*coin, 1_000)).collect::<Vec<_>>());
    for effective in [false, true] {
        let query = format!("{{ mempool {{ feeHistogram(bins: [], effective: {effective}) {{ fromRate }} }} }}");
        // two fields, a bin with its field, and 50 transactions for 1
        assert_eq!(api.cost(&query), 2 + 2 + 20, "{query}");
    }
}

#[test]
fn the_worst_case_of_a_filter_is_a_scan_of_all_rows_that_a_page_may_read() {
    let chain = chain(5);
    let api = Api::of_chain_within(&chain, Limits { worst_case_complexity: 1, ..Limits::default() });
    let worst_case = |query: &str| refusal(&api.ask(query))["actual"].as_u64().unwrap();
    for (query, expected) in [
        ("{ transactions { totalCount } }", 28),
        ("{ transactions(filter: {}) { totalCount } }", 28),
        ("{ transactions(filter: { isCoinbase: true }) { totalCount } }", 20_028),
        ("{ tip { transactions(filter: { isCoinbase: true }) { totalCount } } }", 3_029),
        ("{ blocks(filter: { minTxCount: 2 }) { totalCount } }", 6_666 + 28),
        ("{ blocks(filter: { isEmpty: false }) { totalCount } }", 6_666 + 28),
        ("{ blocks(filter: { isEmpty: true, miner: \"a\" }) { totalCount } }", 6_666 + 28 + 26 * 10),
        ("{ blocks(filter: { isEmpty: true }) { totalCount } }", 28 + 26 * 10),
        ("{ blocks(filter: { miner: \"a\" }) { totalCount } }", 28),
    ] {
        assert_eq!(worst_case(query), expected, "{query}");
    }
}
