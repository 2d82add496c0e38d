//! The mining pools that blocks are ascribed to.

use std::ops::Range;
use std::sync::Arc;

use bitcoin::{Amount, Block, Network, ScriptBuf, TxOut};
use btcgraph::chain::Height;
use btcgraph::chain::pools::Pools;
use btcgraph::limits::Limits;
use btcgraph::sim::{Hostile, Owner, Reward, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use super::coinbases::coinbase_of;
use crate::support::api::{Api, branch, coinbase_output, error, spend};
use crate::support::cut::IndexForm;

/// Pays the pool that is recognised by its script.
pub(super) const PAID: Owner = Owner::new(ScriptKind::P2wpkh, 41);
pub(super) const OTHER: Owner = Owner::new(ScriptKind::P2wpkh, 42);

/// A pool that writes a tag, and one that is paid.
pub(crate) fn pools() -> Pools {
    let address = bitcoin::Address::from_script(&PAID.script_pubkey(), Network::Regtest).unwrap().to_string();
    let file = json!([
        { "id": 1, "name": "Tag Pool", "addresses": [], "tags": ["/tagged/"], "link": "https://tag.example" },
        { "id": 2, "name": "Paid Pool", "addresses": [address], "tags": ["unused"], "link": "" },
    ]);
    Pools::with_file(Network::Regtest, &file.to_string()).unwrap()
}

/// Mines a block with this tag that pays this owner.
pub(super) fn mine(chain: &mut SimChain, tag: &str, owner: Owner) -> Arc<Block> {
    let reward = Some(Reward::to(owner.script_pubkey()));
    chain.mine_template(Template { reward, tag: tag.as_bytes().to_vec(), ..Template::default() }).unwrap()
}

fn api_of(chain: &SimChain) -> Api {
    let mut api = Api::of_chain(chain);
    api.set_pools(pools());
    api
}

/// What is said of the miner of a block.
fn miner_of(api: &Api, block: &Block) -> Value {
    let hash = block.block_hash();
    let fields = "chainStatus miner { id slug name link } coinbase { minerEvidence }";
    api.data(&format!("{{ block(hash: \"{hash}\") {{ {fields} }} }}"))["block"].take()
}

fn tag_pool() -> Value {
    json!({ "id": "Miner:tagpool", "slug": "tagpool", "name": "Tag Pool", "link": "https://tag.example" })
}

fn paid_pool() -> Value {
    json!({ "id": "Miner:paidpool", "slug": "paidpool", "name": "Paid Pool", "link": null })
}

#[test]
fn a_block_belongs_to_the_pool_that_its_coinbase_names_or_pays() {
    let mut chain = SimChain::new(5);
    let tagged = mine(&mut chain, "by /tagged/", OTHER);
    let paid = mine(&mut chain, "", PAID);
    let both = mine(&mut chain, "/tagged/", PAID);
    let none = mine(&mut chain, "/untagged", OTHER);
    let api = api_of(&chain);
    let reported = |miner: Value, evidence: Value| json!({ "chainStatus": "MAIN", "miner": miner, "coinbase": { "minerEvidence": evidence } });
    assert_eq!(miner_of(&api, &tagged), reported(tag_pool(), json!("COINBASE_TAG")));
    assert_eq!(miner_of(&api, &paid), reported(paid_pool(), json!("PAYOUT_SCRIPT")));
    assert_eq!(miner_of(&api, &both), reported(tag_pool(), json!("COINBASE_TAG")));
    assert_eq!(miner_of(&api, &none), reported(Value::Null, Value::Null));
}

#[test]
fn a_stale_block_keeps_its_pool_and_its_coinbase() {
    let mut chain = SimChain::new(6);
    let fork = chain.tip();
    let left = mine(&mut chain, "/tagged/", OTHER);
    let mut api = api_of(&chain);
    let mut before = api.data(&coinbase_of(&left))["block"].take();
    assert_eq!(before["coinbase"]["matureAtHeight"].take(), json!(101));
    let branch = branch(&mut chain, fork, 2, &[]);
    api.change(1, branch.iter().map(Arc::as_ref));
    let reported = miner_of(&api, &left);
    let evidence = json!({ "minerEvidence": "COINBASE_TAG" });
    assert_eq!(reported, json!({ "chainStatus": "STALE", "miner": tag_pool(), "coinbase": evidence }));
    assert_eq!(api.data(&coinbase_of(&left))["block"], before);
}

#[test]
fn a_pool_is_found_by_its_id() {
    let mut chain = SimChain::new(8);
    chain.mine_empty(1).unwrap();
    let api = api_of(&chain);
    let by_id = |id: &str| {
        api.data(&format!("{{ node(id: \"{id}\") {{ ... on Miner {{ id slug name link }} }} }}"))["node"].take()
    };
    assert_eq!(by_id("Miner:tagpool"), tag_pool());
    let marks = |slug: &str| {
        api.data(&format!("{{ chain {{ miner(slug: \"{slug}\") {{ tags payoutAddresses {{ address }} }} }} }}"))["chain"]["miner"]
            .take()
    };
    assert_eq!(marks("tagpool"), json!({ "tags": ["/tagged/"], "payoutAddresses": [] }));
    let address = bitcoin::Address::from_script(&PAID.script_pubkey(), bitcoin::Network::Regtest).unwrap();
    assert_eq!(
        marks("paidpool"),
        json!({ "tags": ["unused"], "payoutAddresses": [{ "address": address.to_string() }] })
    );
    assert_eq!(by_id("Miner:f2pool")["name"], json!("F2Pool"));
    assert_eq!(by_id("Miner:unknown"), Value::Null);
    assert_eq!(api.refusal("{ node(id: \"Miner:F2Pool\") { id } }"), json!("BAD_USER_INPUT"));
}

/// 101 blocks of nobody, then blocks of the two pools and of nobody, of which some have a transaction with a fee of 1,000 sat.
/// Returns the blocks from height 102 on.
pub(crate) fn mined() -> (SimChain, Vec<Arc<Block>>) {
    let mut chain = SimChain::new(9).with_clock(1_700_000_000, 600);
    let coins: Vec<_> = (0..3).map(|_| coinbase_output(&mine(&mut chain, "", OTHER), 0)).collect();
    chain.mine_empty(98).unwrap();
    let mut coins = coins.into_iter();
    let blocks = [("/tagged/", true), ("", false), ("/tagged/", false), ("paid", true), ("", true), ("paid", false)];
    let blocks = blocks.map(|(tag, pays)| {
        let paid = vec![OTHER.output(Amount::from_sat(4_999_999_000))];
        let transactions = pays.then(|| spend(&chain, OTHER, &[coins.next().unwrap()], paid)).into_iter().collect();
        let (tag, owner) = if tag == "paid" { ("", PAID) } else { (tag, OTHER) };
        let reward = Some(Reward::to(owner.script_pubkey()));
        let tag = tag.as_bytes().to_vec();
        chain.mine_template(Template { reward, tag, transactions, ..Template::default() }).unwrap()
    });
    (chain, blocks.to_vec())
}

pub(crate) fn ready_api_of(chain: &SimChain) -> Api {
    let mut api = api_of(chain);
    api.tend_tables();
    api
}

const SHARES: &str =
    "miner { slug } rank share hashrate staleBlockCount stats { blockCount emptyBlockCount fees reward }";

fn share(miner: &Value, share: f64, hashrate: f64, (blocks, empty, fees, stale): (u64, u64, u64, u64)) -> Value {
    // the subsidy is 50 BTC below height 150
    let reward = (blocks * 5_000_000_000 + fees).to_string();
    let stats = json!({ "blockCount": blocks, "emptyBlockCount": empty, "fees": fees.to_string(), "reward": reward });
    // the two pools have as many blocks as each other
    let rank = miner.as_object().map(|_| 1);
    json!({ "miner": miner, "rank": rank, "share": share, "hashrate": hashrate, "staleBlockCount": stale, "stats": stats })
}

#[test]
fn the_miners_of_a_range_are_counted_and_compared() {
    let (chain, _) = mined();
    let api = ready_api_of(&chain);
    let reported = api.data(&format!(
        "{{ chain {{ range(of: {{ heights: {{ from: 102 }} }}) {{ hashrate }} miners(range: {{ heights: {{ from: 102 }} }}) {{ {SHARES} }} }} }}"
    ))["chain"]
        .take();
    let hashrate = reported["range"]["hashrate"].as_f64().unwrap();
    let third = 2.0 / 6.0;
    let slug = |slug: &str| json!({ "slug": slug });
    let expected = json!([
        share(&slug("tagpool"), third, hashrate * third, (2, 1, 1_000, 0)),
        share(&slug("paidpool"), third, hashrate * third, (2, 1, 1_000, 0)),
        share(&Value::Null, third, hashrate * third, (2, 1, 1_000, 0)),
    ]);
    assert_eq!(reported["miners"], expected);
    let two = api.data("{ chain { miners(range: { heights: { from: 104, to: 104 } }) { miner { slug } share } } }");
    assert_eq!(two["chain"]["miners"], json!([{ "miner": { "slug": "tagpool" }, "share": 1.0 }]));
    let all = api.data("{ chain { miners { miner { slug } stats { blockCount } } } }")["chain"]["miners"].take();
    let stats = |blocks: u32| json!({ "blockCount": blocks });
    let expected = json!([
        { "miner": null, "stats": stats(104) },
        { "miner": slug("tagpool"), "stats": stats(2) },
        { "miner": slug("paidpool"), "stats": stats(2) },
    ]);
    assert_eq!(all, expected);
    let refused = api.ask("{ chain { miners(range: { heights: { from: 900 } }) { share } } }");
    assert_eq!(
        refused["errors"][0]["extensions"],
        json!({ "code": "BAD_USER_INPUT", "argument": "range.heights.from" })
    );
}

#[test]
fn a_reorganisation_moves_blocks_to_the_stale_ones_of_their_miner() {
    let (mut chain, blocks) = mined();
    let mut api = ready_api_of(&chain);
    let branch = branch(&mut chain, blocks[3].block_hash(), 3, &[]);
    api.change(2, branch.iter().map(Arc::as_ref));
    let reported = api.data("{ chain { miners(range: { heights: { from: 102 } }) { miner { slug } staleBlockCount stats { blockCount } } } }")["chain"]["miners"].take();
    let of = |slug: Value, stale: u32, blocks: u32| json!({ "miner": slug, "staleBlockCount": stale, "stats": { "blockCount": blocks } });
    let expected =
        json!(
            [of(Value::Null, 1, 4), of(json!({ "slug": "tagpool" }), 0, 2), of(json!({ "slug": "paidpool" }), 1, 1),]
        );
    assert_eq!(reported, expected);
}

#[test]
fn large_stale_blocks_are_counted_by_their_coinbases() {
    const STALE: u32 = 180;
    let mut chain = SimChain::new(12);
    let coin = coinbase_output(&mine(&mut chain, "", OTHER), 0);
    chain.mine_empty(100).unwrap();
    let parent = chain.tip();
    let data = TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::from_bytes(vec![0x6a; 200_000]) };
    let large = spend(&chain, OTHER, &[coin], vec![data]);
    let siblings = (0..=STALE).map(|number| {
        let tag = if number % 3 == 0 { b"/tagged/".to_vec() } else { Vec::new() };
        let reward = Some(Reward::to(if number % 3 == 1 { PAID } else { OTHER }.script_pubkey()));
        let transactions = vec![large.clone()];
        chain
            .mine_template(Template { parent: Some(parent), transactions, reward, tag, ..Template::default() })
            .unwrap()
    });
    let siblings: Vec<Arc<Block>> = siblings.collect();
    let mut api = ready_api_of(&chain);
    for sibling in &siblings[1..] {
        api.change(1, [sibling.as_ref()]);
    }
    // the stale blocks are larger than what one answer may read
    let stored: u64 = siblings.iter().skip(1).map(|block| u64::try_from(block.total_size()).unwrap()).sum();
    let limit = u64::try_from(Limits::default().transaction_bytes).unwrap();
    assert!(stored > limit, "{stored} bytes are within the limit of {limit}");

    let reported =
        api.data("{ chain { miners { miner { slug } staleBlockCount stats { blockCount } } } }")["chain"]["miners"]
            .take();
    let of = |slug: Value, stale: u32, blocks: u32| json!({ "miner": slug, "staleBlockCount": stale, "stats": { "blockCount": blocks } });
    // the newest of the siblings is on the main chain: the last with a tag
    let expected = json!([of(Value::Null, 60, 102), of(json!({ "slug": "tagpool" }), 60, 1)]);
    assert_eq!(reported, expected);
    let miners = api.data("{ staleBlocks(first: 100) { nodes { miner { slug } } } }")["staleBlocks"]["nodes"].take();
    assert_eq!(miners.as_array().unwrap().len(), 100);
}

