//! The balance period by period, against the model: its sums are the statistics, its balances those after its blocks.

use std::collections::BTreeMap;

use bitcoin::ScriptBuf;
use btcgraph::sim::{Hostile, Rng, SimChain};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::expected::{Scripts, Truth, follow, known_scripts, one, set, some};
use crate::support::api::Api;
use crate::support::cut::{IndexForm, live_and_cut};
use crate::support::model::Model;

const POINT: &str = "startAt endAt firstBlock { height } lastBlock { height } blockCount balanceAfter net
    turnover { received spent txCount receivedFromSelf }";
pub(crate) const GROUPS: [&str; 7] = ["BLOCK", "HOUR", "DAY", "WEEK", "MONTH", "EPOCH", "HALVING"];
const FIRST: u32 = 1_700_000_000;

pub(crate) fn text(second: u32) -> String {
    Timestamp::from_second(second.into()).unwrap().to_string()
}

fn second(text: &str) -> u32 {
    u32::try_from(text.parse::<Timestamp>().unwrap().as_second()).unwrap()
}

/// The first and the last second of the period of the calendar with this second, counted from the written date.
fn calendar(group: &str, within: u32) -> Option<(u32, u32)> {
    let day = |text: &str| second(&format!("{}T00:00:00Z", &text[..10]));
    let written = text(within);
    let start = match group {
        "HOUR" => second(&format!("{}:00:00Z", &written[..13])),
        "DAY" => day(&written),
        // 1970-01-05 was a Monday
        "WEEK" => within - (within - second("1970-01-05T00:00:00Z")) % (7 * 86_400),
        "MONTH" => second(&format!("{}-01T00:00:00Z", &written[..7])),
        _ => return None,
    };
    let end = match group {
        "HOUR" => start + 3_600,
        "DAY" => start + 86_400,
        "WEEK" => start + 7 * 86_400,
        _ => second(&format!("{}-01T00:00:00Z", &text(start + 32 * 86_400)[..7])),
    };
    Some((start, end - 1))
}

/// Consecutive blocks, and what names them.
pub(crate) struct Expected {
    pub(crate) seconds: Option<(u32, u32)>,
    pub(crate) heights: Vec<u32>,
}

/// The periods of the blocks from one height to another, those without blocks among them.
pub(crate) fn periods(model: &Model, group: &str, (from, to): (u32, u32)) -> Vec<Expected> {
    let time = |height: u32| model.blocks[usize::try_from(height).unwrap()].median_time;
    let mut found: Vec<Expected> = Vec::new();
    for height in from..=to {
        let seconds = calendar(group, time(height));
        let number = |height: u32| match group {
            "EPOCH" => height / 2_016,
            "HALVING" => height / 150,
            _ => height,
        };
        if let Some(last) = found.last_mut() {
            let together = match seconds {
                Some(_) => last.seconds == seconds,
                None => number(last.heights[0]) == number(height),
            };
            if together {
                last.heights.push(height);
                continue;
            }
            while let (Some((_, end)), Some((start, _))) = (found.last().unwrap().seconds, seconds)
                && end + 1 < start
            {
                found.push(Expected { seconds: calendar(group, end + 1), heights: Vec::new() });
            }
        }
        found.push(Expected { seconds, heights: vec![height] });
    }
    found
}

fn points(truth: &Truth, scripts: &Scripts, group: &str, range: (u32, u32), include_empty: bool) -> Vec<Value> {
    let time = |height: u32| truth.model.blocks[usize::try_from(height).unwrap()].median_time;
    let sums = |height: Option<u32>| {
        let totals = scripts.iter().map(|script| height.map(|height| truth.model.totals_at(script, height)));
        totals.flatten().fold((0, 0), |(received, spent), totals| (received + totals.received, spent + totals.spent))
    };
    // the transactions of each block, and what they return to the scripts that they spend
    let mut of_block = BTreeMap::<u32, (usize, u64)>::new();
    for (txnum, entry) in truth.txnums(scripts).iter().zip(truth.entries(scripts)) {
        let returned = if entry["sentToSelf"] == json!(true) { entry["received"].as_u64().unwrap() } else { 0 };
        let sum = of_block.entry(truth.height(*txnum)).or_default();
        *sum = (sum.0 + 1, sum.1 + returned);
    }
    let mut before = sums(range.0.checked_sub(1));
    let mut found = Vec::new();
    for Expected { seconds, heights } in periods(&truth.model, group, range) {
        let after = heights.last().map_or(before, |last| sums(Some(*last)));
        let sums_of_blocks = heights.iter().filter_map(|height| of_block.get(height));
        let (count, returned) =
            sums_of_blocks.fold((0, 0), |(count, returned), (more, also)| (count + more, returned + also));
        let block = |height: Option<&u32>| height.map_or(Value::Null, |height| json!({ "height": height }));
        let (start, end) = seconds.unwrap_or_else(|| (time(heights[0]), time(*heights.last().unwrap())));
        if count > 0 || include_empty {
            found.push(json!({
                "startAt": text(start),
                "endAt": text(end),
                "firstBlock": block(heights.first()),
                "lastBlock": block(heights.last()),
                "blockCount": heights.len(),
                "balanceAfter": after.0 - after.1,
                "net": i64::try_from(after.0 - before.0).unwrap() - i64::try_from(after.1 - before.1).unwrap(),
                "turnover": {
                    "received": (after.0 - before.0).to_string(),
                    "spent": (after.1 - before.1).to_string(),
                    "txCount": count,
                    "receivedFromSelf": returned.to_string(),
                },
            }));
        }
        before = after;
    }
    found
}

