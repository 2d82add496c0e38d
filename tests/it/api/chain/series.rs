//! The chain period by period, and the UTXO set after any block, against sums over the blocks of the model one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use bitcoin::{Block, Network};
use btcgraph::limits::Limits;
use btcgraph::sim::{Hostile, Rng, SimChain};
use serde_json::{Value, json};

use crate::api::ledgers::history_series::{Expected, GROUPS, periods, range, text};
use crate::support::api::Api;
use crate::support::cut::{IndexForm, live_and_cut};
use crate::support::model::{BlockTotals, Model, OfType, TYPES, type_of};
use crate::support::quantiles::feerate_quantiles;

const FIRST: u32 = 1_700_000_000;
const SUMS: &str =
    "fromHeight toHeight startedAt endedAt blockCount txCount inputCount outputCount inputValue outputValue fees
    subsidy size weight chainwork utxoDelta emptyBlockCount segwitTxCount segwitSize segwitWeight taprootOutputCount
    opReturnCount opReturnBytes totalsByType { type createdCount createdValue spentCount spentValue unspendableCount
    unspendableValue }";
const MEANS: &str = "averageInterval coinDaysDestroyed averageFeeRatePercentiles";
const UTXO_SET: &str = "height unspentCount totalValue byType { type unspentCount totalValue }";

fn at(height: u32) -> usize {
    usize::try_from(height).unwrap()
}

/// The name of a type of the model in the schema.
fn written(name: &str) -> String {
    match name {
        "OpReturn" => "OP_RETURN".to_owned(),
        "WitnessUnknown" => "WITNESS_UNKNOWN".to_owned(),
        name => name.to_uppercase(),
    }
}

/// The sums over some blocks by script type, in the order of the schema.
fn by_type(blocks: &[BlockTotals]) -> Vec<(&'static str, OfType)> {
    let sum = |name: &'static str| {
        let add = |sum: (u64, u64), more: (u64, u64)| (sum.0 + more.0, sum.1 + more.1);
        let found = blocks.iter().filter_map(|block| block.types.get(name));
        let sum = found.fold(OfType::default(), |sum, more| OfType {
            created: add(sum.created, more.created),
            spent: add(sum.spent, more.spent),
            unspendable: add(sum.unspendable, more.unspendable),
        });
        (name, sum)
    };
    TYPES.into_iter().map(sum).collect()
}

fn totals_by_type(blocks: &[BlockTotals]) -> Value {
    let types = by_type(blocks).into_iter().filter(|(_, totals)| *totals != OfType::default());
    let types = types.map(|(name, OfType { created, spent, unspendable })| {
        json!({
            "type": written(name),
            "createdCount": created.0, "createdValue": created.1.to_string(),
            "spentCount": spent.0, "spentValue": spent.1.to_string(),
            "unspendableCount": unspendable.0, "unspendableValue": unspendable.1.to_string(),
        })
    });
    types.collect()
}

fn utxo_set(model: &Model, height: u32) -> Value {
    let types =
        by_type(&model.blocks[..=at(height)]).into_iter().map(|(name, OfType { created, spent, unspendable })| {
            (name, created.0 - spent.0 - unspendable.0, created.1 - spent.1 - unspendable.1)
        });
    let types = types.filter(|(_, count, _)| *count > 0);
    let types =
        types.map(|(name, count, value)| json!({ "type": written(name), "unspentCount": count, "totalValue": value }));
    let block = &model.blocks[at(height)];
    json!({
        "height": height, "unspentCount": block.utxo_count, "totalValue": block.utxo_value,
        "byType": types.collect::<Vec<_>>(),
    })
}

