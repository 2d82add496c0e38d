//! What the API reports of the past: reorganisations, times of first sight, and the history of the mempool.

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Executor, Request, Response};
use btcgraph::api::{self, Schema};
use btcgraph::limits::Limits;
use btcgraph::sim::{Mining, SimNode};
use serde_json::{Value, json};

use super::following::{Following, PATIENCE};
use super::simulated::{now, pay, quiet, send};
use crate::support::bitcoind::wait_for;

pub(super) fn schema(following: &Following) -> Schema {
    api::schema(following.published.clone(), following.live.clone(), Limits::default(), api::Features::default())
}

pub(super) async fn ask(schema: &Schema, document: impl Into<String>) -> Value {
    let response = schema.execute(Request::new(document)).await;
    assert!(response.errors.is_empty(), "{:?}", response.errors);
    response.data.into_json().unwrap()
}

async fn refusal(schema: &Schema, document: &str) -> Value {
    let response = schema.execute(Request::new(document)).await;
    serde_json::to_value(&response.errors[0]).unwrap()["extensions"].clone()
}

/// A subscription that is polled once, so that it listens.
pub(super) fn subscribe(schema: &Schema, document: &str) -> BoxStream<'static, Response> {
    let mut stream = schema.execute_stream(Request::new(document), None);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(stream.poll_next_unpin(&mut context).is_pending());
    stream
}

pub(super) async fn next(stream: &mut BoxStream<'static, Response>) -> Value {
    let response = tokio::time::timeout(PATIENCE, stream.next()).await.expect("an event arrives in time").unwrap();
    assert!(response.errors.is_empty(), "{:?}", response.errors);
    response.data.into_json().unwrap()
}

fn tip(sim: &SimNode) -> String {
    sim.with(|world| world.chain().tip()).unwrap().to_string()
}

