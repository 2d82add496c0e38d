//! The difficulty: its epochs, and what their blocks make of the next.

use bitcoin::Network;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};

use crate::support::api::{Api, branch, real_chain};

const EPOCH: &str = "index startHeight endHeight startedAt endedAt bits difficulty change actualTimespan isComplete
    stats { blockCount fromHeight toHeight }";
const ADJUSTMENT: &str =
    "epoch { index } progress minedBlockCount remainingBlockCount estimatedChange estimatedAt nextHeight
    averageInterval expectedBlockCount previousChange";

fn adjustment(api: &Api) -> Value {
    api.data(&format!("{{ chain {{ difficultyAdjustment {{ {ADJUSTMENT} }} }} }}"))["chain"]["difficultyAdjustment"]
        .take()
}

#[test]
fn the_first_epochs_of_mainnet_have_their_times() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let api = Api::of(Network::Bitcoin, &blocks);
    let time = |height: usize| i64::from(blocks[height].header.time);
    let answer =
        api.data(&format!("{{ chain {{ one: epoch(index: 1) {{ {EPOCH} }} two: epoch(index: 2) {{ {EPOCH} }} }} }}"));
    let one = json!({
        "index": 1, "startHeight": 2_016, "endHeight": 4_031,
        "startedAt": "2009-01-27T13:38:51Z", "endedAt": answer["chain"]["one"]["endedAt"],
        "bits": 0x1d00_ffff, "difficulty": 1.0, "change": 0.0, "actualTimespan": time(4_031) - time(2_016),
        "isComplete": true, "stats": { "blockCount": 2_016, "fromHeight": 2_016, "toHeight": 4_031 },
    });
    assert_eq!(answer["chain"]["one"], one);
    let two = json!({
        "index": 2, "startHeight": 4_032, "endHeight": 6_047,
        "startedAt": answer["chain"]["two"]["startedAt"], "endedAt": null,
        "bits": 0x1d00_ffff, "difficulty": 1.0, "change": 0.0, "actualTimespan": null,
        "isComplete": false, "stats": { "blockCount": 490, "fromHeight": 4_032, "toHeight": 4_521 },
    });
    assert_eq!(answer["chain"]["two"], two);

    // blocks were slow, and the difficulty could not fall below that of the first
    let reported = adjustment(&api);
    let interval = f64::from(u32::try_from(time(4_521) - time(4_032)).unwrap()) / 489.0;
    let close = |field: &str, expected: f64| {
        let found = reported[field].as_f64().unwrap_or_else(|| panic!("{field}: {reported}"));
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{field}: {found}, and not {expected}");
    };
    close("averageInterval", interval);
    close("progress", 490.0 / 2_016.0);
    close("expectedBlockCount", 1.0 + interval * 489.0 / 600.0);
    close("estimatedChange", 0.0);
    close("previousChange", 0.0);
    assert!(interval > 600.0);
    assert_eq!(reported["epoch"], json!({ "index": 2 }));
    assert_eq!((&reported["minedBlockCount"], &reported["remainingBlockCount"]), (&json!(490), &json!(1_526)));
    assert_eq!(reported["nextHeight"], json!(6_048));
}

#[test]
fn regtest_has_epochs_and_never_another_difficulty() {
    let mut chain = SimChain::new(80).with_clock(1_700_000_000, 300);
    chain.mine_empty(2_017).unwrap();
    let mut api = Api::of_chain(&chain);
    // block 2,016 is the first of its epoch, the next the second
    let reported = adjustment(&api);
    assert_eq!(reported["epoch"], json!({ "index": 1 }));
    assert_eq!((&reported["minedBlockCount"], &reported["nextHeight"]), (&json!(2), &json!(4_032)));
    assert_eq!((&reported["averageInterval"], &reported["estimatedChange"]), (&json!(300.0), &json!(0.0)));
    assert_eq!((&reported["previousChange"], &reported["expectedBlockCount"]), (&json!(0.0), &json!(1.5)));
    // the tip, 2,014 blocks to come and the first of the next epoch
    let tip = api.data("{ tip { timestamp } }")["tip"]["timestamp"].as_u64().unwrap();
    let at = jiff_seconds(reported["estimatedAt"].as_str().unwrap());
    assert_eq!(at, tip + 2_015 * 300);

    // one block alone has nothing to measure by
    api.change(1, []);
    let reported = adjustment(&api);
    for field in ["averageInterval", "estimatedAt", "expectedBlockCount"] {
        assert_eq!(reported[field], Value::Null, "{field}");
    }
    assert_eq!(reported["minedBlockCount"], json!(1));
    // the last of an epoch belongs to it
    api.change(1, []);
    let reported = adjustment(&api);
    assert_eq!((&reported["epoch"], &reported["progress"]), (&json!({ "index": 0 }), &json!(1.0)));
    assert_eq!((&reported["remainingBlockCount"], &reported["previousChange"]), (&json!(0), &Value::Null));
}

