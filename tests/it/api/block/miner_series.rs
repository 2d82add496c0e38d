//! A mining pool period by period, against its blocks one by one and against the series of the chain.

use btcgraph::limits::Limits;
use serde_json::{Value, json};

use super::miners::{mined, pools, ready_api_of};
use crate::support::api::{Api, error};

const POINT: &str = "startAt endAt firstBlock { height } lastBlock { height } blockCount";

fn series(api: &Api, slug: &str, arguments: &str) -> Value {
    let fields = format!("{POINT} share hashrate stats {{ blockCount emptyBlockCount fees reward }}");
    let asked = format!("{{ chain {{ miner(slug: \"{slug}\") {{ series{arguments} {{ {fields} }} }} }} }}");
    api.data(&asked)["chain"]["miner"]["series"].take()
}

/// What the blocks of a pool at these heights come to.
fn counted(blocks: &[(u64, u64)], heights: std::ops::RangeInclusive<u64>) -> (usize, Value) {
    let own: Vec<u64> = blocks.iter().filter(|(height, _)| heights.contains(height)).map(|(_, fees)| *fees).collect();
    let fees: u64 = own.iter().sum();
    let reward = 5_000_000_000 * u64::try_from(own.len()).unwrap() + fees;
    let empty = own.iter().filter(|fees| **fees == 0).count();
    let stats = json!({
        "blockCount": own.len(), "emptyBlockCount": empty, "fees": fees.to_string(), "reward": reward.to_string(),
    });
    (own.len(), stats)
}

