//! Filters that the index cannot seek: pages end at the limit of rows with what they have, and lead on.

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Network, OutPoint, ScriptBuf, TxOut, Witness};
use btcgraph::limits::Limits;
use btcgraph::sim::{Owner, Reward, Rng, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use super::expected::{Scripts, Truth, UTXO, hostile_chain, known_scripts, name, set};
use super::walk::List;
use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::{Api, branch, coinbase_output, sat, spend, spend_outputs};

fn limited(chain: &SimChain, scan_rows: u32) -> Api {
    Api::of_chain_within(chain, Limits { scan_rows, ..Limits::default() })
}

/// A field so many times, each under a name of its own.
fn repeated(field: &str, times: usize) -> String {
    (0..times).map(|number| format!("f{number}: {field}")).collect::<Vec<_>>().join("\n")
}

/// Filtered lists, and their rows.
fn filtered(truth: &Truth, past: &Truth, owner: &str, scripts: &Scripts) -> Vec<(List, Vec<Value>)> {
    let entries = truth.entries(scripts);
    let txnums: Vec<u32> = truth.txnums(scripts).into_iter().collect();
    let keep = |kept: &dyn Fn(u32, &Value) -> bool| {
        let rows = txnums.iter().zip(&entries).filter(|(txnum, entry)| kept(**txnum, entry));
        rows.map(|(_, entry)| entry["transaction"].clone())
            .map(|transaction| json!({ "transaction": transaction }))
            .collect::<Vec<_>>()
    };
    let list = |field, arguments: &str, row| List::new(owner, field, arguments, row);
    let transactions = |arguments: &str| list("transactions", arguments, "transaction { txid }");
    let newest = |mut rows: Vec<Value>| {
        rows.reverse();
        rows
    };
    let large = 2_000_000_000;
    let coins = |truth: &Truth, kept: &dyn Fn(&Value) -> bool| {
        truth.utxos(scripts).into_iter().filter(|coin| kept(coin)).collect::<Vec<_>>()
    };
    let ripe = |coin: &Value, tip: u32| coin["matureAtHeight"].as_u64().is_none_or(|at| at <= u64::from(tip) + 1);
    vec![
        (transactions("order: ASC, filter: { direction: IN }"), keep(&|txnum, _| truth.ways(txnum, scripts).0)),
        (transactions("filter: { direction: OUT }"), newest(keep(&|txnum, _| truth.ways(txnum, scripts).1))),
        (
            transactions(&format!("filter: {{ minAbsNet: {large} }}")),
            newest(keep(&|_, entry| entry["net"].as_i64().unwrap().unsigned_abs() >= large)),
        ),
        (transactions("order: ASC, filter: { coinbaseOnly: true }"), keep(&|txnum, _| truth.is_coinbase(txnum))),
        (
            transactions("order: ASC, filter: { coinbaseOnly: true, direction: IN, range: { heights: { from: 1 } } }"),
            keep(&|txnum, _| txnum > 0 && truth.is_coinbase(txnum)),
        ),
        (
            list("utxos", &format!("filter: {{ minValue: {large} }}"), UTXO),
            coins(truth, &|coin| coin["value"].as_u64() >= Some(large)),
        ),
        (list("utxos", "filter: { includeImmature: false }", UTXO), coins(truth, &|coin| ripe(coin, truth.tip()))),
        (list("utxos", &format!("at: {{ height: {} }}", past.tip()), UTXO), past.utxos(scripts)),
        (
            list("utxos", &format!("at: {{ height: {} }}, filter: {{ minValue: {large} }}", past.tip()), UTXO),
            coins(past, &|coin| coin["value"].as_u64() >= Some(large)),
        ),
    ]
}

#[test]
fn nothing_is_lost_or_repeated_however_few_rows_a_page_may_read() {
    let (chain, _) = hostile_chain(100, 135);
    let (truth, past) = (Truth::whole(&chain), Truth::at(&chain, 118));
    let scripts: Scripts = known_scripts(&chain).into_iter().step_by(13).collect();
    let owner = set(&scripts, &mut Rng::new(3));
    let mut short_pages = 0;
    for (scan_rows, size) in [(2, 3), (5, 1), (7, 100), (30, 6)] {
        let mut api = limited(&chain, scan_rows);
        for (list, expected) in filtered(&truth, &past, &owner, &scripts) {
            assert_eq!(list.forwards(&mut api, size, |_| ()), expected, "{list:?}, {scan_rows} rows");
            assert_eq!(list.backwards(&mut api, size, |_| ()), expected, "{list:?} backwards, {scan_rows} rows");
            let first = list.page(&api, "first: 50");
            assert!(first.rows.len() <= usize::try_from(scan_rows).unwrap());
            short_pages += u32::from(first.has_next && first.rows.is_empty());
        }
    }
    assert!(short_pages > 5, "{short_pages} pages were empty and led on");
}

#[test]
fn a_filter_hides_the_totals_and_a_long_history_of_several_scripts_its_count() {
    let (chain, _) = hostile_chain(101, 130);
    let truth = Truth::whole(&chain);
    let scripts: Scripts = known_scripts(&chain).into_iter().collect();
    let owner = set(&scripts, &mut Rng::new(4));
    let count = truth.txnums(&scripts).len();
    let ask = "stats { txCount minedBlockCount received } all: transactions(first: 1) { totalCount nodes { net } }
        some: transactions(first: 1, filter: { direction: IN }) { totalCount }
        from: transactions(first: 1, filter: { range: { heights: { from: 101 } } }) { totalCount }
        coins: utxos(first: 1) { totalCount totalValue }
        ripe: utxos(first: 1, filter: { includeImmature: false }) { totalCount totalValue }
        history: balanceHistory(group: HALVING) { turnover { txCount receivedFromSelf } }";
    let figures = truth.figures(&scripts);
    for (scan_rows, known) in [(20_000, true), (10, false)] {
        let data = limited(&chain, scan_rows).data(&format!("{{ owner: {owner} {{ {ask} }} }}"));
        let found = &data["owner"];
        let or_null = |value: Value| if known { value } else { Value::Null };
        assert_eq!(found["stats"]["txCount"], or_null(json!(count)));
        assert_eq!(found["stats"]["minedBlockCount"], or_null(figures["stats"]["minedBlockCount"].clone()));
        assert_eq!(found["stats"]["received"], figures["stats"]["received"]);
        assert_eq!(found["all"]["totalCount"], or_null(json!(count)));
        let late = truth.txnums(&scripts).into_iter().filter(|txnum| truth.height(*txnum) > 100).count();
        assert_eq!(found["from"]["totalCount"], or_null(json!(late)));
        assert_eq!(found["some"]["totalCount"], Value::Null);
        assert_eq!(found["coins"]["totalCount"], figures["stats"]["utxoCount"]);
        assert_eq!(found["coins"]["totalValue"], figures["balance"]["confirmed"]);
        assert_eq!(found["ripe"], json!({ "totalCount": null, "totalValue": null }));
        let turnover = &found["history"][0]["turnover"];
        assert_eq!([turnover["txCount"].is_u64(), turnover["receivedFromSelf"].is_string()], [known; 2], "{turnover}");
    }
}

#[test]
fn an_answer_reads_no_more_than_it_may_however_often_it_asks() {
    let (chain, _) = hostile_chain(102, 130);
    let truth = Truth::whole(&chain);
    let mut busy: Vec<_> = truth.model.history.iter().collect();
    busy.sort_by_key(|(_, rows)| rows.len());
    let scripts: Scripts = busy.into_iter().rev().take(3).map(|(script, _)| script.clone()).collect();
    let owner = set(&scripts, &mut Rng::new(5));
    let limits = Limits { transaction_bytes: 300_000, complexity: usize::MAX, ..Limits::default() };
    let mut api = Api::empty(Network::Regtest, limits);
    api.change(0, chain.active_blocks().map(std::convert::AsRef::as_ref));
    for field in [
        "stats { txCount }",
        "transactions(first: 0) { totalCount }",
        "coinbaseBlocks(first: 0) { totalCount }",
        "transactions(first: 100) { nodes { net } }",
        "transactions(first: 100, filter: { direction: OUT }) { nodes { net } }",
        "utxos(first: 100) { nodes { value } }",
        "utxos(first: 100, at: { height: 128 }) { nodes { value } }",
    ] {
        let ask = |times: usize| api.ask(&format!("{{ owner: {owner} {{ {} }} }}", repeated(field, times)));
        assert_eq!(ask(1).get("errors"), None, "{field}");
        let refused = ask(600);
        let refusal = &refused["errors"][0]["extensions"];
        assert_eq!(refusal["code"], json!("QUERY_LIMIT_EXCEEDED"), "{field}");
        assert_eq!(refusal["which"], json!("transactionBytes"), "{field}: {refusal}");
    }
}

#[test]
fn a_page_of_a_set_merges_its_histories_only_for_the_total_count() {
    let mut chain = SimChain::new(108);
    let (miner, other) = (SimChain::miner(), Owner::new(ScriptKind::BareTrue, 1));
    let reward = Some(Reward::to(other.script_pubkey()));
    chain.mine_template(Template { reward, ..Template::default() }).unwrap();
    chain.mine_empty(200).unwrap();
    let rows = 201;
    let scripts = json!([miner, other].map(|owner| owner.script_pubkey().to_hex_string()));
    let limits = Limits { transaction_bytes: 128 * (rows + 10), ..Limits::default() };
    let api = Api::of_chain_within(&chain, limits);
    for (list, row) in [("transactions", "net"), ("coinbaseBlocks", "height")] {
        let document = |fields: &str| format!("{{ ledgerSet(of: {{ scripts: {scripts} }}) {{ {fields} }} }}");
        let page = |fields: &str| format!("{list}(first: 1) {{ nodes {{ {row} }} {fields} }}");
        let twice = |fields: &str| document(&format!("one: {0} two: {0}", page(fields)));
        assert_eq!(api.data(&twice(""))["ledgerSet"]["two"]["nodes"].as_array().unwrap().len(), 1, "{list}");
        assert_eq!(api.ask(&twice("totalCount"))["errors"][0]["extensions"]["which"], json!("transactionBytes"));
        let alone = api.cost(&document(&page("")));
        for (name, fields, fragment) in [
            ("totalCount", "totalCount", String::new()),
            ("all", "all: totalCount", String::new()),
            ("totalCount", "... { totalCount }", String::new()),
            ("totalCount", "...F", format!("fragment F on {} {{ totalCount }}", connection_of(list))),
        ] {
            let counted = format!("{} {fragment}", document(&page(fields)));
            assert_eq!(api.data(&counted)["ledgerSet"][list][name], json!(rows), "{counted}");
            // the field itself, and 50 rows for 1
            assert_eq!(api.cost(&counted), alone + 1 + 5, "{counted}");
        }
    }
    // the histories of several are merged for each of these, too
    let stats = |field: &str| format!("{{ ledgerSet(of: {{ scripts: {scripts} }}) {{ stats {{ {field} }} }} }}");
    assert_eq!(["txCount", "minedBlockCount"].map(|field| api.cost(&stats(field))), [api.cost(&stats("used")) + 5; 2]);
    let single = |field: &str| format!("{{ script(scriptPubKey: {}) {{ stats {{ {field} }} }} }}", scripts[0]);
    assert_eq!(api.cost(&single("txCount")), api.cost(&single("used")), "the totals of one have it");
}

/// The type of a list of a ledger.
fn connection_of(list: &str) -> &'static str {
    if list == "coinbaseBlocks" { "BlockConnection" } else { "LedgerEntryConnection" }
}

