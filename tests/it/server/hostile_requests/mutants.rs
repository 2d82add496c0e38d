//! The corpus, changed at random: the same changes each time. Nothing of it panics, and the program answers all of it.

use std::io::Write;
use std::thread;

use btcgraph::execution::guard::admit;
use btcgraph::limits::Limits;
use btcgraph::settings::{Platform, Settings, Sources, defaults};
use btcgraph::sim::{Hostile, Rng, SimChain};
use serde_json::{Value, json};

use super::corpus::{Kind, as_text, cases};
use super::target::{TRANSPORT, Target};
use crate::support::api::Api;

/// What means something to those who read it.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "\"\"\"",
    "\\",
    "\\u",
    "\\ud800",
    "#",
    "\n",
    "\r",
    "\0",
    "...",
    "@",
    "$",
    ":",
    "!",
    "=",
    ",",
    "|",
    "&",
    "-",
    ".",
    "0",
    "9999999999999999999",
    "1e999",
    "null",
    "true",
    "on",
    "fragment",
    "query",
    "subscription",
    "mutation",
    "type",
    "__schema",
    "__typename",
    "@include(if: true)",
    "...F0",
    "\"query\"",
    "\"variables\"",
    "\"extensions\"",
    "\"id\"",
    "\u{feff}",
    "é",
    "🧨",
    "\u{202e}",
];

const LONGEST: usize = 40_000;

/// Changes a text in a few places.
fn mutant(text: &[u8], others: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=rng.index(4) {
        let (at, length) = (rng.index(text.len() + 1), rng.index(40));
        let end = (at + length).min(text.len());
        let part = text[at..end].to_vec();
        match rng.index(7) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..at, rng.choose(WORDS).unwrap().bytes())),
            2 => drop(text.splice(at..end, rng.choose(WORDS).unwrap().bytes())),
            3 => drop(text.splice(at..at, part.repeat(rng.index(2_000)))),
            4 => text.truncate(at),
            5 => {
                let other = rng.choose(others).unwrap();
                let from = rng.index(other.len() + 1);
                let until = (from + rng.index(400)).min(other.len());
                drop(text.splice(at..end, other[from..until].iter().copied()));
            }
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << rng.index(8);
                }
            }
        }
        text.truncate(LONGEST);
    }
    text
}

/// So many mutants of these.
fn mutants(texts: &[Vec<u8>], count: usize, seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut rng = Rng::new(seed);
    (0..count).map(move |number| mutant(&texts[number % texts.len()], texts, &mut rng))
}

fn texts(kind: Kind) -> Vec<Vec<u8>> {
    cases().iter().filter(|case| case.kind == kind).map(super::corpus::Case::text).collect()
}