#[test]
fn the_share_of_one_pool_is_what_the_list_of_all_says() {
    let (chain, _) = mined();
    let api = ready_api_of(&chain);
    let fields = "miner { slug } rank share hashrate stats { blockCount emptyBlockCount fees reward } staleBlockCount";
    for range in ["", "(range: { heights: { from: 103, to: 105 } })", "(range: { lastBlocks: 1 })"] {
        let reported = api.data(&format!(
            "{{ chain {{ miners{range} {{ {fields} }}
                tagpool: miner(slug: \"tagpool\") {{ minerShare{range} {{ {fields} }} }}
                paidpool: miner(slug: \"paidpool\") {{ minerShare{range} {{ {fields} }} }}
                f2pool: miner(slug: \"f2pool\") {{ minerShare{range} {{ {fields} }} }} }} }}"
        ));
        for slug in ["tagpool", "paidpool", "f2pool"] {
            let all = reported["chain"]["miners"].as_array().unwrap();
            let listed = all.iter().find(|share| share["miner"]["slug"] == slug);
            let hashrate = all[0]["hashrate"].as_f64().map(|_| 0.0);
            let none = json!({
                "miner": { "slug": slug }, "rank": null, "share": 0.0, "hashrate": hashrate, "staleBlockCount": 0,
                "stats": { "blockCount": 0, "emptyBlockCount": 0, "fees": "0", "reward": "0" },
            });
            assert_eq!(reported["chain"][slug]["minerShare"], *listed.unwrap_or(&none), "{slug} {range}");
        }
        assert_eq!(reported["chain"]["f2pool"]["minerShare"]["rank"], Value::Null);
    }
    let asked =
        "{ chain { miner(slug: \"tagpool\") { minerShare(range: { heights: { from: 3, to: 1000 } }) { share } } } }";
    assert_eq!(api.ask(asked)["errors"][0]["extensions"]["argument"], "range.heights.to");
}

#[test]
fn a_pool_over_time_is_its_blocks_in_the_periods_of_the_chain() {
    let (chain, _) = mined();
    let api = ready_api_of(&chain);
    // the heights of their blocks, with the fees
    let pools =
        [("tagpool", vec![(102, 1_000), (104, 0)]), ("paidpool", vec![(105, 1_000), (107, 0)]), ("f2pool", vec![])];
    let mut without = 0;
    for group in ["BLOCK", "HOUR", "DAY", "WEEK", "MONTH", "EPOCH", "HALVING"] {
        for range in ["", "range: { heights: { from: 60, to: 105 } }, ", "range: { lastBlocks: 4 }, "] {
            let arguments = format!("({range}group: {group})");
            let of_chain = api.data(&format!("{{ chain {{ series{arguments} {{ {POINT} stats {{ hashrate }} }} }} }}"))
                ["chain"]["series"]
                .take();
            for (slug, blocks) in &pools {
                let found = series(&api, slug, &arguments);
                let expected: Vec<Value> = of_chain
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|point| {
                        let height = |name: &str| point[name]["height"].as_u64().unwrap();
                        let (own, stats) = counted(blocks, height("firstBlock")..=height("lastBlock"));
                        let share = f64::from(u32::try_from(own).unwrap()) / point["blockCount"].as_f64().unwrap();
                        let mut expected = point.clone();
                        expected["share"] = json!(share);
                        expected["hashrate"] = json!(point["stats"]["hashrate"].as_f64().map(|all| all * share));
                        expected["stats"] = stats;
                        without += usize::from(own == 0);
                        expected
                    })
                    .collect();
                assert_eq!(found, json!(expected), "{slug} {arguments}");
            }
        }
    }
    assert!(without > 100, "{without} points without a block of the pool");
}

#[test]
fn a_point_of_a_pool_has_its_share_of_the_blocks() {
    let (chain, _) = mined();
    let api = ready_api_of(&chain);
    let found = series(&api, "tagpool", "(range: { lastBlocks: 4 }, group: EPOCH)");
    let point = &found[0];
    // the blocks from 104 to 107, of which the pool has the first
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    assert_eq!((&point["blockCount"], &point["share"]), (&json!(4), &json!(0.25)));
    assert_eq!((&point["firstBlock"], &point["lastBlock"]), (&json!({ "height": 104 }), &json!({ "height": 107 })));
    // regtest: two hashes a block, which come every 600 seconds
    let hashrate = point["hashrate"].as_f64().unwrap();
    assert!((hashrate - 2.0 / 600.0 / 4.0).abs() < 1e-12, "{hashrate}");
    let stats = json!({ "blockCount": 1, "emptyBlockCount": 1, "fees": "0", "reward": "5000000000" });
    assert_eq!(point["stats"], stats);
}

#[test]
fn what_chooses_no_points_of_a_pool_is_refused() {
    let (chain, _) = mined();
    let mut api = Api::of_chain_within(&chain, Limits { points: 20, ..Limits::default() });
    api.set_pools(pools());
    let asked = |api: &Api, arguments: &str| {
        api.ask(&format!("{{ chain {{ miner(slug: \"tagpool\") {{ series{arguments} {{ share }} }} }} }}"))
    };
    let not_ready = asked(&api, "(group: MONTH)");
    assert_eq!(not_ready["errors"][0]["extensions"]["code"], json!("NOT_READY"));
    api.tend_tables();
    let path = json!(["chain", "miner", "series"]);
    for (arguments, argument, message) in [
        (
            "(range: { heights: { from: 9, to: 3 } })",
            "range.heights.from",
            "range.heights.from is 9, and range.heights.to is 3, which is below it",
        ),
        ("(range: { lastBlocks: 0 })", "range.lastBlocks", "range.lastBlocks is 0: a range has at least one block"),
    ] {
        let expected = json!([error(&path, 36, message, &json!({ "code": "BAD_USER_INPUT", "argument": argument }))]);
        assert_eq!(asked(&api, arguments)["errors"], expected, "{arguments}");
    }
    let refused = asked(&api, "(group: BLOCK)");
    assert_eq!(refused["errors"][0]["extensions"]["code"], json!("QUERY_LIMIT_EXCEEDED"), "{refused}");
    assert_eq!(refused["errors"][0]["extensions"]["actual"], json!(108), "{refused}");
    let none = asked(&api, "(range: { heights: { from: 9000 } })");
    assert_eq!(none["data"]["chain"]["miner"]["series"], json!([]), "{none}");
}