fn sums(model: &Model, from: u32, to: u32) -> Value {
    let blocks = &model.blocks[at(from)..=at(to)];
    let sum = |of: fn(&BlockTotals) -> u64| blocks.iter().map(of).sum::<u64>();
    let text_of_sum = |of: fn(&BlockTotals) -> u64| sum(of).to_string();
    let utxos = |count: u64| i64::try_from(count).unwrap();
    let before = at(from).checked_sub(1).map_or(0, |before| model.blocks[before].utxo_count);
    json!({
        "fromHeight": from, "toHeight": to,
        "startedAt": text(model.blocks[at(from)].median_time), "endedAt": text(model.blocks[at(to)].median_time),
        "blockCount": to - from + 1,
        "txCount": sum(|block| block.transactions.into()),
        "inputCount": sum(|block| block.inputs.into()),
        "outputCount": sum(|block| block.outputs.into()),
        "inputValue": text_of_sum(|block| block.input_value),
        "outputValue": text_of_sum(|block| block.output_value),
        "fees": text_of_sum(|block| block.fees),
        "subsidy": text_of_sum(|block| block.subsidy),
        "size": sum(|block| block.size.into()),
        "weight": sum(|block| block.weight.into()),
        // regtest: two hashes a block
        "chainwork": format!("{:064x}", u64::from(to - from + 1) * 2),
        "utxoDelta": utxos(model.blocks[at(to)].utxo_count) - utxos(before),
        "emptyBlockCount": blocks.iter().filter(|block| block.transactions == 1).count(),
        "segwitTxCount": sum(|block| block.segwit.0.into()),
        "segwitSize": sum(|block| block.segwit.1.into()),
        "segwitWeight": sum(|block| block.segwit.2.into()),
        "taprootOutputCount": sum(|block| block.taproot_outputs.into()),
        "opReturnCount": sum(|block| block.op_returns.0.into()),
        "opReturnBytes": sum(|block| block.op_returns.1.into()),
        "totalsByType": totals_by_type(blocks),
    })
}

/// What is no whole number: the interval, coin days and feerates; nothing where there is none.
fn means(model: &Model, from: u32, to: u32) -> Vec<Option<f64>> {
    let blocks = &model.blocks[at(from)..=at(to)];
    // the genesis block was not mined when it says
    let start = from.saturating_sub(1).max(1).min(to);
    let count = to - start;
    let seconds = model.blocks[at(to)].median_time - model.blocks[at(start)].median_time;
    let age: u128 = blocks.iter().map(|block| block.coin_age).sum();
    let days = age.to_string().parse::<f64>().unwrap() / 100_000_000.0 / 86_400.0;
    let mut means = vec![(seconds > 0).then(|| f64::from(seconds) / f64::from(count)), Some(days)];
    let paying: Vec<_> = blocks.iter().filter(|block| block.transactions > 1).map(feerate_quantiles).collect();
    for index in 0..7 {
        let sum: u64 = paying.iter().map(|block| block[index]).sum();
        let count = u32::try_from(paying.len()).unwrap();
        means.push((count > 0).then(|| sum.to_string().parse::<f64>().unwrap() / f64::from(count) / 1_000.0));
    }
    means
}

/// Takes the means out of the totals of a response and compares them.
#[track_caller]
fn assert_means(found: &mut Value, model: &Model) {
    let height = |name: &str| u32::try_from(found[name].as_u64().unwrap()).unwrap();
    let expected = means(model, height("fromHeight"), height("toHeight"));
    let mut take = |name: &str| found.as_object_mut().unwrap().remove(name).unwrap();
    let mut numbers = vec![take("averageInterval"), take("coinDaysDestroyed")];
    match take("averageFeeRatePercentiles") {
        Value::Null => numbers.resize(9, Value::Null),
        percentiles => numbers.extend(percentiles.as_array().unwrap().clone()),
    }
    assert_eq!(numbers.len(), expected.len());
    for (found, expected) in numbers.iter().zip(&expected) {
        match expected {
            Some(expected) => {
                let found = found.as_f64().unwrap();
                assert!((found - expected).abs() <= expected.abs() * 1e-12, "{found} is not {expected}");
            }
            None => assert_eq!(found, &Value::Null),
        }
    }
}

