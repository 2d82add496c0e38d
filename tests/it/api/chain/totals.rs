//! The chain as a whole: its coins, sums over ranges of blocks, and its main figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use bitcoin::{Block, Network};
use btcgraph::sim::{Hostile, Rng, SimChain};
use serde_json::{Value, json};

use crate::support::api::{Api, branch};
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::model::{BlockTotals, Model};

const SUPPLY: &str = "height subsidyIssued circulating unspendable genesis bip30 unspendableScripts unclaimedRewards";

fn chain_field(api: &Api, field: &str) -> Value {
    let mut data = api.data(&format!("{{ chain {{ found: {field} }} }}"));
    data["chain"]["found"].take()
}

fn sum(blocks: &[BlockTotals], of: impl Fn(&BlockTotals) -> u64) -> u64 {
    blocks.iter().map(of).sum()
}

/// What coinbases paid that the block after `height` may not spend.
fn immature(chain: &mut SimChain, height: u32) -> u64 {
    let hash = chain.hash_at(height.into()).unwrap();
    let coins = chain.unspent_at(&hash).unwrap();
    let next = (height + 1).into();
    coins.values().filter(|coin| !coin.is_mature_at(next)).map(|coin| coin.output.value.to_sat()).sum()
}

/// Compares the supply at a height, and the identities that hold for it.
fn assert_supply(api: &Api, chain: &mut SimChain, model: &Model, height: u32) {
    let found = chain_field(api, &format!("supply(at: {{ height: {height} }}) {{ {SUPPLY} immatureCoinbase }}"));
    let blocks = &model.blocks[..=usize::try_from(height).unwrap()];
    let kinds = [
        sum(blocks, |block| block.unspendable.genesis_block),
        sum(blocks, |block| block.unspendable.bip30),
        sum(blocks, |block| block.unspendable.scripts),
        sum(blocks, |block| block.unspendable.unclaimed_rewards),
    ];
    assert_eq!(
        found,
        json!({
            "height": height, "subsidyIssued": sum(blocks, |block| block.subsidy).to_string(),
            "circulating": blocks.last().unwrap().utxo_value.to_string(),
            "unspendable": kinds.iter().sum::<u64>().to_string(),
            "genesis": kinds[0].to_string(), "bip30": kinds[1].to_string(),
            "unspendableScripts": kinds[2].to_string(), "unclaimedRewards": kinds[3].to_string(),
            "immatureCoinbase": immature(chain, height).to_string(),
        })
    );
    let number = |name: &str| found[name].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(number("circulating") + number("unspendable"), number("subsidyIssued"), "at height {height}");
}

fn assert_range(api: &Api, model: &Model, from: u32, to: u32) {
    let found = chain_field(
        api,
        &format!(
            "range(of: {{ heights: {{ from: {from}, to: {to} }} }}) {{ fromHeight toHeight blockCount txCount inputCount outputCount
                outputValue fees subsidy chainwork utxoDelta emptyBlockCount }}"
        ),
    );
    let (first, last) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
    let blocks = &model.blocks[first..=last];
    let before = first.checked_sub(1).map_or(0, |before| model.blocks[before].utxo_count);
    let utxos = |count: u64| i64::try_from(count).unwrap();
    let total = |of: fn(&BlockTotals) -> u64| sum(blocks, of);
    assert_eq!(
        found,
        json!({
            "fromHeight": from, "toHeight": to, "blockCount": to - from + 1,
            "txCount": total(|block| block.transactions.into()), "inputCount": total(|block| block.inputs.into()),
            "outputCount": total(|block| block.outputs.into()),
            "outputValue": total(|block| block.output_value).to_string(),
            "fees": total(|block| block.fees).to_string(), "subsidy": total(|block| block.subsidy).to_string(),
            // regtest: two hashes a block
            "chainwork": format!("{:064x}", u64::from(to - from + 1) * 2),
            "utxoDelta": utxos(model.blocks[last].utxo_count) - utxos(before),
            "emptyBlockCount": blocks.iter().filter(|block| block.transactions == 1).count(),
        })
    );
}