#[test]
fn a_pool_lists_its_blocks_both_ways() {
    let (chain, blocks) = mined();
    let api = ready_api_of(&chain);
    let hash = |at: usize| json!({ "hash": blocks[at].block_hash().to_string() });
    let reported = api.data(
        "{ node(id: \"Miner:tagpool\") { ... on Miner {
            stats { blockCount emptyBlockCount fees reward } part: stats(range: { heights: { from: 103, to: 5000 } }) { blockCount reward }
            firstBlock { hash } lastBlock { hash }
            blocks { totalCount nodes { hash } } ascending: blocks(order: ASC, first: 1) { nodes { hash } pageInfo { hasNextPage endCursor } } } } }",
    )["node"]
        .take();
    let cursor = reported["ascending"]["pageInfo"]["endCursor"].clone();
    let expected = json!({
        "stats": { "blockCount": 2, "emptyBlockCount": 1, "fees": "1000", "reward": "10000001000" },
        "part": { "blockCount": 1, "reward": "5000000000" },
        "firstBlock": hash(0),
        "lastBlock": hash(2),
        "blocks": { "totalCount": 2, "nodes": [hash(2), hash(0)] },
        "ascending": { "nodes": [hash(0)], "pageInfo": { "hasNextPage": true, "endCursor": cursor } },
    });
    assert_eq!(reported, expected);
    let next = api.data(&format!(
        "{{ chain {{ miner(slug: \"tagpool\") {{ blocks(order: ASC, after: {cursor}) {{ nodes {{ hash }} pageInfo {{ hasNextPage }} }} }} none: miner(slug: \"x\") {{ id }} }} }}"
    ));
    let page = json!({ "nodes": [hash(2)], "pageInfo": { "hasNextPage": false } });
    assert_eq!(next["chain"], json!({ "miner": { "blocks": page }, "none": null }));
    let none = api.data("{ chain { miner(slug: \"f2pool\") { firstBlock { hash } stats { blockCount reward } blocks { totalCount nodes { hash } } } } }");
    let expected = json!({ "firstBlock": null, "stats": { "blockCount": 0, "reward": "0" }, "blocks": { "totalCount": 0, "nodes": [] } });
    assert_eq!(none["chain"]["miner"], expected);
}