/// A range of blocks as it is asked for, and the blocks that are meant.
pub(crate) fn range(model: &Model, random: &mut Rng) -> (String, (u32, u32)) {
    let tip = u32::try_from(model.blocks.len() - 1).unwrap();
    let height = |random: &mut Rng| u32::try_from(random.below(u64::from(tip) + 1)).unwrap();
    let (one, other) = (height(random), height(random));
    let (from, to) = (one.min(other), one.max(other));
    match random.below(4) {
        0 => ("null".to_owned(), (0, tip)),
        1 => (format!("{{ heights: {{ from: {from}, to: {to} }} }}"), (from, to)),
        2 => (format!("{{ lastBlocks: {} }}", from + 1), (tip - from, tip)),
        _ => {
            let time = |height: u32| model.blocks[usize::try_from(height).unwrap()].median_time;
            let meant: Vec<u32> = (0..=tip).filter(|height| (time(from)..=time(to)).contains(&time(*height))).collect();
            let range = format!("{{ times: {{ from: \"{}\", to: \"{}\" }} }}", text(time(from)), text(time(to)));
            (range, (meant[0], *meant.last().unwrap()))
        }
    }
}

/// The extensions of the only error of a response.
#[track_caller]
fn refused(api: &Api, document: &str) -> Value {
    let mut response = api.ask(document);
    assert_eq!(response["errors"].as_array().map(Vec::len), Some(1), "{response}");
    response["errors"][0]["extensions"].take()
}

#[track_caller]
fn assert_series(api: &Api, truth: &Truth, owner: &str, scripts: &Scripts, random: &mut Rng) {
    let group = *random.choose(&GROUPS).unwrap();
    let (range, blocks) = range(&truth.model, random);
    for include_empty in [false, true] {
        let field = format!("balanceHistory(range: {range}, group: {group}, includeEmpty: {include_empty})");
        let expected = points(truth, scripts, group, blocks, include_empty);
        let document = format!("{{ owner: {owner} {{ {field} {{ {POINT} }} }} }}");
        if expected.len() > 2_000 {
            assert_eq!(refused(api, &document)["code"], json!("QUERY_LIMIT_EXCEEDED"), "{document}");
            continue;
        }
        let found = api.data(&document);
        assert_eq!(found["owner"]["balanceHistory"], json!(expected), "{owner} {field} at {}", truth.tip());
    }
}

/// The points of the whole chain add up to the statistics, and each has the balance after its last block.
#[track_caller]
fn assert_sums(api: &Api, owner: &str, group: &str) {
    let found = api.data(&format!(
        "{{ owner: {owner} {{ balanceHistory(group: {group}) {{ {POINT} }} stats {{ received spent txCount }}
            balance {{ confirmed }} }} }}"
    ));
    let (stats, series) = (&found["owner"]["stats"], found["owner"]["balanceHistory"].as_array().unwrap());
    let sum = |part: &str| -> u64 {
        let parts = series.iter().map(|point| point["turnover"][part].as_str().unwrap().parse::<u64>().unwrap());
        parts.sum()
    };
    assert_eq!(
        json!([sum("received").to_string(), sum("spent").to_string()]),
        json!([stats["received"], stats["spent"]])
    );
    let count: u64 = series.iter().map(|point| point["turnover"]["txCount"].as_u64().unwrap()).sum();
    assert_eq!(json!(count), stats["txCount"]);
    let newest = series.last().map_or(json!(0), |point| point["balanceAfter"].clone());
    assert_eq!(newest, found["owner"]["balance"]["confirmed"]);
    let some = series.iter().step_by(series.len() / 20 + 1).enumerate();
    let (mut fields, mut expected) = (Vec::new(), BTreeMap::new());
    for (number, point) in some {
        let height = &point["lastBlock"]["height"];
        fields.push(format!("p{number}: balance(at: {{ height: {height} }}) {{ confirmed }}"));
        expected.insert(format!("p{number}"), json!({ "confirmed": point["balanceAfter"] }));
    }
    if !expected.is_empty() {
        let found = api.data(&format!("{{ owner: {owner} {{ {} }} }}", fields.join(" ")));
        assert_eq!(found["owner"], json!(expected), "{owner} {group}");
    }
}

live_and_cut!(
    points_are_those_of_the_model_through_reorganisations_and_duplicates,
    a_point_ends_at_the_end_of_the_range,
);