#[test]
fn a_status_hash_reads_unconfirmed_transactions_within_the_same_limit() {
    let (chain, coins) = chain_with_coins(4);
    let (payer, recipient) = (Owner::new(ScriptKind::BareTrue, 1), Owner::new(ScriptKind::P2wpkh, 9));
    let payments: Vec<_> = coins
        .iter()
        .map(|coin| spend_outputs(payer, &[*coin], &[payer.output(sat(100_000))], vec![recipient.output(sat(99_000))]))
        .collect();
    let mut api = limited(&chain, 3);
    let script = recipient.script_pubkey().to_hex_string();
    let ask = format!("{{ script(scriptPubKey: \"{script}\") {{ stats {{ statusHash }} }} }}");
    api.arrive(&payments[..3]);
    assert!(api.data(&ask)["script"]["stats"]["statusHash"].is_string());
    assert_eq!(api.cost(&ask), 3 + 1, "three fields, and three rows for 1");
    api.arrive(&payments[3..]);
    let refused = api.ask(&ask);
    assert_eq!(refused["data"]["script"]["stats"], json!({ "statusHash": null }));
    let expected = json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "scanRows", "limit": 3, "actual": 4 });
    assert_eq!(refused["errors"][0]["extensions"], expected);
}

/// A transaction with 1,000 small outputs and one of 5,000 to `owner`.
fn wide(owner: Owner) -> impl Iterator<Item = TxOut> {
    std::iter::repeat_n(Owner::new(ScriptKind::BareTrue, 1).output(sat(1)), 1_000).chain([owner.output(sat(5_000))])
}