#[test]
fn blocks_are_filtered_by_an_index_where_there_is_one() {
    let (chain, _) = mined();
    let api = ready_api_of(&chain);
    let script = PAID.script_pubkey().to_hex_string();
    let filtered = |filter: &str, rest: &str| {
        let reported = api.data(&format!(
            "{{ blocks(filter: {{ {filter} }}{rest}) {{ totalCount nodes {{ height }} pageInfo {{ hasNextPage }} }} }}"
        ));
        let heights: Vec<i64> = reported["blocks"]["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["height"].as_i64().unwrap())
            .collect();
        (
            heights,
            reported["blocks"]["totalCount"].as_u64(),
            reported["blocks"]["pageInfo"]["hasNextPage"].as_bool().unwrap(),
        )
    };
    assert_eq!(filtered("miner: \"tagpool\"", ""), (vec![104, 102], Some(2), false));
    assert_eq!(filtered("miner: \"tagpool\"", ", first: 1, order: ASC"), (vec![102], Some(2), true));
    assert_eq!(filtered("miner: \"tagpool\"", ", range: { heights: { from: 103 } }"), (vec![104], Some(1), false));
    assert_eq!(filtered(&format!("minerScript: \"{script}\""), ""), (vec![107, 105], Some(2), false));
    let later = ", range: { heights: { from: 106 } }";
    assert_eq!(filtered(&format!("minerScript: \"{script}\""), later), (vec![107], Some(1), false));
    assert_eq!(filtered(&format!("minerScript: \"{script}\", isEmpty: true"), ""), (vec![107], None, false));
    assert_eq!(filtered(&format!("minerScript: \"{script}\", miner: \"tagpool\""), ""), (vec![], None, false));
    assert_eq!(filtered("isEmpty: true", ", first: 4"), (vec![107, 104, 103, 101], Some(105), true));
    assert_eq!(
        filtered("isEmpty: true", ", order: ASC, range: { heights: { from: 102 } }"),
        (vec![103, 104, 107], Some(3), false)
    );
    assert_eq!(filtered("isEmpty: true", ", last: 2"), (vec![1, 0], Some(105), false));
    assert_eq!(filtered("isEmpty: false", ""), (vec![106, 105, 102], None, false));
    assert_eq!(filtered("minTxCount: 2, miner: \"paidpool\"", ""), (vec![105], None, false));
    assert_eq!(filtered("minTxCount: 1, isEmpty: true", ", last: 2"), (vec![1, 0], None, false));
    assert_eq!(filtered("minTxCount: 3", ""), (vec![], None, false));
    assert_eq!(filtered("", ", first: 2"), (vec![107, 106], Some(108), true));
    for (refused, message) in [
        ("miner: \"unknown\"", "filter.miner is \"unknown\", and the server knows no mining pool with this slug"),
        (
            "minTxCount: 2, isEmpty: true",
            "filter.isEmpty is true, and filter.minTxCount is 2, which exclude each other: a block without transactions \
             beside the coinbase has 1",
        ),
        (
            "minerScript: \"6a0400000003\"",
            "filter.minerScript is \"6a0400000003\", which can never be spent: what is paid to such is not in the index",
        ),
        ("minTxCount: -1", "filter.minTxCount is -1, and a count cannot be negative"),
        ("signalsBit: 29", "filter.signalsBit is 29: deployments have the bits 0 to 28 (BIP9)"),
        ("signalsBit: -1", "filter.signalsBit is -1: deployments have the bits 0 to 28 (BIP9)"),
    ] {
        let reported = api.ask(&format!("{{ blocks(filter: {{ {refused} }}) {{ totalCount }} }}"));
        let extensions = json!({ "code": "BAD_USER_INPUT", "argument": message.split_once(' ').unwrap().0 });
        let expected = json!([error(&json!(["blocks"]), 3, message, &extensions)]);
        assert_eq!(reported["errors"], expected, "{refused}");
    }
}

#[test]
fn a_text_that_is_no_slug_is_refused() {
    let (chain, _) = mined();
    let api = api_of(&chain);
    for (text, shown) in [("", "\"\""), ("TagPool", "\"TagPool\""), ("tag pool", "\"tag pool\"")] {
        let answer = api.ask(&format!("{{ chain {{ miner(slug: \"{text}\") {{ name }} }} }}"));
        let message = format!(
            "slug is {shown}: a slug is the name of a pool in lower case, with letters and digits only, at least one"
        );
        let expected =
            error(&json!(["chain", "miner"]), 11, &message, &json!({ "code": "BAD_USER_INPUT", "argument": "slug" }));
        assert_eq!(answer["errors"], json!([expected]));
        assert_eq!(answer["data"], json!({ "chain": { "miner": null } }));
    }
    assert_eq!(api.data("{ chain { miner(slug: \"unknown\") { name } } }"), json!({ "chain": { "miner": null } }));
}

#[test]
fn large_blocks_are_found_among_frozen_and_live_ones() {
    let (mut chain, mut hostile) = (SimChain::new(77), Hostile::new(77));
    for _ in 0..300 {
        hostile.mine(&mut chain).unwrap();
    }
    let counts: Vec<_> = chain.active_blocks().map(|block| block.txdata.len()).collect();
    let most = *counts.iter().max().unwrap();
    for form in [IndexForm::Live, IndexForm::Cut] {
        let api = Api::of_chain_in(form, &chain);
        for least in [0, 1, 2, most / 2, most - 1, most, most + 1] {
            for (from, to) in [(0, counts.len() - 1), (37, 250), (130, 170), (200, 200)] {
                for order in ["ASC", "DESC"] {
                    let asked = format!(
                        "{{ blocks(filter: {{ minTxCount: {least} }}, range: {{ heights: {{ from: {from}, to: {to} }} }},
                            order: {order}, first: 100) {{ nodes {{ height }} }} }}"
                    );
                    let mut expected: Vec<_> = (from..=to).filter(|height| counts[*height] >= least).collect();
                    if order == "DESC" {
                        expected.reverse();
                    }
                    expected.truncate(100);
                    let expected: Vec<_> = expected.into_iter().map(|height| json!({ "height": height })).collect();
                    assert_eq!(api.data(&asked)["blocks"]["nodes"], json!(expected), "{form:?}: {asked}");
                }
            }
        }
        // no frozen block is so large, and of a live one only its row says so
        let (view, huge) = (api.view(), u32::try_from(most).unwrap() + 1);
        let heights = |from: u32, to: u32| Height::from(from)..Height::from(to);
        let first = |range: Range<Height>, upwards| view.next_large_block(range, huge, upwards).unwrap();
        assert_eq!(first(heights(0, 301), false), Some(Height::from(300)));
        let (lowest, frozen) = match form {
            IndexForm::Live => (Height::GENESIS, Some(Height::from(150))),
            IndexForm::Cut => (Height::from(151), None),
        };
        assert_eq!(first(heights(0, 301), true), Some(lowest), "{form:?}");
        assert_eq!(first(heights(0, 151), false), frozen, "{form:?}");
    }
}