const REORG: &str = "
    id observedAt depth forkHeight forkHash isComplete
    disconnected { totalCount nodes { hash height block { chainStatus reorg { id } } } }
    connected { totalCount nodes { hash height block { chainStatus reorg { id } } } }
    returnedToMempool { totalCount nodes }
    conflicted { totalCount nodes { txid disconnectedBlockHash conflictingTxids } }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reorg_is_reported_with_its_effect_on_payments() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    let fork = tip(&sim);
    let [returns, dies] = [0, 1].map(|coin| send(&sim, &pay(&coins[coin], 5)).to_string());
    let schema = schema(&following);
    following.assert_catches_up(&sim);
    let mut reorgs = subscribe(&schema, &format!("subscription {{ reorg {{ {REORG} }} }}"));
    let mut events = subscribe(
        &schema,
        "subscription { chainEvents { ... on BlockConnected { joined: block { hash } } ... on BlockDisconnected { left: block { hash } reorg { id returnedToMempool { totalCount } } } } }",
    );
    sim.with(|world| world.mine(Mining::default())).unwrap().unwrap();
    following.assert_catches_up(&sim);
    let left = tip(&sim);
    assert_eq!(next(&mut events).await, json!({ "chainEvents": { "joined": { "hash": left } } }));
    let found = ask(&schema, "{ reorgs { totalCount nodes { id } } tip { reorg { id } } }").await;
    assert_eq!(found, json!({ "reorgs": { "totalCount": 0, "nodes": [] }, "tip": { "reorg": null } }));

    let other = pay(&coins[1], 9);
    let branch = vec![vec![other.clone()]];
    sim.with(|world| world.reorg(1, 2, branch, &Mining::default())).unwrap().unwrap();
    following.assert_catches_up(&sim);
    let reported = next(&mut reorgs).await["reorg"].clone();
    let joined =
        ask(&schema, "{ blocks(first: 2, order: ASC, range: { heights: { from: 121 } }) { nodes { hash } } }").await;
    let joined = joined["blocks"]["nodes"].as_array().unwrap().clone();
    let id = format!("Reorg:{}", tip(&sim));
    let on_main = |(block, height): (&Value, u32)| json!({ "hash": block["hash"], "height": height, "block": { "chainStatus": "MAIN", "reorg": null } });
    let gone = json!({ "hash": left, "height": 121, "block": { "chainStatus": "STALE", "reorg": { "id": id } } });
    let dead =
        json!({ "txid": dies, "disconnectedBlockHash": left, "conflictingTxids": [other.compute_txid().to_string()] });
    let expected = json!({
        "id": id,
        "observedAt": reported["observedAt"],
        "depth": 1,
        "forkHeight": 120,
        "forkHash": fork,
        "isComplete": true,
        "disconnected": { "totalCount": 1, "nodes": [gone] },
        "connected": { "totalCount": 2, "nodes": joined.iter().zip(121..).map(on_main).collect::<Vec<_>>() },
        "returnedToMempool": { "totalCount": 1, "nodes": [returns] },
        "conflicted": { "totalCount": 1, "nodes": [dead] },
    });
    assert_eq!(reported, expected);
    let by_id = format!(
        "{{ node(id: \"{id}\") {{ ... on Reorg {{ {REORG} }} }} reorgs {{ totalCount nodes {{ {REORG} }} }} }}"
    );
    assert_eq!(
        ask(&schema, by_id).await,
        json!({ "node": expected, "reorgs": { "totalCount": 1, "nodes": [expected] } })
    );
    let gone = json!({ "left": { "hash": left }, "reorg": { "id": id, "returnedToMempool": { "totalCount": 1 } } });
    assert_eq!(next(&mut events).await, json!({ "chainEvents": gone }));
    let none = ask(&schema, format!("{{ node(id: \"Reorg:{left}\") {{ id }} }}")).await;
    assert_eq!(none, json!({ "node": null }));

    // the old branch becomes active again, then the new one, and then the chain only becomes shorter
    let mut shapes = Vec::new();
    let (mut last, mut ids) = (Value::Null, Vec::new());
    for _ in 0..3 {
        let top = sim.with(|world| world.chain().tip()).unwrap();
        sim.with(|world| world.invalidate(&top)).unwrap().unwrap();
        following.assert_catches_up(&sim);
        last = next(&mut reorgs).await["reorg"].clone();
        ids.push(last["id"].clone());
        shapes.push((
            last["depth"].clone(),
            last["connected"]["totalCount"].clone(),
            last["id"] == json!(format!("Reorg:{}", tip(&sim))),
        ));
    }
    assert_eq!(shapes, [(json!(2), json!(1), true), (json!(1), json!(1), true), (json!(1), json!(0), true)]);
    assert_eq!(last["connected"]["nodes"], json!([]));
    let pages = ask(&schema, "{ newest: reorgs(first: 1) { nodes { id } pageInfo { hasNextPage endCursor } } }").await;
    assert_eq!(pages["newest"]["nodes"], json!([{ "id": last["id"] }]));
    let cursor = pages["newest"]["pageInfo"]["endCursor"].as_str().unwrap();
    let older = json!([{ "id": ids[1] }, { "id": ids[0] }, { "id": id }]);
    let rest =
        ask(&schema, format!("{{ reorgs(after: \"{cursor}\") {{ nodes {{ id }} pageInfo {{ hasNextPage }} }} }}"));
    assert_eq!(rest.await["reorgs"], json!({ "nodes": older, "pageInfo": { "hasNextPage": false } }));
    let refused = refusal(&schema, "{ reorgs { nodes { disconnected(first: 101) { totalCount } } } }").await;
    assert_eq!(refused["code"], "QUERY_LIMIT_EXCEEDED");

    // the blocks of the first one, a page each
    let page = |arguments: String| {
        let ask_for = format!("connected({arguments}) {{ nodes {{ hash }} pageInfo {{ hasNextPage endCursor }} }}");
        let document = format!("{{ node(id: \"{id}\") {{ ... on Reorg {{ {ask_for} }} }} }}");
        async { ask(&schema, document).await["node"]["connected"].clone() }
    };
    let first = page("first: 1".to_owned()).await;
    let cursor = first["pageInfo"]["endCursor"].as_str().unwrap();
    let second = page(format!("first: 1, after: \"{cursor}\"")).await;
    assert_eq!([&first["nodes"][0], &second["nodes"][0]], [&joined[0], &joined[1]]);
    let has_next = [&first, &second].map(|page| page["pageInfo"]["hasNextPage"].clone());
    assert_eq!(has_next, [json!(true), json!(false)]);
    drop((schema, reorgs, events));
    following.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_transaction_has_its_first_seen_time() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    let seen = pay(&coins[0], 5);
    send(&sim, &seen);
    let head = following.assert_catches_up(&sim);
    let first_seen = head.mempool.get(&seen.compute_txid()).unwrap().first_seen;
    let unseen = pay(&coins[1], 5);
    let both = vec![seen.clone(), unseen.clone()];
    let block = sim.with(|world| world.mine_exactly(both, Mining::default())).unwrap().unwrap();
    following.assert_catches_up(&sim);
    let schema = schema(&following);
    let fields = "firstSeenAt confirmedAfterSeconds state";
    let found = ask(
        &schema,
        format!(
            "{{ seen: transaction(txid: \"{}\") {{ {fields} }} unseen: transaction(txid: \"{}\") {{ {fields} }} }}",
            seen.compute_txid(),
            unseen.compute_txid()
        ),
    );
    let found = found.await;
    let at = jiff::Timestamp::from_second(first_seen.try_into().unwrap()).unwrap().to_string();
    let after = i64::from(block.header.time) - i64::try_from(first_seen).unwrap();
    let expected = json!({
        "seen": { "firstSeenAt": at, "confirmedAfterSeconds": after, "state": "CONFIRMED" },
        "unseen": { "firstSeenAt": null, "confirmedAfterSeconds": null, "state": "CONFIRMED" },
    });
    assert_eq!(found, expected);
    let columns = ask(&schema, "{ tip { summary { txids txFirstSeenAt } } }").await["tip"]["summary"].take();
    let (txids, times) = (columns["txids"].as_array().unwrap(), &columns["txFirstSeenAt"]);
    let times_of = |txid: &Value| if *txid == json!(seen.compute_txid()) { json!(at) } else { Value::Null };
    assert_eq!((txids.len(), times), (3, &txids.iter().map(times_of).collect()));
    drop(schema);
    following.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mempool_reports_its_history() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    send(&sim, &pay(&coins[0], 5));
    let head = following.assert_catches_up(&sim);
    wait_for("a sample", PATIENCE, || {
        let head = following.published.head()?;
        let taken = head.chain.mempool_samples(0..=u32::MAX).unwrap().count();
        (taken > 0).then_some(())
    });
    let schema = schema(&following);
    let moment = |seconds: u64| jiff::Timestamp::from_second(seconds.try_into().unwrap()).unwrap().to_string();
    let (from, to) = (moment(now() / 60 * 60 - 3_600), moment(now() + 3_600));
    let history = |arguments: String| {
        format!(
            "{{ mempool {{ history({arguments}) {{ startAt endAt sample {{ takenAt txCount totalVsize totalFees minFeeRate
                vsizeByFeeRate {{ fromRate txCount totalVsize }} }} }} }} }}"
        )
    };
    let found =
        ask(&schema, history(format!("range: {{ times: {{ from: \"{from}\", to: \"{to}\" }} }}, stepSeconds: 7200")))
            .await;
    let [point] = &found["mempool"]["history"].as_array().unwrap()[..] else { panic!("{found}") };
    let taken: jiff::Timestamp = point["sample"]["takenAt"].as_str().unwrap().parse().unwrap();
    let step = |seconds: i64, length: i64| {
        let at = |seconds| json!(jiff::Timestamp::from_second(seconds).unwrap().to_string());
        let start = seconds - seconds % length;
        (at(start), at(start + length - 1))
    };
    let (start, end) = step(taken.as_second(), 7_200);
    assert_eq!((&point["startAt"], &point["endAt"]), (&start, &end), "the step of the sample");
    let sample = &point["sample"];
    let totals = head.mempool.totals();
    assert_eq!(
        (&sample["txCount"], &sample["totalVsize"], &sample["totalFees"]),
        (&json!(totals.count), &json!(totals.vsize), &json!(totals.fee))
    );
    assert_eq!(sample["vsizeByFeeRate"][0], json!({ "fromRate": 5.0, "txCount": 1, "totalVsize": totals.vsize }));
    let empty = ask(&schema, history(format!("range: {{ times: {{ from: \"{from}\", to: \"{from}\" }} }}"))).await;
    assert_eq!(empty["mempool"]["history"], json!([]));
    let day = ask(&schema, history("stepSeconds: 86400".to_owned())).await;
    assert_eq!(day["mempool"]["history"][0]["sample"], *sample, "the day up to now, without a range");
    let steps =
        format!("range: {{ times: {{ from: \"{from}\", to: \"{to}\" }} }}, stepSeconds: 1800, includeEmpty: true");
    let steps = ask(&schema, history(steps)).await;
    let steps = steps["mempool"]["history"].as_array().unwrap();
    let samples: Vec<_> = steps.iter().filter(|point| !point["sample"].is_null()).collect();
    assert!(steps.len() >= 5 && samples.len() == 1, "{steps:?}");
    assert_eq!(samples[0]["sample"], *sample);
    let first: jiff::Timestamp = from.parse().unwrap();
    for (point, number) in steps.iter().zip(0..) {
        let (start, end) = step(first.as_second() + number * 1_800, 1_800);
        assert_eq!((&point["startAt"], &point["endAt"]), (&start, &end));
    }
    let medians = ask(&schema, "{ blocks(last: 2, order: ASC) { nodes { height medianTime } } }").await;
    let [before, tip] = &medians["blocks"]["nodes"].as_array().unwrap()[..] else { panic!("{medians}") };
    let year = "stepSeconds: 31536000, includeEmpty: true";
    for (blocks, times) in [
        ("lastBlocks: 1".to_owned(), format!("from: {}", tip["medianTime"])),
        (format!("heights: {{ from: {} }}", before["height"]), format!("from: {}", before["medianTime"])),
        (
            format!("heights: {{ from: {0}, to: {0} }}", before["height"]),
            format!("from: {0}, to: {0}", before["medianTime"]),
        ),
    ] {
        let of_blocks = ask(&schema, history(format!("range: {{ {blocks} }}, {year}"))).await;
        let of_times = ask(&schema, history(format!("range: {{ times: {{ {times} }} }}, {year}"))).await;
        assert_eq!(of_blocks, of_times, "{blocks}");
        assert_ne!(of_blocks["mempool"]["history"], json!([]), "{blocks}");
    }
    for none in ["heights: { from: 500 }", "times: { from: \"2100-01-01T00:00:00Z\" }"] {
        let empty = ask(&schema, history(format!("range: {{ {none} }}"))).await;
        assert_eq!(empty["mempool"]["history"], json!([]), "{none}");
    }
    let long = refusal(&schema, &history("range: { heights: { from: 1, to: 500 } }".to_owned())).await;
    assert_eq!((&long["code"], &long["argument"]), (&json!("QUERY_LIMIT_EXCEEDED"), &json!("range")), "{long}");
    for (arguments, code) in [
        (format!("range: {{ times: {{ from: \"{to}\", to: \"{from}\" }} }}"), "BAD_USER_INPUT"),
        (format!("range: {{ times: {{ from: \"{from}\", to: \"{to}\" }} }}, stepSeconds: 59"), "BAD_USER_INPUT"),
        ("stepSeconds: -60".to_owned(), "BAD_USER_INPUT"),
        (
            "range: { times: { from: \"2026-01-01T00:00:00Z\", to: \"2026-02-01T00:00:00Z\" } }, stepSeconds: 60"
                .to_owned(),
            "QUERY_LIMIT_EXCEEDED",
        ),
    ] {
        assert_eq!(refusal(&schema, &history(arguments.clone())).await["code"], code, "{arguments}");
    }
    drop(schema);
    following.stop();
}