#[test]
fn transactions_that_are_read_for_a_key_or_a_script_count_as_read() {
    let mut chain = SimChain::new(103);
    let (miner, owner) = (SimChain::miner(), Owner::new(ScriptKind::P2wpkh, 1));
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    // both the payment and the spend are large
    let paid = spend(&chain, miner, &[coinbase_output(&first, 0)], wide(owner).collect());
    chain.mine(vec![paid.clone()]).unwrap();
    let coin = OutPoint { txid: paid.compute_txid(), vout: 1_000 };
    chain.mine(vec![spend(&chain, owner, &[coin], wide(miner).take(1_000).collect())]).unwrap();
    let limits = Limits { transaction_bytes: 100_000, ..Limits::default() };
    let mut api = Api::empty(Network::Regtest, limits);
    api.change(0, chain.active_blocks().map(std::convert::AsRef::as_ref));
    let hash = sha256::Hash::hash(owner.script_pubkey().as_bytes());
    let by_hash = format!("script(scriptHash: \"{hash}\") {{ hex }}");
    let of_address = |field: &str| format!("address(address: \"{}\") {{ {field} }}", name(&owner.script_pubkey()));
    for field in [by_hash, of_address("publicKey"), of_address("utxos(at: { height: 103 }) { totalCount }")] {
        let ask = |times: usize| api.ask(&format!("{{ {} }}", repeated(&field, times)));
        assert_eq!(ask(1).get("errors"), None, "{field}");
        let refused = ask(20);
        assert_eq!(refused["errors"][0]["extensions"]["which"], json!("transactionBytes"), "{field}");
    }
}