#[test]
fn the_guard_reads_any_mutant_within_the_stack_of_a_thread() {
    // that of the threads which execute requests
    let reads = || {
        let limits = Limits::default();
        let (mut admitted, mut refused) = (0, 0);
        for mutant in mutants(&texts(Kind::Query), 3_000, 1) {
            match admit(&as_text(&mutant), &limits) {
                Ok(_) => admitted += 1,
                Err(_) => refused += 1,
            }
        }
        (admitted, refused)
    };
    let (admitted, refused) = thread::Builder::new().stack_size(2 << 20).spawn(reads).unwrap().join().unwrap();
    assert!(admitted > 100 && refused > 1_000, "{admitted} admitted, {refused} refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_answers_any_mutant_of_a_body_or_a_message() {
    let target = Target::start();
    let queries =
        texts(Kind::Query).into_iter().map(|text| json!({ "query": as_text(&text) }).to_string().into_bytes());
    let bodies: Vec<_> = queries.chain(texts(Kind::Body)).collect();
    let is_answer = |outcome: &str| {
        !["no answer", "INTERNAL_SERVER_ERROR", "TIMEOUT"].contains(&outcome) && !outcome.contains("without")
    };
    for body in mutants(&bodies, 400, 2) {
        let (outcome, _) = target.post(&body);
        assert!(is_answer(&outcome), "{outcome}: {}", as_text(&body));
    }
    let messages: Vec<_> = cases().iter().map(super::corpus::Case::message).collect();
    for message in mutants(&messages, 300, 3) {
        let (outcome, _) = target.say(TRANSPORT, &message).await;
        assert!(is_answer(&outcome), "{outcome}: {}", as_text(&message));
    }
    assert!(target.lives());
}

/// A document with a variable of each scalar, of a cursor and of an id, and what fits.
fn scalars(api: &Api) -> Vec<(&'static str, String)> {
    let data = api.data(
        "{ blocks(first: 2) { edges { cursor node { id hash time transactions(first: 1) { nodes { txid hex outputs { nodes { \
         scriptPubKey id } } } } } } } }",
    );
    let edge = &data["blocks"]["edges"][0];
    let (block, transaction) = (&edge["node"], &edge["node"]["transactions"]["nodes"][0]);
    let output = &transaction["outputs"]["nodes"][0];
    let text = |value: &Value| value.as_str().unwrap_or("0").to_owned();
    vec![
        ("query ($a: String) { blocks(after: $a) { nodes { id } } }", text(&edge["cursor"])),
        ("query ($a: ID!) { node(id: $a) { id } }", text(&block["id"])),
        ("query ($a: ID!) { node(id: $a) { id } }", text(&output["id"])),
        ("query ($a: BlockHash!) { block(hash: $a) { id } }", text(&block["hash"])),
        ("query ($a: Txid!) { transaction(txid: $a) { id } }", text(&transaction["txid"])),
        ("query ($a: Hex!) { decodeTransaction(hex: $a) { missingInputs { text } } }", text(&transaction["hex"])),
        ("query ($a: Hex!) { script(scriptPubKey: $a) { id } }", text(&output["scriptPubKey"])),
        (
            "query ($a: String!) { address(address: $a) { id } }",
            "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080".to_owned(),
        ),
        ("query ($a: DateTime!) { chain { supply(at: { time: $a }) { height } } }", text(&block["time"])),
    ]
}

#[test]
fn cursors_ids_and_scalars_are_refused_or_answered_whatever_they_hold() {
    let (mut chain, mut hostile) = (SimChain::new(44), Hostile::new(44));
    for _ in 0..110 {
        hostile.mine(&mut chain).unwrap();
    }
    let api = Api::of_chain(&chain);
    let scalars = scalars(&api);
    let words: Vec<Vec<u8>> = scalars.iter().map(|(_, value)| value.clone().into_bytes()).collect();
    let codes = [json!("BAD_USER_INPUT"), json!("GRAPHQL_VALIDATION_FAILED"), json!("QUERY_LIMIT_EXCEEDED")];
    let (mut refused, mut asked) = (0, 0);
    for (seed, (document, value)) in (4..).zip(&scalars) {
        let fits = api.ask_with(document, json!({ "a": value }));
        assert_eq!(fits.get("errors"), None, "{document} {value}");
        let mut rng = Rng::new(seed);
        for _ in 0..150 {
            let mutant = as_text(&mutant(value.as_bytes(), &words, &mut rng));
            let answer = api.ask_with(document, json!({ "a": mutant }));
            asked += 1;
            for error in answer["errors"].as_array().into_iter().flatten() {
                refused += 1;
                assert!(codes.contains(&error["extensions"]["code"]), "{document} {mutant}: {answer:#}");
            }
        }
    }
    assert!(refused * 2 > asked, "{refused} of {asked} refused");
}

#[test]
fn numbers_are_refused_or_answered_whatever_they_are() {
    let mut chain = SimChain::new(45);
    chain.mine_empty(3).unwrap();
    let api = Api::of_chain(&chain);
    let mut rng = Rng::new(13);
    let digits = ["0", "1", "9", "-", "2147483647", "9007199254740992", "2100000000000000", "18446744073709551615"];
    for _ in 0..300 {
        let number: String = (0..=rng.index(3)).map(|_| *rng.choose(&digits).unwrap()).collect();
        for document in [
            format!("{{ block(height: {number}) {{ id }} }}"),
            format!("{{ transactionByIndex(index: {number}) {{ id }} }}"),
            format!("{{ mempool {{ transactions(filter: {{ minValue: {number} }}) {{ totalCount }} }} }}"),
            format!("{{ blocks(first: {number}) {{ totalCount }} }}"),
        ] {
            let answer = api.ask(&document);
            let fault = answer["errors"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|error| error["extensions"]["code"] == "INTERNAL_SERVER_ERROR");
            assert_eq!(fault, None, "{document}");
        }
    }
}

#[test]
fn settings_are_taken_or_refused_whatever_is_in_their_file() {
    let platform = Platform {
        home: "/home/a".into(),
        data: "/home/a/data".into(),
        node_data: "/home/a/node".into(),
        memory: None,
    };
    let lines: Vec<Vec<u8>> =
        defaults().lines().filter(|line| !line.starts_with('#')).map(|line| line.as_bytes().to_vec()).collect();
    let whole = vec![lines.join(&b'\n')];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("btcgraph.toml");
    let (mut taken, mut refused) = (0, 0);
    for mutant in mutants(&whole, 200, 14).chain(mutants(&lines, 300, 15)) {
        std::fs::File::create(&path).unwrap().write_all(&mutant).unwrap();
        let sources = Sources { file: Some(path.clone()), platform: Some(platform.clone()), ..Sources::default() };
        match Settings::load(&sources) {
            Ok(_) => taken += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(taken > 20 && refused > 100, "{taken} taken, {refused} refused");
}