#[test]
fn coins_and_sums_agree_with_the_model_through_growth_reorganisations_and_repeated_coinbases() {
    let (mut chain, mut hostile, mut random) = (SimChain::new(80), Hostile::new(80), Rng::new(80));
    let (mut api, mut fed, mut model) = (Api::of(Network::Regtest, []), Vec::<Arc<Block>>::new(), Model::default());
    let mut check = |chain: &mut SimChain| {
        let active: Vec<_> = chain.active_blocks().cloned().collect();
        let shared = fed.iter().zip(&active).take_while(|(one, other)| one.block_hash() == other.block_hash()).count();
        api.change(u32::try_from(fed.len() - shared).unwrap(), active[shared..].iter().map(Arc::as_ref));
        fed = active;
        model.follow(fed.iter().map(Arc::as_ref));
        let tip = u64::from(chain.height().to_u32());
        let mut height = || u32::try_from(random.between(0, tip)).unwrap();
        for _ in 0..4 {
            assert_supply(&api, chain, &model, height());
            let (one, other) = (height(), height());
            assert_range(&api, &model, one.min(other), one.max(other));
        }
        let tip = chain.height().to_u32();
        assert_supply(&api, chain, &model, tip);
        assert_supply(&api, chain, &model, 0);
        assert_range(&api, &model, 0, tip);
        assert_range(&api, &model, tip, tip);
    };
    check(&mut chain);
    for step in 0..130 {
        hostile.mine(&mut chain).unwrap();
        if step % 16 == 0 {
            check(&mut chain);
        }
    }
    for depth in [1, 5, 40] {
        hostile.branch(&mut chain, depth, depth + 1).unwrap();
        check(&mut chain);
    }
    for spent in 0..=3 {
        let (_, later) = hostile.repeat_coinbase(&mut chain, spent).unwrap();
        check(&mut chain);
        // once more, while the copy before it is still immature
        for _ in 0..30 {
            hostile.mine(&mut chain).unwrap();
        }
        chain.mine_duplicate_coinbase(&later, Vec::new()).unwrap();
        check(&mut chain);
        hostile.mine(&mut chain).unwrap();
        check(&mut chain);
    }
}

#[test]
fn the_coins_are_those_that_a_node_counts_at_every_height() {
    let Some(node) = RealNode::start(&["-coinstatsindex=1"]) else { return };
    let (mut chain, mut hostile) = (SimChain::new(81), Hostile::new(81));
    for _ in 0..150 {
        let block = hostile.mine(&mut chain).unwrap();
        let hex = bitcoin::consensus::encode::serialize_hex(block.as_ref());
        assert_eq!(node.must("submitblock", &[json!(hex)]), Value::Null);
    }
    wait_for("the node to index its coins", std::time::Duration::from_mins(1), || {
        let index = node.must("getindexinfo", &[json!("coinstatsindex")]);
        (index["coinstatsindex"]["best_block_height"] == json!(150)).then_some(())
    });
    let sat = |amount: &Value| (amount.as_f64().unwrap() * 100_000_000.0).round();
    let api = Api::of_chain(&chain);
    let mut kinds =
        BTreeMap::from([("genesis_block", 0.0), ("bip30", 0.0), ("scripts", 0.0), ("unclaimed_rewards", 0.0)]);
    for height in 0..=150 {
        let core = node.must("gettxoutsetinfo", &[json!("none"), json!(height)]);
        for (kind, sum) in &mut kinds {
            *sum += sat(&core["block_info"]["unspendables"][kind]);
        }
        let set =
            chain_field(&api, &format!("utxoSet(at: {{ height: {height} }}) {{ height unspentCount totalValue }}"));
        let found = chain_field(&api, &format!("supply(at: {{ height: {height} }}) {{ {SUPPLY} }}"));
        let circulating: u64 = found["circulating"].as_str().unwrap().parse().unwrap();
        let unspent = json!({ "height": height, "unspentCount": core["txouts"], "totalValue": circulating });
        assert_eq!(set, unspent);
        let expected = [
            ("circulating", sat(&core["total_amount"])),
            ("unspendable", sat(&core["total_unspendable_amount"])),
            ("subsidyIssued", sat(&core["total_amount"]) + sat(&core["total_unspendable_amount"])),
            ("genesis", kinds["genesis_block"]),
            ("bip30", kinds["bip30"]),
            ("unspendableScripts", kinds["scripts"]),
            ("unclaimedRewards", kinds["unclaimed_rewards"]),
        ];
        for (name, expected) in expected {
            let found: f64 = found[name].as_str().unwrap().parse().unwrap();
            assert!((found - expected).abs() < 0.5, "{name} at height {height}: {found}, and the node says {expected}");
        }
    }
    assert!(kinds["scripts"] > 0.0 && kinds["unclaimed_rewards"] > 0.0, "{kinds:?}");
}

