//! Whether a figure that is wrong would be noticed: answers in which one figure was changed.

use std::collections::BTreeMap;
use std::panic::catch_unwind;

use async_graphql::{Executor, Request};
use btcgraph::sim::Rng;
use serde_json::{Value, json};

use super::flood::Flood;
use super::known::Known;
use super::questions::{Kind, Question, SHARES};
use super::{follow, schema};

/// Answers of each kind, the most where a field is still missed that seldom has a figure that matters, and how many figures of the
/// same field are changed in each.
const ANSWERS: usize = 30;
const MOST_ANSWERS: usize = 150;
const CHANGES: usize = 3;

/// Ends of the fields that no identity within one answer holds to: whether there is more, the moment that was asked for,
/// what only other answers from the same state tell again, and what is not asked for on both sides.
const FREE: [&str; 7] = [
    "hasNextPage",
    "moment.height",
    "waiting.stats.txCount",
    "supply.immatureCoinbase",
    "staleBlocks.nodes.height",
    "outputs.nodes.spentBy.index",
    "outputs.nodes.spentInMempoolBy.index",
];

#[test]
fn a_changed_figure_is_noticed_in_whatever_field_it_stands() {
    let mut flood = Flood::start(7);
    let following = follow(&flood, None);
    let schema = schema(&following);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (mut random, mut known) = (Rng::new(3), Known::default());
    let mut noticed = BTreeMap::new();
    for round in 0..MOST_ANSWERS {
        if round >= ANSWERS && missed(&noticed).is_empty() {
            break;
        }
        for _ in 0..8 {
            flood.step();
        }
        following.assert_catches_up(&flood.sim);
        for (_, kind) in SHARES {
            let question = Question::of(kind, &known, &mut random);
            let response = runtime.block_on(schema.execute(Request::new(question.document.clone())));
            let response = serde_json::to_value(response).unwrap();
            assert_eq!(question.check(&response), Ok(()), "{}\n{response:#}", question.document);
            known.learn(&response["data"], &mut random);
            if response.get("errors").is_none() {
                change_each(&question, &response, &mut noticed);
            }
        }
    }
    drop(schema);
    following.stop();
    let missed = missed(&noticed);
    assert!(missed.is_empty(), "not noticed: {missed:#?}");
    assert!(noticed.len() > 250, "only {} fields", noticed.len());
}

/// The fields of which no change was noticed yet.
fn missed(noticed: &BTreeMap<String, bool>) -> Vec<&str> {
    let missed = noticed.iter().filter(|(_, noticed)| !**noticed).map(|(field, _)| field.as_str());
    missed.filter(|field| !FREE.iter().any(|free| field.ends_with(free))).collect()
}

/// Changes figures of the answer one at a time, and notes by field whether any change was noticed.
fn change_each(question: &Question, response: &Value, noticed: &mut BTreeMap<String, bool>) {
    let mut figures = Vec::new();
    find(&response["data"], &mut vec!["data".to_owned()], &mut figures);
    let mut changed: BTreeMap<String, usize> = BTreeMap::new();
    for path in figures {
        let field = name(question.kind, &path);
        let times = changed.entry(field.clone()).or_default();
        *times += 1;
        let known = noticed.entry(field).or_default();
        if *known || *times > CHANGES {
            continue;
        }
        let mut wrong = response.clone();
        let pointer = format!("/{}", path.join("/"));
        let figure = wrong.pointer_mut(&pointer).unwrap();
        *figure = another(figure);
        // what reads it may find no more that there is something to read
        *known = !matches!(catch_unwind(|| question.check(&wrong)), Ok(Ok(())));
    }
}

/// The paths of all figures.
fn find(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut within = |step: String, value: &Value| {
        path.push(step);
        find(value, path, found);
        path.pop();
    };
    match value {
        // a script may look like a number
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "scriptPubKey")
            .for_each(|(name, value)| within(name.clone(), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| within(index.to_string(), value)),
        Value::Bool(_) => found.push(path.clone()),
        other if other.is_i64() || other.as_str().is_some_and(is_digits) => found.push(path.clone()),
        _ => (),
    }
}

fn is_digits(text: &str) -> bool {
    text.parse::<i128>().is_ok()
}

/// The field without the numbers of rows.
fn name(kind: Kind, path: &[String]) -> String {
    let fields = path[1..].iter().filter(|step| !is_digits(step)).map(|step| step.trim_end_matches(char::is_numeric));
    format!("{kind:?}.{}", fields.collect::<Vec<_>>().join("."))
}

/// Another figure of the same form.
fn another(figure: &Value) -> Value {
    match figure {
        Value::Bool(is) => json!(!is),
        Value::String(digits) => json!((digits.parse::<i128>().unwrap() + 1).to_string()),
        number => json!(number.as_i64().unwrap() + 1),
    }
}