#[test]
fn a_page_that_cannot_be_sought_ends_where_its_scan_does() {
    let (chain, _) = mined();
    let limits = Limits { scan_rows: 40, ..Limits::default() };
    let mut api = Api::of_chain_within(&chain, limits);
    api.set_pools(pools());
    api.tend_tables();
    let page = |after: &Value| {
        let reported = api.data(&format!("{{ blocks(filter: {{ minTxCount: 2 }}, after: {after}) {{ nodes {{ height }} pageInfo {{ hasNextPage endCursor }} }} }}"));
        reported["blocks"].clone()
    };
    let first = page(&Value::Null);
    assert_eq!(first["nodes"], json!([{ "height": 106 }, { "height": 105 }, { "height": 102 }]));
    let second = page(&first["pageInfo"]["endCursor"]);
    assert_eq!((&second["nodes"], &second["pageInfo"]["hasNextPage"]), (&json!([]), &json!(true)));
    let third = page(&second["pageInfo"]["endCursor"]);
    assert_eq!((&third["nodes"], &third["pageInfo"]["hasNextPage"]), (&json!([]), &json!(false)));
    // an index needs no scan
    let empty = api.data("{ blocks(filter: { isEmpty: true }, first: 100) { nodes { height } } }");
    assert_eq!(empty["blocks"]["nodes"].as_array().unwrap().len(), 100);
}