/// 31 blocks ten minutes apart.
fn quiet_chain() -> SimChain {
    let mut chain = SimChain::new(82).with_clock(1_700_000_000, 600);
    chain.mine_empty(30).unwrap();
    chain
}

#[test]
fn a_range_is_timed_from_the_block_in_front_of_it() {
    let api = Api::of_chain(&quiet_chain());
    let range = chain_field(
        &api,
        "range(of: { heights: { from: 21, to: 24 } }) { startedAt endedAt averageInterval hashrate txPerSecond difficultySum
           size weight }",
    );
    let of = |height: u32| {
        api.data(&format!("{{ block(height: {height}) {{ medianTime difficulty size weight }} }}"))["block"].take()
    };
    let blocks: Vec<Value> = (21..=24).map(of).collect();
    let total = |name: &str| blocks.iter().map(|block| block[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((&range["startedAt"], &range["endedAt"]), (&blocks[0]["medianTime"], &blocks[3]["medianTime"]));
    assert_eq!((&range["size"], &range["weight"]), (&json!(total("size")), &json!(total("weight"))));
    // four blocks of two hashes and one transaction in forty minutes
    for (name, expected) in [
        ("averageInterval", 600.0),
        ("hashrate", 8.0 / 2_400.0),
        ("txPerSecond", 4.0 / 2_400.0),
        ("difficultySum", 4.0 * blocks[0]["difficulty"].as_f64().unwrap()),
    ] {
        let found = range[name].as_f64().unwrap();
        assert!((found - expected).abs() <= expected * 1e-6, "{name} is {found}, not {expected}");
    }
}

#[test]
fn fees_of_a_range_are_divided_by_the_size_of_what_pays_them() {
    let (mut chain, mut hostile) = (SimChain::new(83), Hostile::new(83));
    for _ in 0..130 {
        hostile.mine(&mut chain).unwrap();
    }
    let api = Api::of_chain(&chain);
    let range = chain_field(&api, "range(of: { lastBlocks: 25 }) { fees averageFeeRate }");
    let blocks =
        api.data("{ blocks(first: 25) { nodes { transactions(first: 100) { pageInfo { hasNextPage } nodes { isCoinbase weight } } } } }");
    let mut weight = 0;
    for block in blocks["blocks"]["nodes"].as_array().unwrap() {
        assert_eq!(block["transactions"]["pageInfo"]["hasNextPage"], json!(false));
        let paying = block["transactions"]["nodes"].as_array().unwrap().iter();
        let paying = paying.filter(|transaction| transaction["isCoinbase"] == json!(false));
        weight += paying.map(|transaction| transaction["weight"].as_u64().unwrap()).sum::<u64>();
    }
    let (fees, weight): (f64, f64) =
        (range["fees"].as_str().unwrap().parse().unwrap(), f64::from(u32::try_from(weight).unwrap()));
    let rate = range["averageFeeRate"].as_f64().unwrap();
    assert!(fees > 0.0 && (rate - fees * 4.0 / weight).abs() < 1e-9, "{range}");
    // that of a range of one block is that of the block, and none without fees
    for height in 100..=130 {
        let found = api.data(&format!(
            "{{ block(height: {height}) {{ txCount feeStats {{ averageFeeRate }} }}
                chain {{ range(of: {{ heights: {{ from: {height}, to: {height} }} }}) {{ averageFeeRate }} }} }}"
        ));
        let of_block = &found["block"]["feeStats"]["averageFeeRate"];
        let expected = if found["block"]["txCount"] == json!(1) { &Value::Null } else { of_block };
        assert_eq!(&found["chain"]["range"]["averageFeeRate"], expected, "{height}");
    }
}

