//! Lists of blocks: pages of the main chain and of stale blocks, blocks by many hashes, headers.

use std::sync::Arc;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::Hash;
use bitcoin::{Block, Network};
use btcgraph::limits::Limits;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};

use crate::support::api::{Api, branch, real_chain};
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(
    pages_of_blocks_put_together_are_the_chain_in_both_orders_and_directions_while_blocks_arrive,
    blocks_are_chosen_by_height_and_by_median_time_past
);

fn page(api: &Api, list: &str, arguments: &str) -> Value {
    let mut data = api.data(&format!(
        "{{ {list}({arguments}) {{ nodes {{ height hash }} totalCount
            pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} }} }}"
    ));
    data[list].take()
}

fn hashes(page: &Value) -> Vec<String> {
    page["nodes"].as_array().unwrap().iter().map(|node| node["hash"].as_str().unwrap().to_owned()).collect()
}

/// All pages put together; after the first, something happens to the chain.
fn walk(
    api: &mut Api,
    list: &str,
    arguments: &str,
    (forwards, size): (bool, usize),
    mut happen: impl FnMut(&mut Api),
) -> Vec<String> {
    let (count, from, more, end) = if forwards {
        ("first", "after", "hasNextPage", "endCursor")
    } else {
        ("last", "before", "hasPreviousPage", "startCursor")
    };
    let (mut all, mut cursor, mut first) = (Vec::new(), Value::Null, true);
    loop {
        let page = page(api, list, &format!("{count}: {size}, {from}: {cursor} {arguments}"));
        let rows = hashes(&page);
        assert!(rows.len() <= size);
        if forwards {
            all.extend(rows);
        } else {
            all.splice(0..0, rows);
        }
        if page["pageInfo"][more] == json!(false) {
            return all;
        }
        cursor = page["pageInfo"][end].clone();
        if std::mem::take(&mut first) {
            happen(api);
        }
    }
}

fn hash_of(block: &Arc<Block>) -> String {
    block.block_hash().to_string()
}

fn pages_of_blocks_put_together_are_the_chain_in_both_orders_and_directions_while_blocks_arrive(form: IndexForm) {
    let mut chain = SimChain::new(70);
    chain.mine_empty(60).unwrap();
    let mut api = Api::of_chain_in(form, &chain);
    for size in 1..=100 {
        for (way, (order, forwards)) in
            [("ASC", true), ("ASC", false), ("DESC", true), ("DESC", false)].into_iter().enumerate()
        {
            let arrives = size % 4 == way;
            let before: Vec<String> = chain.active_blocks().map(hash_of).collect();
            let found = walk(&mut api, "blocks", &format!("order: {order}"), (forwards, size), |api| {
                if arrives {
                    api.connect(&chain.mine(Vec::new()).unwrap());
                }
            });
            // a walk that ends at the tip comes by what has arrived there, one that began there does not
            let towards_tip = forwards == (order == "ASC");
            let mut expected: Vec<String> =
                if towards_tip { chain.active_blocks().map(hash_of).collect() } else { before };
            if order == "DESC" {
                expected.reverse();
            }
            assert_eq!(found, expected, "{order}, forwards {forwards}, {size} at a time");
        }
    }
}

#[test]
fn blocks_are_listed_from_the_newest_by_default() {
    let mut chain = SimChain::new(71);
    chain.mine_empty(30).unwrap();
    let api = Api::of_chain(&chain);
    let newest: Vec<String> = chain.active_blocks().map(hash_of).collect::<Vec<_>>().into_iter().rev().collect();
    for arguments in ["first: null", "order: DESC", "order: null"] {
        let page = page(&api, "blocks", arguments);
        assert_eq!(hashes(&page), newest[..25], "{arguments}");
        assert_eq!((&page["totalCount"], &page["pageInfo"]["hasNextPage"]), (&json!(31), &json!(true)));
    }
}