/// Seconds since 1970 of a time as answers have it.
fn jiff_seconds(time: &str) -> u64 {
    let time: jiff::Timestamp = time.parse().unwrap();
    time.as_second().try_into().unwrap()
}

#[test]
fn epochs_are_a_list_whose_cursors_stand_on_the_first_block_of_each() {
    let mut chain = SimChain::new(81);
    let mined = chain.mine_empty(4_100).unwrap();
    let mut api = Api::of_chain(&chain);
    let page = |api: &Api, arguments: &str| {
        let fields = "totalCount nodes { index isComplete } edges { cursor } pageInfo { hasNextPage hasPreviousPage }";
        api.data(&format!("{{ chain {{ epochs{arguments} {{ {fields} }} }} }}"))["chain"]["epochs"].take()
    };
    let indexes = |page: &Value| -> Vec<u64> {
        page["nodes"].as_array().unwrap().iter().map(|node| node["index"].as_u64().unwrap()).collect()
    };
    let all = page(&api, "");
    assert_eq!((indexes(&all), &all["totalCount"]), (vec![2, 1, 0], &json!(3)));
    assert_eq!(indexes(&page(&api, "(order: ASC)")), [0, 1, 2]);
    let first = page(&api, "(first: 1)");
    assert_eq!((indexes(&first), &first["pageInfo"]["hasNextPage"]), (vec![2], &json!(true)));
    let rest = page(&api, &format!("(after: {})", first["edges"][0]["cursor"]));
    assert_eq!((indexes(&rest), &rest["pageInfo"]["hasPreviousPage"]), (vec![1, 0], &json!(true)));

    // a branch from below the newest epoch: its first block is another
    let parent = mined[4_000].block_hash();
    let new = branch(&mut chain, parent, 120, &[]);
    api.change(99, new.iter().map(AsRef::as_ref));
    let gone = format!("{{ chain {{ field: epochs(after: {}) {{ totalCount }} }} }}", first["edges"][0]["cursor"]);
    assert_eq!(api.ask(&gone)["errors"][0]["extensions"]["code"], json!("CURSOR_ORPHANED"));
    let kept = page(&api, &format!("(after: {})", all["edges"][1]["cursor"]));
    assert_eq!(indexes(&kept), [0]);

    let epoch = |arguments: &str| api.ask(&format!("{{ chain {{ epoch({arguments}) {{ index }} }} }}"));
    assert_eq!(epoch("index: 3")["data"]["chain"], json!({ "epoch": null }));
    assert_eq!(epoch("index: 2147483647"), json!({ "data": { "chain": { "epoch": null } } }));
    assert_eq!(epoch("index: -1")["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"));
}

#[test]
fn the_pace_of_a_young_chain_is_that_of_its_mined_blocks() {
    // the genesis block of regtest is of 2011
    let mut chain = SimChain::new(82).with_clock(1_700_000_000, 300);
    chain.mine_empty(1).unwrap();
    let mut api = Api::of_chain(&chain);
    let found = adjustment(&api);
    for field in ["averageInterval", "estimatedAt", "expectedBlockCount"] {
        assert_eq!(found[field], Value::Null, "{field} of one mined block");
    }
    let mined = chain.mine_empty(10).unwrap();
    api.change(0, mined.iter().map(AsRef::as_ref));
    let found = adjustment(&api);
    assert_eq!((&found["minedBlockCount"], &found["averageInterval"]), (&json!(12), &json!(300.0)));
    assert_eq!(found["expectedBlockCount"], json!(2.0 + 5.0));
    let tip = api.data("{ tip { timestamp } }")["tip"]["timestamp"].as_u64().unwrap();
    assert_eq!(jiff_seconds(found["estimatedAt"].as_str().unwrap()), tip + 2_005 * 300);
}

#[test]
fn an_epoch_is_found_by_the_hash_of_its_first_block() {
    let mut chain = SimChain::new(83);
    let mined = chain.mine_empty(2_020).unwrap();
    let api = Api::of_chain(&chain);
    // mined[0] is at height 1
    let first = mined[2_015].block_hash();
    let epoch = json!({ "id": format!("DifficultyEpoch:{first}"), "index": 1 });
    assert_eq!(api.data("{ chain { epoch(index: 1) { id index } } }")["chain"]["epoch"], epoch);
    let by_id = |id: &str| {
        let document = format!("{{ node(id: \"{id}\") {{ id ... on DifficultyEpoch {{ index }} }} }}");
        api.data(&document)["node"].clone()
    };
    assert_eq!(by_id(&format!("DifficultyEpoch:{first}")), epoch);
    let inside = mined[2_016].block_hash();
    assert_eq!(by_id(&format!("DifficultyEpoch:{inside}")), Value::Null, "not the first of its epoch");
}