#[tokio::test]
async fn past_estimates_are_compared_with_the_blocks_after_them() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    send(&sim, &pay(&coins[0], 5));
    following.assert_catches_up(&sim);
    let minute = wait_for("a sample", PATIENCE, || {
        let head = following.published.head()?;
        let first = head.chain.mempool_samples(0..=u32::MAX).unwrap().next()?;
        Some(first.unwrap().0)
    });
    let schema = schema(&following);
    let moment = jiff::Timestamp::from_second(i64::from(minute) * 60).unwrap();
    let of_sample = format!("range: {{ times: {{ from: \"{moment}\", to: \"{moment}\" }} }}, stepSeconds: 60");
    let fields = "targetBlocks estimateCount enoughCount averageFeeRate averageNeededFeeRate";
    let asked = format!(
        "{{ mempool {{ history({of_sample}) {{ sample {{ minFeeRate pastFeeEstimates {{ targetBlocks tipHeight feeRate neededFeeRate
            isEnough }} }} }} feeTrackRecord({of_sample}) {{ {fields} }} }} }}"
    );
    let record = async || ask(&schema, asked.clone()).await["mempool"].take();
    let nothing = |target: u32| json!({ "targetBlocks": target, "estimateCount": 0, "enoughCount": 0, "averageFeeRate": null, "averageNeededFeeRate": null });
    let found = record().await;
    // one transaction fills no block: the minimum is recommended for each target, and is what was needed
    let minimum = found["history"][0]["sample"]["minFeeRate"].clone();
    // each estimate by itself, with what was needed as soon as the blocks are there
    let estimates = |reached: u32| {
        json!([1, 3, 6].map(|target| {
            let (needed, enough) = if target <= reached { (minimum.clone(), json!(true)) } else { (json!(null), json!(null)) };
            json!({ "targetBlocks": target, "tipHeight": 120, "feeRate": minimum, "neededFeeRate": needed, "isEnough": enough })
        }))
    };
    assert_eq!(found["history"][0]["sample"]["pastFeeEstimates"], estimates(0), "no block came yet");
    assert!(minimum.as_f64().unwrap() > 0.0, "{found}");
    let enough = |target: u32| json!({ "targetBlocks": target, "estimateCount": 1, "enoughCount": 1, "averageFeeRate": minimum, "averageNeededFeeRate": minimum });
    assert_eq!(found["feeTrackRecord"], json!([nothing(1), nothing(3), nothing(6)]), "no block came yet");
    let mut reached = 0;
    for (blocks, expected) in [
        (1, [enough(1), nothing(3), nothing(6)]),
        (2, [enough(1), enough(3), nothing(6)]),
        (3, [enough(1), enough(3), enough(6)]),
    ] {
        for _ in 0..blocks {
            sim.with(|world| world.mine(Mining::default())).unwrap().unwrap();
        }
        following.assert_catches_up(&sim);
        let found = record().await;
        assert_eq!(found["feeTrackRecord"], json!(expected), "{blocks} more blocks");
        reached += blocks;
        assert_eq!(found["history"][0]["sample"]["pastFeeEstimates"], estimates(reached), "{blocks} more blocks");
    }
    drop(schema);
    following.stop();
}