#[test]
fn items_without_bytes_count_as_items() {
    let mut chain = SimChain::new(105);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let (miner, items) = (SimChain::miner(), 2_000);
    let mut carrier = vec![0x6a];
    carrier.resize(1 + items, 0);
    let carrier = TxOut { value: sat(0), script_pubkey: ScriptBuf::from_bytes(carrier) };
    let mut transaction = spend(&chain, miner, &[coinbase_output(&first, 0)], vec![carrier]);
    transaction.input[0].witness = Witness::from_slice(&vec![[0_u8; 0]; items]);
    let txid = transaction.compute_txid();
    chain.mine(vec![transaction]).unwrap();
    let api = Api::of_chain_within(&chain, Limits { transaction_bytes: 100_000, ..Limits::default() });
    for (field, list) in [
        ("inputs { nodes { witness } }", "/nodes/0/witness"),
        ("outputs { nodes { opReturn { pushes } } }", "/nodes/0/opReturn/pushes"),
    ] {
        let ask =
            |times: usize| api.ask(&format!("{{ transaction(txid: \"{txid}\") {{ {} }} }}", repeated(field, times)));
        let reported = ask(1);
        let reported = reported["data"]["transaction"]["f0"].pointer(list).and_then(Value::as_array).map(Vec::len);
        assert_eq!(reported, Some(items), "{field}");
        assert_eq!(ask(2)["errors"][0]["extensions"]["which"], json!("transactionBytes"), "{field}");
    }
}