#[test]
fn miners_are_not_ready_until_their_table_is_built() {
    let (mut chain, _) = mined();
    let mut api = api_of(&chain);
    let refused = |api: &Api, built: u32| {
        let message = format!("the server has assigned {built} of 108 blocks to mining pools; retry later");
        for (document, path, column) in [
            ("{ blocks(filter: { miner: \"tagpool\" }) { totalCount } }", json!(["blocks"]), 3),
            ("{ chain { miners { share } } }", json!(["chain", "miners"]), 11),
        ] {
            let extensions = json!({ "code": "NOT_READY", "progress": f64::from(built) / 108.0 });
            assert_eq!(api.ask(document)["errors"], json!([error(&path, column, &message, &extensions)]));
        }
        // what is computed when it is asked needs no table
        assert_eq!(
            api.data("{ chain { miner(slug: \"tagpool\") { name } } block(height: 102) { miner { slug } } }")["block"],
            json!({ "miner": { "slug": "tagpool" } })
        );
    };
    refused(&api, 0);
    // the rows of the table of pools before are deleted first
    while api.tend_once(30) {
        if api.ask("{ chain { miners { share } } }")["errors"] == Value::Null {
            break;
        }
    }
    assert_eq!(
        api.data("{ chain { miners { stats { blockCount } } } }")["chain"]["miners"].as_array().unwrap().len(),
        3
    );
    api.connect(&mine(&mut chain, "/tagged/", OTHER));
    let stats = api.data("{ chain { miner(slug: \"tagpool\") { stats { blockCount } } } }");
    assert_eq!(stats["chain"]["miner"], json!({ "stats": { "blockCount": 3 } }));
}