#[test]
fn a_range_is_named_by_its_ends_by_its_length_or_not_at_all() {
    let api = Api::of_chain(&quiet_chain());
    for (arguments, ends) in [
        ("", (0, 30)),
        ("(of: { lastBlocks: 1 })", (30, 30)),
        ("(of: { lastBlocks: 31 })", (0, 30)),
        ("(of: { lastBlocks: 2147483647 })", (0, 30)),
        ("(of: { heights: { from: 7 } })", (7, 30)),
        ("(of: { heights: { to: 7 } })", (0, 7)),
        ("(of: { heights: { from: 7, to: 7 } })", (7, 7)),
        ("(of: { heights: {} })", (0, 30)),
        ("(of: { times: { from: \"1970-01-01T00:00:00Z\", to: \"2106-01-01T00:00:00Z\" } })", (0, 30)),
        ("(of: { times: {} })", (0, 30)),
    ] {
        let found = chain_field(&api, &format!("range{arguments} {{ fromHeight toHeight blockCount }}"));
        let expected = json!({ "fromHeight": ends.0, "toHeight": ends.1, "blockCount": ends.1 - ends.0 + 1 });
        assert_eq!(found, expected, "{arguments}");
    }
    for arguments in [
        "(of: { lastBlocks: 0 })",
        "(of: { lastBlocks: -1 })",
        "(of: { times: { from: \"2106-01-01T00:00:00Z\" } })",
        "(of: { times: { to: \"1970-01-01T00:00:00Z\" } })",
        "(of: { heights: { from: -1 } })",
        "(of: { heights: { to: -1 } })",
        "(of: { heights: { from: 31 } })",
        "(of: { heights: { to: 31 } })",
        "(of: { heights: { from: 8, to: 7 } })",
    ] {
        let response = api.ask(&format!("{{ chain {{ id range{arguments} {{ txCount }} }} }}"));
        assert_eq!(response["data"], json!({ "chain": { "id": "Chain:main", "range": null } }), "{arguments}");
        assert_eq!(response["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"), "{arguments}");
    }
}

#[test]
fn the_summary_is_of_the_last_day_by_median_time_past() {
    let mut chain = SimChain::new(84).with_clock(1_700_000_000, 3_600);
    chain.mine_empty(100).unwrap();
    let old = chain.block(&chain.tip()).unwrap().clone();
    let mut api = Api::of_chain(&chain);
    let new = branch(&mut chain, old.header.prev_blockhash, 2, &[]);
    api.change(1, new.iter().map(Arc::as_ref));
    let summary = chain_field(
        &api,
        "summary { blockCount difficulty recentStaleBlockCount totals { txCount outputCount size }
           last24h { blockCount txCount outputValue averageFee subsidy averageInterval hashrate } }",
    );
    let size: usize = chain.active_blocks().map(|block| block.total_size()).sum();
    let outputs: usize = chain.active_blocks().map(|block| block.txdata[0].output.len()).sum();
    let day: Vec<_> = chain.active_blocks().skip(78).collect();
    let paid: u64 = day.iter().flat_map(|block| &block.txdata[0].output).map(|output| output.value.to_sat()).sum();
    assert_eq!(
        summary,
        json!({
            "blockCount": 102, "difficulty": 65_535.0 / 8_388_607.0 / 16_777_216.0, "recentStaleBlockCount": 1,
            "totals": { "txCount": 102, "outputCount": outputs, "size": size },
            "last24h": {
                "blockCount": 24, "txCount": 24, "outputValue": paid.to_string(), "averageFee": null,
                "subsidy": (24 * 5_000_000_000_u64).to_string(), "averageInterval": 3_600.0,
                "hashrate": 2.0 / 3_600.0,
            },
        })
    );
}