fn blocks_are_chosen_by_height_and_by_median_time_past(form: IndexForm) {
    // median times past of 0 to 10, which is the median of fewer than eleven, then ten minutes apart
    let mut chain = SimChain::new(72).with_clock(1_700_000_000, 600);
    chain.mine_empty(30).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let median = |height: u32| {
        let data = api.data(&format!("{{ block(height: {height}) {{ medianTime }} }}"));
        data["block"]["medianTime"].as_str().unwrap().to_owned()
    };
    let heights = |arguments: &str| {
        let page = page(&api, "blocks", &format!("first: 100, order: ASC, {arguments}"));
        let heights: Vec<u64> =
            page["nodes"].as_array().unwrap().iter().map(|node| node["height"].as_u64().unwrap()).collect();
        assert_eq!(page["totalCount"], json!(heights.len()), "{arguments}");
        heights
    };
    let (at_20, at_25) = (median(20), median(25));
    for (arguments, expected) in [
        ("range: { heights: { from: 0, to: 0 } }".to_owned(), 0..1),
        ("range: { heights: { from: 28 } }".to_owned(), 28..31),
        ("range: { heights: { to: 2 } }".to_owned(), 0..3),
        ("range: { heights: { from: 29, to: 2147483647 } }".to_owned(), 29..31),
        ("range: { heights: { from: 31 } }".to_owned(), 31..31),
        ("range: { heights: { from: 2147483647, to: 2147483647 } }".to_owned(), 31..31),
        (format!("range: {{ times: {{ from: \"{at_20}\" }} }}"), 20..31),
        (format!("range: {{ times: {{ to: \"{at_20}\" }} }}"), 0..21),
        (format!("range: {{ times: {{ from: \"{at_20}\", to: \"{at_25}\" }} }}"), 20..26),
        (format!("range: {{ times: {{ from: \"{at_20}\", to: \"{at_20}\" }} }}"), 20..21),
        ("range: { lastBlocks: 4 }".to_owned(), 27..31),
        ("range: { lastBlocks: 2147483647 }".to_owned(), 0..31),
        (r#"range: { times: { from: "2106-02-07T06:28:15Z" } }"#.to_owned(), 0..0),
        (r#"range: { times: { from: "1970-01-01T00:00:00Z" } }"#.to_owned(), 0..31),
        (r#"range: { times: { to: "1970-01-01T00:00:00Z" } }"#.to_owned(), 0..0),
    ] {
        assert_eq!(heights(&arguments), expected.collect::<Vec<_>>(), "{arguments}");
    }
}

#[test]
fn a_cursor_holds_for_the_same_arguments_also_when_blocks_have_arrived() {
    let mut chain = SimChain::new(73);
    chain.mine_empty(30).unwrap();
    let mut api = Api::of_chain(&chain);
    let chosen = "order: ASC, range: { heights: { from: 2, to: 90 } }";
    let cursor = page(&api, "blocks", &format!("first: 3, {chosen}"))["pageInfo"]["endCursor"].clone();
    chain.mine_empty(5).unwrap();
    for block in chain.active_blocks().skip(31) {
        api.connect(block);
    }
    let next = page(&api, "blocks", &format!("first: 1, after: {cursor}, {chosen}"));
    assert_eq!(next["nodes"][0]["height"], json!(5));
    for other in [
        "",
        "order: DESC, range: { heights: { from: 2, to: 90 } }",
        "order: ASC, range: { heights: { from: 3, to: 90 } }",
        "order: ASC, range: { heights: { from: 2, to: 91 } }",
        r#"order: ASC, range: { times: { from: "2000-01-01T00:00:01Z" } }"#,
        "order: ASC, range: { lastBlocks: 90 }",
    ] {
        let refusal = api.refusal(&format!("{{ blocks(after: {cursor}, {other}) {{ totalCount }} }}"));
        assert_eq!(refusal, json!("BAD_USER_INPUT"), "{other}");
    }
    assert_eq!(api.refusal(&format!("{{ staleBlocks(after: {cursor}) {{ totalCount }} }}")), json!("BAD_USER_INPUT"));
}

#[test]
fn a_cursor_on_a_block_that_left_the_main_chain_is_orphaned() {
    let mut chain = SimChain::new(74);
    chain.mine_empty(10).unwrap();
    let mut api = Api::of_chain(&chain);
    let cursor = page(&api, "blocks", "first: 2")["pageInfo"]["endCursor"].clone();
    let parent = chain.hash_at(7.into()).unwrap();
    let new = branch(&mut chain, parent, 5, &[]);
    api.change(3, new.iter().map(Arc::as_ref));
    let response = api.ask(&format!("{{ blocks(after: {cursor}) {{ totalCount }} }}"));
    assert_eq!(response["errors"][0]["extensions"], json!({ "code": "CURSOR_ORPHANED", "forkHeight": 7 }));
}

#[test]
fn arguments_that_choose_no_blocks_are_refused() {
    let mut chain = SimChain::new(75);
    chain.mine_empty(3).unwrap();
    let api = Api::of_chain(&chain);
    for (field, code) in [
        ("blocks(range: { heights: { from: -1 } }) { totalCount }", "BAD_USER_INPUT"),
        ("blocks(range: { heights: { to: -1 } }) { totalCount }", "BAD_USER_INPUT"),
        ("blocks(range: { heights: { from: 3, to: 2 } }) { totalCount }", "BAD_USER_INPUT"),
        ("blocks(range: { heights: { from: 9, to: 8 } }) { totalCount }", "BAD_USER_INPUT"),
        (
            r#"blocks(range: { times: { from: "2020-01-02T00:00:00Z", to: "2020-01-01T00:00:00Z" } }) { totalCount }"#,
            "BAD_USER_INPUT",
        ),
        (r#"blocks(range: { times: { from: "2020-01-02" } }) { totalCount }"#, "GRAPHQL_VALIDATION_FAILED"),
        ("blocks(first: -1) { totalCount }", "BAD_USER_INPUT"),
        ("blocks(first: 101) { totalCount }", "QUERY_LIMIT_EXCEEDED"),
        ("staleBlocks(last: 101) { totalCount }", "QUERY_LIMIT_EXCEEDED"),
        ("staleBlocks(first: 1, last: 1) { totalCount }", "BAD_USER_INPUT"),
        (r#"staleBlocks(after: "x") { totalCount }"#, "BAD_USER_INPUT"),
        ("headers(range: { heights: { from: -1 } }) { height }", "BAD_USER_INPUT"),
        ("headers(range: { heights: { from: 2, to: 1 } }) { height }", "BAD_USER_INPUT"),
        ("headers(range: { lastBlocks: 0 }) { height }", "BAD_USER_INPUT"),
        ("headers { height }", "GRAPHQL_VALIDATION_FAILED"),
        (r#"blocksByHash(hashes: ["00"]) { height }"#, "GRAPHQL_VALIDATION_FAILED"),
        ("chain { supply(at: { height: 4 }) { height } }", "BAD_USER_INPUT"),
    ] {
        let response = api.ask(&format!("{{ {field} }}"));
        assert_eq!(response["errors"][0]["extensions"]["code"], json!(code), "{field}: {response}");
    }
}

#[test]
fn headers_come_from_a_height_up_to_the_tip() {
    let mut chain = SimChain::new(76);
    chain.mine_empty(5).unwrap();
    let api = Api::of_chain(&chain);
    let blocks: Vec<_> = chain.active_blocks().collect();
    for (range, expected) in [
        ("heights: { from: 0, to: 0 }", 0..1),
        ("heights: { from: 2, to: 4 }", 2..5),
        ("heights: { from: 4, to: 2000 }", 4..6),
        ("heights: { from: 6, to: 6 }", 6..6),
        ("heights: { from: 2147483647 }", 0..0),
        ("heights: { to: 1 }", 0..2),
        ("lastBlocks: 2", 4..6),
        ("lastBlocks: 2147483647", 0..6),
    ] {
        let found = api.data(&format!("{{ headers(range: {{ {range} }}) {{ height hash hex }} }}"));
        let expected: Vec<_> = expected
            .map(|height| json!({ "height": height, "hash": hash_of(blocks[height]), "hex": serialize_hex(&blocks[height].header) }))
            .collect();
        assert_eq!(found["headers"], json!(expected), "{range}");
    }
    let few = Api::of_chain_within(&chain, Limits { headers: 5, ..Limits::default() });
    let response = few.ask("{ headers(range: { heights: { from: 0 } }) { hash } }");
    let extensions = json!({ "code": "QUERY_LIMIT_EXCEEDED", "argument": "range", "which": "headersPerList", "limit": 5, "actual": 6 });
    assert_eq!(response["errors"][0]["extensions"], extensions);
}

#[test]
fn blocks_by_hash_keep_the_order_and_the_length_of_the_list() {
    let mut chain = SimChain::new(77);
    chain.mine_empty(3).unwrap();
    let stale = chain.block(&chain.tip()).unwrap().clone();
    let mut api = Api::of_chain(&chain);
    let new = branch(&mut chain, stale.header.prev_blockhash, 2, &[]);
    api.change(1, new.iter().map(Arc::as_ref));
    let unknown = "0".repeat(63) + "1";
    let asked = [hash_of(&new[1]), unknown, hash_of(&stale), hash_of(&new[1]), hash_of(&new[0])];
    let found = api.data(&format!("{{ blocksByHash(hashes: {asked:?}) {{ hash chainStatus }} }}"));
    let reported = |hash: &String, status: &str| json!({ "hash": hash, "chainStatus": status });
    assert_eq!(
        found["blocksByHash"],
        json!([
            reported(&asked[0], "MAIN"),
            null,
            reported(&asked[2], "STALE"),
            reported(&asked[3], "MAIN"),
            reported(&asked[4], "MAIN")
        ])
    );
    assert_eq!(api.data("{ blocksByHash(hashes: []) { hash } }"), json!({ "blocksByHash": [] }));

    let few = Api::empty(Network::Regtest, Limits { ids: 2, ..Limits::default() });
    let mut few = few;
    few.change(0, chain.active_blocks().map(Arc::as_ref));
    let response = few.ask(&format!("{{ blocksByHash(hashes: {asked:?}) {{ hash }} }}"));
    let extensions =
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "argument": "hashes", "which": "idsPerList", "limit": 2, "actual": 5 });
    assert_eq!(response["errors"][0]["extensions"], extensions);
}

/// The stale blocks in the order in which they are listed: highest first, those of one height by their hashes.
fn expected(stale: &[(u32, Arc<Block>)]) -> Vec<String> {
    let mut sorted = stale.to_vec();
    sorted.sort_by_key(|(height, block)| (*height, block.block_hash().to_byte_array()));
    sorted.iter().rev().map(|(_, block)| hash_of(block)).collect()
}

/// Replaces the highest blocks of the main chain, and notes them.
fn reorganise(api: &mut Api, chain: &mut SimChain, depth: u32, stale: &mut Vec<(u32, Arc<Block>)>) {
    let tip = chain.height().to_u32();
    let parent = chain.hash_at((tip - depth).into()).unwrap();
    for height in tip - depth + 1..=tip {
        stale.push((height, chain.block(&chain.hash_at(height.into()).unwrap()).unwrap().clone()));
    }
    let new = branch(chain, parent, usize::try_from(depth).unwrap() + 1, &[]);
    api.change(depth, new.iter().map(Arc::as_ref));
}

#[test]
fn pages_of_stale_blocks_put_together_are_all_of_them_while_others_become_stale() {
    let (mut chain, mut stale) = (SimChain::new(78), Vec::new());
    chain.mine_empty(10).unwrap();
    let mut api = Api::of_chain(&chain);
    assert_eq!(page(&api, "staleBlocks", "first: 5")["totalCount"], json!(0));
    for depth in [1, 2, 3, 4, 5, 6, 7, 8, 9] {
        reorganise(&mut api, &mut chain, depth, &mut stale);
    }
    for size in 1..=100 {
        for forwards in [true, false] {
            let before = expected(&stale);
            let happens = (size % 5 == 0) == forwards && size % 10 < 6;
            let found = walk(&mut api, "staleBlocks", "", (forwards, size), |api| {
                if happens {
                    reorganise(api, &mut chain, 1, &mut stale);
                }
            });
            // what has become stale meanwhile is higher than all others: a walk that goes up comes by it
            assert_eq!(
                found,
                if forwards { before } else { expected(&stale) },
                "forwards {forwards}, {size} at a time"
            );
        }
    }
    let page = page(&api, "staleBlocks", "first: 1");
    assert_eq!(page["totalCount"], json!(stale.len()));
    let reported = api.data("{ staleBlocks(first: 100) { nodes { chainStatus confirmations nextBlock { hash } } } }");
    assert!(reported["staleBlocks"]["nodes"].as_array().unwrap().iter().all(|node| {
        node["chainStatus"] == json!("STALE") && node["confirmations"] == json!(0) && node["nextBlock"].is_null()
    }));
}

#[test]
fn the_block_at_a_time_is_the_last_with_that_median_time_past() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let blocks = &blocks[..2_600];
    let api = Api::of(Network::Bitcoin, blocks);
    // the naive rule: the middle one of the last eleven times, sorted
    let median = |height: usize| {
        let mut times: Vec<_> =
            blocks[height.saturating_sub(10)..=height].iter().map(|block| block.header.time).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let medians: Vec<_> = (0..blocks.len()).map(median).collect();
    let at = |seconds: u32| {
        let time = jiff::Timestamp::from_second(seconds.into()).unwrap();
        api.data(&format!("{{ blockAtTime(time: \"{time}\") {{ height hash }} }}"))["blockAtTime"].take()
    };
    for seconds in medians.iter().step_by(37).flat_map(|median| [median - 1, *median, median + 1]) {
        let expected = medians.iter().rposition(|median| *median <= seconds);
        let expected =
            expected.map(|height| json!({ "height": height, "hash": blocks[height].block_hash().to_string() }));
        assert_eq!(at(seconds), expected.unwrap_or_default(), "at {seconds}");
    }
    assert_eq!(at(medians[0] - 1), Value::Null, "before the genesis block");
    assert_eq!(at(u32::MAX)["height"], json!(2_599), "after the tip");

    let headers: Vec<_> = blocks.iter().map(|block| block.header.time).collect();
    let falls: Vec<_> = (1..headers.len()).filter(|height| headers[*height] < headers[height - 1]).collect();
    assert_eq!(falls, [2_298, 2_513], "headers that go back in time");
    let near = || falls.iter().flat_map(|height| height - 3..height + 3).chain((0..2_600).step_by(211));
    for (clock, times) in [("MEDIAN_TIME", &medians), ("HEADER_TIME", &headers)] {
        let ends = [medians[0] - 1, medians[0], u32::MAX];
        for seconds in near().map(|height| times[height]).flat_map(|time| [time - 1, time, time + 1]).chain(ends) {
            let before = times.iter().rposition(|time| *time <= seconds);
            let after = times.iter().position(|time| *time >= seconds);
            let distances: Vec<_> = times.iter().map(|time| time.abs_diff(seconds)).collect();
            let least = distances.iter().min().unwrap();
            let is_nearest = |height: &usize| distances[*height] == *least;
            // the highest before it, or the lowest after it
            let nearest = (0..times.len()).rfind(|height| is_nearest(height) && times[*height] <= seconds);
            let nearest = nearest.or_else(|| (0..times.len()).find(is_nearest));
            let time = jiff::Timestamp::from_second(seconds.into()).unwrap();
            let fields = ["AT_OR_BEFORE", "AT_OR_AFTER", "NEAREST"].map(|mode| {
                format!("{mode}: blockAtTime(time: \"{time}\", clock: {clock}, mode: {mode}) {{ height }}")
            });
            let height = |height: Option<usize>| height.map(|height| json!({ "height": height }));
            assert_eq!(
                api.data(&format!("{{ {} }}", fields.join(" "))),
                json!({ "AT_OR_BEFORE": height(before), "AT_OR_AFTER": height(after), "NEAREST": height(nearest) }),
                "{clock} at {seconds}"
            );
        }
    }
}