#[test]
fn what_is_asked_of_a_set_counts_for_each_hundred_members_and_what_is_asked_of_its_members_for_each() {
    let chain = SimChain::new(106);
    let api = Api::of_chain_within(&chain, Limits { worst_case_complexity: 1_000, ..Limits::default() });
    let ask = |members: usize, field: &str| {
        let scripts = vec!["\"51\""; members].join(", ");
        api.ask(&format!("{{ ledgerSet(of: {{ scripts: [{scripts}] }}) {{ {field} }} }}"))
    };
    for (members, field) in
        [(250, "balance { confirmed }"), (250, "members { input __typename }"), (0, "members { input }")]
    {
        assert_eq!(ask(members, field).get("errors"), None, "{field}");
    }
    let refused = |members: usize, field: &str| ask(members, field)["errors"][0]["extensions"].clone();
    let actual = |actual: u32, field: &str| {
        json!({
            "code": "QUERY_LIMIT_EXCEEDED", "which": "worstCaseComplexity", "limit": 1_000, "actual": actual, "field": field,
        })
    };
    // 1 + 250 + 3 * (1 + 100 * (1 + 4))
    assert_eq!(
        refused(250, "members { input error { code } ledger { __typename } }"),
        actual(1_754, "ledgerSet.members")
    );
    // 1 + 250 + 3 * (3 + 100 * (1 + 2))
    assert_eq!(
        refused(250, "transactions(first: 100) { nodes { net spent } }"),
        actual(1_160, "ledgerSet.transactions")
    );
}

#[test]
fn the_fee_of_a_stale_transaction_counts_what_it_is_read_from() {
    let mut chain = SimChain::new(107);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let miner = SimChain::miner();
    let large = spend(&chain, miner, &[coinbase_output(&first, 0)], wide(miner).collect());
    chain.mine(vec![large.clone()]).unwrap();
    let coin = OutPoint { txid: large.compute_txid(), vout: 1_000 };
    let small = spend(&chain, miner, &[coin], vec![miner.output(sat(4_000))]);
    let stale = chain.mine(vec![small.clone()]).unwrap();
    let mut api = Api::of_chain_within(&chain, Limits { transaction_bytes: 100_000, ..Limits::default() });
    let blocks = branch(&mut chain, stale.header.prev_blockhash, 2, &[]);
    api.change(1, blocks.iter().map(std::convert::AsRef::as_ref));
    let txid = small.compute_txid();
    let ask = |times: usize| api.ask(&format!("{{ transaction(txid: \"{txid}\") {{ {} }} }}", repeated("fee", times)));
    assert_eq!(ask(1)["data"], json!({ "transaction": { "f0": 1_000 } }));
    assert_eq!(ask(20)["errors"][0]["extensions"]["which"], json!("transactionBytes"));
}

#[test]
fn a_stale_block_that_is_searched_for_a_transaction_counts_as_read() {
    let mut chain = SimChain::new(104);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let miner = SimChain::miner();
    let large = spend(&chain, miner, &[coinbase_output(&first, 0)], wide(miner).collect());
    let stale = chain.mine(vec![large]).unwrap();
    let limits = Limits { transaction_bytes: 100_000, ..Limits::default() };
    let mut api = Api::empty(Network::Regtest, limits);
    api.change(0, chain.active_blocks().map(std::convert::AsRef::as_ref));
    let blocks = branch(&mut chain, stale.header.prev_blockhash, 2, &[]);
    api.change(1, blocks.iter().map(std::convert::AsRef::as_ref));
    let txid = stale.txdata[0].compute_txid();
    let field = format!("transaction(txid: \"{txid}\") {{ state }}");
    let ask = |times: usize| api.ask(&format!("{{ {} }}", repeated(&field, times)));
    assert_eq!(ask(1)["data"], json!({ "f0": { "state": "REORGED_OUT" } }));
    assert_eq!(ask(20)["errors"][0]["extensions"]["which"], json!("transactionBytes"));
    let page =
        api.data(&format!("{{ block(hash: \"{}\") {{ transactions {{ nodes {{ state }} }} }} }}", stale.block_hash()));
    assert_eq!(page["block"]["transactions"]["nodes"].as_array().unwrap().len(), 2);
}