#[test]
fn fees_of_the_last_day_need_transactions() {
    let (mut chain, mut hostile) = (SimChain::new(85), Hostile::new(85));
    for _ in 0..120 {
        hostile.mine(&mut chain).unwrap();
    }
    let api = Api::of_chain(&chain);
    let day = chain_field(&api, "summary { last24h { blockCount txCount averageFee } }")["last24h"].take();
    let blocks = day["blockCount"].as_u64().unwrap();
    let range = chain_field(&api, &format!("range(of: {{ lastBlocks: {blocks} }}) {{ fees txCount }}"));
    let fees: u64 = range["fees"].as_str().unwrap().parse().unwrap();
    let paying = range["txCount"].as_u64().unwrap() - blocks;
    assert_eq!(day["averageFee"], json!(fees / paying));
    assert_eq!(day["txCount"], range["txCount"]);

    let median = chain_field(&api, "summary { medianFee24h }")["medianFee24h"].take();
    let tip = api.data("{ tip { height } }")["tip"]["height"].as_u64().unwrap();
    let fields = (tip + 1 - blocks..=tip)
        .map(|height| format!("b{height}: block(height: {height}) {{ txCount feeStats {{ medianFee }} }} "));
    let all = fields
        .collect::<Vec<_>>()
        .chunks(50)
        .map(|some| api.data(&format!("{{ {} }}", some.concat())))
        .collect::<Vec<_>>();
    let all = all.iter().flat_map(|some| some.as_object().unwrap().values());
    let paid = all.filter(|block| block["txCount"].as_u64() > Some(1));
    let mut medians: Vec<u64> = paid.map(|block| block["feeStats"]["medianFee"].as_u64().unwrap()).collect();
    medians.sort_unstable();
    assert!(medians.len() > 3 && medians[0] < medians[medians.len() - 1], "{medians:?}");
    assert_eq!(median, json!(medians[(medians.len() - 1) / 2]));
}

#[test]
fn on_a_chain_of_one_block_what_needs_time_is_null() {
    let chain = SimChain::new(86);
    let api = Api::of_chain(&chain);
    let genesis = chain.tip().to_string();
    assert_eq!(
        api.data(&format!(
            "{{ chain {{ id network genesisHash
                summary {{ blockCount medianFee24h recentStaleBlockCount last24h {{ blockCount hashrate averageFee averageInterval }} }}
                supply {{ {SUPPLY} immatureCoinbase }}
                range {{ blockCount averageInterval hashrate txPerSecond utxoDelta averageFeeRate }} }} }}"
        )),
        json!({ "chain": {
            "id": "Chain:main", "network": "REGTEST", "genesisHash": genesis,
            "summary": {
                "blockCount": 1, "medianFee24h": null, "recentStaleBlockCount": 0,
                "last24h": { "blockCount": 1, "hashrate": null, "averageFee": null, "averageInterval": null },
            },
            "supply": {
                "height": 0, "subsidyIssued": "5000000000", "circulating": "0", "unspendable": "5000000000",
                "genesis": "5000000000", "bip30": "0", "unspendableScripts": "0", "unclaimedRewards": "0",
                "immatureCoinbase": "0",
            },
            "range": {
                "blockCount": 1, "averageInterval": null, "hashrate": null, "txPerSecond": null, "utxoDelta": 0,
                "averageFeeRate": null,
            },
        } })
    );
}

#[test]
fn the_supply_is_known_after_any_block_of_the_main_chain() {
    let chain = quiet_chain();
    let api = Api::of_chain(&chain);
    let hash = chain.hash_at(12.into()).unwrap();
    let time = api.data("{ block(height: 12) { medianTime } }")["block"]["medianTime"].take();
    for (at, height) in [
        (String::new(), 30),
        ("(at: { height: 12 })".to_owned(), 12),
        (format!("(at: {{ hash: \"{hash}\" }})"), 12),
        (format!("(at: {{ time: {time} }})"), 12),
    ] {
        assert_eq!(chain_field(&api, &format!("supply{at} {{ height }}")), json!({ "height": height }), "{at}");
    }
}

#[test]
fn an_empty_index_has_no_chain() {
    let api = Api::of(Network::Regtest, []);
    assert_eq!(api.refusal("{ chain { id } }"), json!("NOT_READY"));
}