/// The series as the model has it, without the means.
fn points(model: &Model, group: &str, blocks: (u32, u32), include_empty: bool) -> Vec<Value> {
    let mut found = Vec::new();
    let mut newest = blocks.0;
    // periods without blocks have the set of the block before them
    let mut sets = BTreeMap::new();
    for Expected { seconds, heights } in periods(model, group, blocks) {
        newest = heights.last().copied().unwrap_or(newest);
        let height = |height: Option<&u32>| height.map_or(Value::Null, |height| json!({ "height": height }));
        let time = |height: u32| model.blocks[at(height)].median_time;
        let (start, end) = seconds.unwrap_or_else(|| (time(heights[0]), time(newest)));
        if heights.is_empty() && !include_empty {
            continue;
        }
        found.push(json!({
            "startAt": text(start), "endAt": text(end),
            "firstBlock": height(heights.first()), "lastBlock": height(heights.last()), "blockCount": heights.len(),
            "stats": heights.first().map_or(Value::Null, |first| sums(model, *first, newest)),
            // of every block of regtest
            "difficulty": 65_535.0 / 8_388_607.0 / 16_777_216.0,
            "utxoSet": sets.entry(newest).or_insert_with(|| utxo_set(model, newest)),
        }));
    }
    found
}

/// Compares a series; what it finds.
#[track_caller]
fn assert_series(
    api: &Api,
    model: &Model,
    group: &str,
    (range, blocks): &(String, (u32, u32)),
    include_empty: bool,
) -> usize {
    let field = format!("series(range: {range}, group: {group}, includeEmpty: {include_empty})");
    let document = format!(
        "{{ chain {{ {field} {{ startAt endAt firstBlock {{ height }} lastBlock {{ height }} blockCount difficulty
            stats {{ {SUMS} {MEANS} }} utxoSet {{ {UTXO_SET} }} }} }} }}"
    );
    let expected = points(model, group, *blocks, include_empty);
    if expected.len() > 2_000 {
        let refused = api.ask(&document);
        assert_eq!(refused["errors"][0]["extensions"]["actual"], json!(expected.len()), "{field}");
        return 0;
    }
    let mut found = api.data(&document)["chain"]["series"].take();
    for point in found.as_array_mut().unwrap() {
        if !point["stats"].is_null() {
            assert_means(&mut point["stats"], model);
        }
    }
    assert_eq!(found, json!(expected), "{field}");
    expected.len()
}

/// The sums over all points of a series are those of its range, and each point is a range of its own.
#[track_caller]
fn assert_identities(api: &Api, group: &str, (range, _): &(String, (u32, u32))) {
    let every = format!("{SUMS} {MEANS} averageFee averageFeeRate hashrate txPerSecond difficultySum");
    let argument = if range == "null" { String::new() } else { format!("(of: {range})") };
    let found = api.data(&format!(
        "{{ chain {{ range{argument} {{ {every} }} series(range: {range}, group: {group}) {{ stats {{ {every} }} utxoSet {{ {UTXO_SET} }} }} }} }}"
    ));
    let (whole, series) = (&found["chain"]["range"], found["chain"]["series"].as_array().unwrap());
    let number = |value: &Value| match value {
        Value::String(text) => text.parse::<i128>().unwrap(),
        number => i128::from(number.as_i64().unwrap()),
    };
    for name in [
        "blockCount",
        "txCount",
        "inputCount",
        "outputCount",
        "inputValue",
        "outputValue",
        "fees",
        "subsidy",
        "size",
        "weight",
        "utxoDelta",
        "emptyBlockCount",
        "segwitTxCount",
        "segwitSize",
        "segwitWeight",
        "taprootOutputCount",
        "opReturnCount",
        "opReturnBytes",
    ] {
        let sum: i128 = series.iter().map(|point| number(&point["stats"][name])).sum();
        assert_eq!(sum, number(&whole[name]), "{name} by {group} in {range}");
    }
    let mut types = BTreeMap::<String, i128>::new();
    for (of, sign) in series.iter().map(|point| (&point["stats"], 1)).chain([(whole, -1)]) {
        for totals in of["totalsByType"].as_array().unwrap() {
            for (name, value) in totals.as_object().unwrap().iter().filter(|(name, _)| *name != "type") {
                *types.entry(format!("{} {name}", totals["type"])).or_default() += sign * number(value);
            }
        }
    }
    assert!(types.values().all(|rest| *rest == 0), "{types:?} by {group} in {range}");
    for point in series.iter().step_by(series.len() / 5 + 1) {
        let (from, to) = (&point["stats"]["fromHeight"], &point["stats"]["toHeight"]);
        let again = api.data(&format!(
            "{{ chain {{ range(of: {{ heights: {{ from: {from}, to: {to} }} }}) {{ {every} }} utxoSet(at: {{ height: {to} }}) {{ {UTXO_SET} }} }} }}"
        ));
        assert_eq!(again["chain"], json!({ "range": point["stats"], "utxoSet": point["utxoSet"] }));
    }
}