fn points_are_those_of_the_model_through_reorganisations_and_duplicates(form: IndexForm) {
    for (seed, spacing) in [(80, 5_000), (81, 250_000)] {
        let mut chain = SimChain::new(seed).with_clock(FIRST, spacing);
        let (mut hostile, mut random) = (Hostile::new(seed), Rng::new(seed));
        let (mut api, mut fed) = (Api::of(bitcoin::Network::Regtest, []), Vec::new());
        let mut check = |chain: &SimChain| {
            follow(&mut api, chain, &mut fed);
            api.take(form);
            let (truth, known) = (Truth::whole(chain), known_scripts(chain));
            for round in 0..6 {
                let scripts = if round % 2 == 0 { some(&known, 1, &mut random) } else { some(&known, 12, &mut random) };
                let alone: Vec<&ScriptBuf> = scripts.iter().collect();
                let owner = match alone[..] {
                    [script] if round % 2 == 0 => one(script, &mut random),
                    _ => set(&scripts, &mut random),
                };
                for _ in 0..3 {
                    assert_series(&api, &truth, &owner, &scripts, &mut random);
                }
                assert_sums(&api, &owner, GROUPS[round % GROUPS.len()]);
            }
        };
        for _ in 0..110 {
            hostile.mine(&mut chain).unwrap();
        }
        check(&chain);
        for spent in [0, 1] {
            let (_, later) = hostile.repeat_coinbase(&mut chain, spent).unwrap();
            hostile.mine(&mut chain).unwrap();
            chain.mine_duplicate_coinbase(&later, Vec::new()).unwrap();
            check(&chain);
        }
        hostile.branch(&mut chain, 30, 45).unwrap();
        check(&chain);
    }
}

fn a_point_ends_at_the_end_of_the_range(form: IndexForm) {
    let mut chain = SimChain::new(82).with_clock(FIRST, 600);
    let miner = SimChain::miner().script_pubkey();
    chain.mine_empty(400).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let (truth, scripts) = (Truth::whole(&chain), Scripts::from([miner.clone()]));
    let owner = format!("script(scriptPubKey: \"{miner:x}\")");
    for range in [(0, 400), (100, 200), (149, 150), (399, 400), (7, 7)] {
        for group in GROUPS {
            let found = api.data(&format!(
                "{{ owner: {owner} {{ balanceHistory(range: {{ heights: {{ from: {}, to: {} }} }}, group: {group}) {{ {POINT} }} }} }}",
                range.0, range.1
            ));
            let expected = points(&truth, &scripts, group, range, false);
            assert_eq!(found["owner"]["balanceHistory"], json!(expected), "{group} {range:?}");
        }
    }
    // the first second and the last of a point are a range with its blocks
    let days =
        api.data(&format!("{{ owner: {owner} {{ balanceHistory {{ {POINT} }} }} }}"))["owner"]["balanceHistory"].take();
    assert!(days.as_array().unwrap().len() > 2);
    for day in days.as_array().unwrap() {
        let again = api.data(&format!(
            "{{ owner: {owner} {{ balanceHistory(range: {{ times: {{ from: {}, to: {} }} }}, group: WEEK) {{
                firstBlock {{ height }} lastBlock {{ height }} }} }} }}",
            day["startAt"], day["endAt"]
        ));
        let point = json!({ "firstBlock": day["firstBlock"], "lastBlock": day["lastBlock"] });
        assert_eq!(again["owner"]["balanceHistory"], json!([point]));
    }
}

#[test]
fn a_series_has_as_many_points_as_the_limits_allow() {
    let mut chain = SimChain::new(83).with_clock(FIRST, 40_000);
    let miner = SimChain::miner().script_pubkey();
    chain.mine_empty(220).unwrap();
    let api = Api::of_chain(&chain);
    let owner = format!("script(scriptPubKey: \"{miner:x}\")");
    let ask = |arguments: &str| format!("{{ owner: {owner} {{ balanceHistory({arguments}) {{ balanceAfter }} }} }}");
    let too_many = refused(&api, &ask("group: HOUR, includeEmpty: true"));
    assert_eq!(too_many["code"], json!("QUERY_LIMIT_EXCEEDED"));
    assert_eq!((&too_many["which"], &too_many["limit"]), (&json!("pointsPerSeries"), &json!(2_000)), "{too_many}");
    let sparse = api.data(&ask("group: HOUR"));
    let expected = points(&Truth::whole(&chain), &Scripts::from([miner.clone()]), "HOUR", (0, 220), false);
    assert_eq!(sparse["owner"]["balanceHistory"].as_array().unwrap().len(), expected.len(), "{sparse}");
    for arguments in
        ["range: { heights: { from: 5, to: 4 } }", "range: { lastBlocks: 0 }", "range: { heights: { from: -1 } }"]
    {
        assert_eq!(refused(&api, &ask(arguments))["code"], json!("BAD_USER_INPUT"), "{arguments}");
    }
    let none = api.data(&ask("range: { heights: { from: 221 } }, includeEmpty: true"));
    assert_eq!(none["owner"]["balanceHistory"], json!([]));
    let never = "script(scriptPubKey: \"51\") { balanceHistory { balanceAfter } }";
    assert_eq!(api.data(&format!("{{ {never} }}"))["script"]["balanceHistory"], json!([]));
}