#[test]
fn a_block_leads_to_its_epoch_and_the_epoch_to_its_blocks() {
    let mut chain = SimChain::new(84);
    let mined = chain.mine_empty(2_020).unwrap();
    let mut api = Api::of_chain(&chain);
    let epoch = |api: &Api, block: &str| {
        api.data(&format!("{{ block({block}) {{ epoch {{ index }} }} }}"))["block"]["epoch"].take()
    };
    for (height, index) in [(0, 0), (2_015, 0), (2_016, 1), (2_020, 1)] {
        assert_eq!(epoch(&api, &format!("height: {height}")), json!({ "index": index }), "of block {height}");
    }
    let page = |api: &Api, index: u32, arguments: &str| {
        let fields = "totalCount nodes { height } pageInfo { endCursor hasNextPage hasPreviousPage }";
        let query = format!("{{ chain {{ epoch(index: {index}) {{ blocks{arguments} {{ {fields} }} }} }} }}");
        api.data(&query)["chain"]["epoch"]["blocks"].take()
    };
    let heights = |page: &Value| -> Vec<u64> {
        page["nodes"].as_array().unwrap().iter().map(|node| node["height"].as_u64().unwrap()).collect()
    };
    let newest = page(&api, 1, "");
    assert_eq!((heights(&newest), &newest["totalCount"]), (vec![2_020, 2_019, 2_018, 2_017, 2_016], &json!(5)));
    let lowest = page(&api, 0, "(order: ASC, first: 3)");
    assert_eq!((heights(&lowest), &lowest["totalCount"]), (vec![0, 1, 2], &json!(2_016)));
    let next = page(&api, 0, &format!("(order: ASC, first: 2, after: {})", lowest["pageInfo"]["endCursor"]));
    assert_eq!((heights(&next), &next["pageInfo"]["hasPreviousPage"]), (vec![3, 4], &json!(true)));
    let ends = page(&api, 0, "(order: ASC, last: 2)");
    assert_eq!((heights(&ends), &ends["pageInfo"]["hasNextPage"]), (vec![2_014, 2_015], &json!(false)));

    // a stale block belongs to no epoch of the main chain
    let new = branch(&mut chain, mined[2_018].block_hash(), 2, &[]);
    api.change(1, new.iter().map(AsRef::as_ref));
    assert_eq!(epoch(&api, &format!("hash: \"{}\"", mined[2_019].block_hash())), Value::Null);
    assert_eq!(heights(&page(&api, 1, "(first: 2)")), [2_021, 2_020]);
}

#[test]
fn the_next_halving_is_estimated_at_the_pace_of_the_last_blocks() {
    let halving = |api: &Api| {
        let fields = "index subsidy nextSubsidy nextHeight remainingBlockCount estimatedAt";
        api.data(&format!("{{ chain {{ halving {{ {fields} }} }} }}"))["chain"]["halving"].take()
    };
    let mut chain = SimChain::new(85).with_clock(1_700_000_000, 300);
    chain.mine_empty(1).unwrap();
    let mut api = Api::of_chain(&chain);
    let found = halving(&api);
    let young = json!({
        "index": 0, "subsidy": 5_000_000_000_u64, "nextSubsidy": 2_500_000_000_u64, "nextHeight": 150,
        "remainingBlockCount": 148, "estimatedAt": null,
    });
    assert_eq!(found, young, "one mined block has no pace");

    let mined = chain.mine_empty(148).unwrap();
    api.change(0, mined.iter().map(AsRef::as_ref));
    let found = halving(&api);
    assert_eq!((&found["nextHeight"], &found["remainingBlockCount"]), (&json!(150), &json!(0)));
    let tip = api.data("{ tip { timestamp } }")["tip"]["timestamp"].as_u64().unwrap();
    assert_eq!(jiff_seconds(found["estimatedAt"].as_str().unwrap()), tip + 300);

    let mined = chain.mine_empty(1).unwrap();
    api.change(0, mined.iter().map(AsRef::as_ref));
    let found = halving(&api);
    assert_eq!((&found["index"], &found["nextHeight"]), (&json!(1), &json!(300)));
    assert_eq!((&found["subsidy"], &found["nextSubsidy"]), (&json!(2_500_000_000_u64), &json!(1_250_000_000)));
    assert_eq!(found["remainingBlockCount"], json!(149));
    assert_eq!(jiff_seconds(found["estimatedAt"].as_str().unwrap()), tip + 300 + 150 * 300);
    let subsidy = api.data("{ tip { subsidy } }")["tip"]["subsidy"].take();
    assert_eq!(subsidy, found["subsidy"], "the tip is the first block of its halving epoch");
}