/// The UTXO set at the tip, by the outputs that the model has there.
fn unspent(model: &Model) -> Value {
    let mut types = BTreeMap::<usize, (u64, u64)>::new();
    for (script, unspent) in model.utxos().into_values() {
        let index = TYPES.iter().position(|name| *name == type_of(&script)).unwrap();
        let sum = types.entry(index).or_default();
        *sum = (sum.0 + 1, sum.1 + unspent.value);
    }
    let by_type = types.iter().map(
        |(index, (count, value))| json!({ "type": written(TYPES[*index]), "unspentCount": count, "totalValue": value }),
    );
    json!({
        "height": model.blocks.len() - 1,
        "unspentCount": types.values().map(|(count, _)| count).sum::<u64>(),
        "totalValue": types.values().map(|(_, value)| value).sum::<u64>(),
        "byType": by_type.collect::<Vec<_>>(),
    })
}

live_and_cut!(
    points_are_sums_over_blocks_through_reorganisations_and_duplicates,
    epochs_and_halvings_end_where_the_range_does,
);

fn points_are_sums_over_blocks_through_reorganisations_and_duplicates(form: IndexForm) {
    for (seed, spacing) in [(90, 5_000), (91, 250_000)] {
        let mut chain = SimChain::new(seed).with_clock(FIRST, spacing);
        let (mut hostile, mut random) = (Hostile::new(seed), Rng::new(seed));
        // a point for each hour has the UTXO set by script type
        let limits = Limits { complexity: 1_000_000, ..Limits::default() };
        let (mut api, mut fed) = (Api::empty(Network::Regtest, limits), Vec::<Arc<Block>>::new());
        let (mut found, mut empty, mut model) = (0, 0, Model::default());
        let mut check = |chain: &SimChain| {
            let active: Vec<_> = chain.active_blocks().cloned().collect();
            let shared =
                fed.iter().zip(&active).take_while(|(one, other)| one.block_hash() == other.block_hash()).count();
            api.change(u32::try_from(fed.len() - shared).unwrap(), active[shared..].iter().map(Arc::as_ref));
            fed = active;
            api.take(form);
            model.follow(fed.iter().map(Arc::as_ref));
            for group in GROUPS {
                let range = range(&model, &mut random);
                let without = assert_series(&api, &model, group, &range, false);
                let with = assert_series(&api, &model, group, &range, true);
                assert_identities(&api, group, &range);
                (found, empty) = (found + without, empty + with.saturating_sub(without));
            }
            let set = api.data(&format!("{{ chain {{ utxoSet {{ {UTXO_SET} }} }} }}"))["chain"]["utxoSet"].take();
            assert_eq!(set, unspent(&model));
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
        assert!(found > 100 && (empty > 20 || spacing == 5_000), "{found} points, {empty} without blocks");
    }
}

fn epochs_and_halvings_end_where_the_range_does(form: IndexForm) {
    let mut chain = SimChain::new(92).with_clock(FIRST, 600);
    chain.mine_empty(2_100).unwrap();
    let (api, model) = (Api::of_chain_in(form, &chain), Model::of(chain.active_blocks().map(Arc::as_ref)));
    for (from, to) in [(0, 2_100), (2_015, 2_016), (2_016, 2_100), (149, 150), (7, 7)] {
        let range = (format!("{{ heights: {{ from: {from}, to: {to} }} }}"), (from, to));
        for group in ["EPOCH", "HALVING", "WEEK", "MONTH"] {
            assert_series(&api, &model, group, &range, false);
        }
    }
    let epochs = api.data(
        "{ chain { series(group: EPOCH) { blockCount } epochs(order: ASC) { nodes { stats { blockCount } } } } }",
    );
    let (series, epochs) = (&epochs["chain"]["series"], &epochs["chain"]["epochs"]["nodes"]);
    assert_eq!(series, &json!([{ "blockCount": 2_016 }, { "blockCount": 85 }]));
    assert_eq!(epochs, &json!([{ "stats": { "blockCount": 2_016 } }, { "stats": { "blockCount": 85 } }]));
}

#[test]
fn a_series_has_as_many_points_as_the_limits_allow() {
    let mut chain = SimChain::new(93).with_clock(FIRST, 40_000);
    chain.mine_empty(60).unwrap();
    let api = Api::of_chain_within(&chain, Limits { points: 50, ..Limits::default() });
    let ask = |arguments: &str| format!("{{ chain {{ series{arguments} {{ blockCount }} }} }}");
    for (arguments, points) in [
        ("(group: BLOCK, range: { lastBlocks: 50 })", 50),
        ("(group: HOUR, range: { lastBlocks: 50 })", 50),
        ("(group: HALVING)", 1),
        ("", 27),
    ] {
        let found = api.data(&ask(arguments));
        assert_eq!(found["chain"]["series"].as_array().map(Vec::len), Some(points), "{arguments} {found}");
    }
    for (arguments, actual) in [
        ("(group: BLOCK)", 61),
        ("(group: BLOCK, range: { lastBlocks: 51 })", 51),
        // found one by one, until there are too many
        ("(group: HOUR, range: { lastBlocks: 51 })", 51),
    ] {
        let refused = api.ask(&ask(arguments))["errors"][0]["extensions"].take();
        assert_eq!(refused["code"], json!("QUERY_LIMIT_EXCEEDED"), "{arguments} {refused}");
        let found = [&refused["which"], &refused["limit"], &refused["actual"]];
        assert_eq!(found, [&json!("pointsPerSeries"), &json!(50), &json!(actual)], "{arguments} {refused}");
    }
    for arguments in
        ["(range: { heights: { from: 5, to: 4 } })", "(range: { lastBlocks: 0 })", "(range: { heights: { from: -1 } })"]
    {
        let refused = api.ask(&ask(arguments));
        assert_eq!(refused["data"], json!({ "chain": { "series": null } }), "{arguments}");
        assert_eq!(refused["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"), "{arguments}");
    }
    let none = api.data(&ask("(range: { heights: { from: 61 } }, includeEmpty: true)"));
    assert_eq!(none["chain"]["series"], json!([]));
}

/// The genesis block of regtest is of 2011, and the blocks of a simulated chain are years later.
#[test]
fn a_range_by_time_has_its_empty_periods_up_to_its_ends() {
    let mut chain = SimChain::new(96).with_clock(FIRST, 40_000);
    chain.mine_empty(30).unwrap();
    let api = Api::of_chain(&chain);
    let ask = |from: &str, to: &str, include_empty: bool| {
        let range = format!("{{ times: {{ from: \"{from}T00:00:00Z\", to: \"{to}T00:00:00Z\" }} }}");
        let arguments = format!("range: {range}, group: MONTH, includeEmpty: {include_empty}");
        let found = api.data(&format!(
            "{{ chain {{ series({arguments}) {{ startAt blockCount utxoSet {{ height }} }} }}
                script(scriptPubKey: \"51\") {{ balanceHistory({arguments}) {{ startAt blockCount balanceAfter }} }} }}"
        ));
        let series = found["chain"]["series"].as_array().unwrap().clone();
        let history = found["script"]["balanceHistory"].as_array().unwrap();
        if include_empty {
            let of = |points: &[Value]| points.iter().map(|point| point["startAt"].clone()).collect::<Vec<_>>();
            assert_eq!(of(&series), of(history), "{arguments}");
        }
        series
    };
    let months = |series: &[Value]| -> Vec<(String, u64)> {
        let month = |point: &Value| point["startAt"].as_str().unwrap()[..7].to_owned();
        series.iter().map(|point| (month(point), point["blockCount"].as_u64().unwrap())).collect()
    };
    let expected = |months: &[(&str, u64)]| -> Vec<_> {
        months.iter().map(|(month, count)| ((*month).to_owned(), *count)).collect()
    };
    let within = ask("2011-03-05", "2011-06-05", true);
    assert_eq!(months(&within), expected(&[("2011-03", 0), ("2011-04", 0), ("2011-05", 0), ("2011-06", 0)]));
    // as after the block in front
    let height = within[0]["utxoSet"]["height"].as_u64().unwrap();
    assert_eq!(ask("2011-03-05", "2011-06-05", false), Vec::<Value>::new());
    // not in front of the genesis block
    let early = months(&ask("2009-01-01", "2011-04-05", true));
    assert_eq!(early, expected(&[("2011-02", height + 1), ("2011-03", 0), ("2011-04", 0)]));
    assert_eq!(ask("2009-01-01", "2010-01-01", true), Vec::<Value>::new());
    // and not behind the tip
    let tip = api.data("{ tip { height medianTime } }");
    let late = months(&ask("2011-03-05", "2100-01-01", true));
    let (last, count) = late.last().unwrap();
    assert_eq!(
        (late[0].clone(), &last[..]),
        (("2011-03".to_owned(), 0), &tip["tip"]["medianTime"].as_str().unwrap()[..7])
    );
    let counted: u64 = late.iter().map(|(_, count)| count).sum();
    assert!(*count > 0 && counted == tip["tip"]["height"].as_u64().unwrap() - height);
    assert_eq!(ask("2099-01-01", "2100-01-01", true), Vec::<Value>::new());
}

#[test]
fn the_utxo_set_is_that_after_any_block_of_the_main_chain() {
    let (mut chain, mut hostile) = (SimChain::new(94), Hostile::new(94));
    for _ in 0..130 {
        hostile.mine(&mut chain).unwrap();
    }
    let (api, model) = (Api::of_chain(&chain), Model::of(chain.active_blocks().map(Arc::as_ref)));
    for height in 0..=130 {
        let found = api.data(&format!("{{ chain {{ utxoSet(at: {{ height: {height} }}) {{ {UTXO_SET} }} }} }}"));
        assert_eq!(found["chain"]["utxoSet"], utxo_set(&model, height));
    }
    let ask = |at: &str| format!("{{ chain {{ utxoSet(at: {at}) {{ height }} }} }}");
    let hash = chain.hash_at(12.into()).unwrap();
    assert_eq!(api.data(&ask(&format!("{{ hash: \"{hash}\" }}")))["chain"]["utxoSet"], json!({ "height": 12 }));
    for at in ["{ height: 131 }", "{ height: -1 }", "{ time: \"1970-01-01T00:00:00Z\" }"] {
        let refused = api.ask(&ask(at));
        assert_eq!(refused["data"], json!({ "chain": { "utxoSet": null } }), "{at}");
        assert_eq!(refused["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"), "{at}");
    }
}
