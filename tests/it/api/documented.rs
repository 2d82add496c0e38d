//! The guide to the API is true: each of its queries gives the answer that stands behind it.
//!
//! The pages of docs/api have pairs of a query and its answer, or of a subscription and its first event, in code blocks, on
//! the first 4,522 blocks of mainnet and a few unconfirmed transactions. To write the answers anew:
//! `BTCGRAPH_UPDATE_DOCS=1 cargo test --test it documented`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Name, Request, Value};
use bitcoin::consensus::deserialize;
use bitcoin::{Amount, Block, Network, OutPoint, ScriptBuf, Transaction, TxIn, TxOut, absolute, transaction};
use btcgraph::mempool::NodeMempool;
use btcgraph::rates::Rates;

use crate::support::api::Api;
use crate::support::skips::shared_data;

/// The directory of the pages.
const GUIDE: &str = "docs/api";
/// Characters of a line of JSON in the guide.
const WIDTH: usize = 110;

/// The blocks of a file in blk framing, in its order: magic, length, block.
pub(crate) fn blocks(path: &Path) -> Vec<Block> {
    let file = std::fs::read(path).unwrap();
    let (mut rest, mut blocks) = (file.as_slice(), Vec::new());
    while let Some((length, block)) = rest.get(4..).and_then(<[u8]>::split_first_chunk) {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
        if length == 0 {
            break;
        }
        blocks.push(deserialize(&block[..length]).unwrap());
        rest = &block[length..];
    }
    blocks
}

/// The text with each answer replaced by what `answer` says to the query in front of it, and how many there were.
fn with_answers(guide: &str, answer: impl Fn(&str) -> String) -> (String, usize) {
    let (mut rest, mut text, mut count) = (guide, String::new(), 0);
    while let Some((before, behind)) = rest.split_once("```graphql\n") {
        let (query, behind) = behind.split_once("```\n").expect("a query ends");
        write!(text, "{before}```graphql\n{query}```\n").unwrap();
        rest = behind;
        let Some(behind) = behind.strip_prefix("\n```json\n") else { continue };
        let (_, behind) = behind.split_once("```\n").expect("an answer ends");
        write!(text, "\n```json\n{}\n```\n", answer(query)).unwrap();
        rest = behind;
        count += 1;
    }
    (text + rest, count)
}

/// The pages of the guide, in the order of their names: path and text of each.
fn pages() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The queries of a page, without the subscriptions.
fn queries_of(page: &str) -> Vec<String> {
    let queries = page.split("```graphql\n").skip(1).map(|rest| rest.split_once("```\n").unwrap().0.to_owned());
    queries.filter(|query| !query.starts_with("subscription")).collect()
}

/// The queries of the guide, without the subscriptions.
pub(crate) fn queries() -> Vec<String> {
    pages().iter().flat_map(|(_, page)| queries_of(page)).collect()
}

/// The whole response, its keys in the order in which they were asked for.
fn answer_in_order(api: &Api, query: &str) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let request = Request::new(query);
    // of a subscription, what it tells first
    let response = runtime.block_on(async {
        if query.starts_with("subscription") {
            api.schema.execute_stream(request, None).next().await.expect("an event arrives at once")
        } else {
            api.schema.execute(request).await
        }
    });
    let mut whole = async_graphql::indexmap::IndexMap::new();
    if !response.errors.is_empty() {
        let errors = serde_json::to_value(&response.errors).unwrap();
        whole.insert(Name::new("errors"), Value::from_json(errors).unwrap());
    }
    whole.insert(Name::new("data"), response.data);
    Value::Object(whole)
}

/// JSON in which what fits a line stands in a line.
fn write_json(value: &Value, indent: usize, text: &mut String) {
    let line = one_line(value);
    if indent + line.len() <= WIDTH {
        text.push_str(&line);
        return;
    }
    let (open, close, items): (_, _, Vec<_>) = match value {
        Value::Object(fields) => ('{', '}', fields.iter().map(|(name, item)| (Some(name), item)).collect()),
        Value::List(items) => ('[', ']', items.iter().map(|item| (None, item)).collect()),
        _ => {
            text.push_str(&line);
            return;
        }
    };
    text.push(open);
    for (index, (name, item)) in items.into_iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&" ".repeat(indent + 2));
        if let Some(name) = name {
            write!(text, "{:?}: ", name.as_str()).unwrap();
        }
        write_json(item, indent + 2, text);
    }
    write!(text, "\n{}{close}", " ".repeat(indent)).unwrap();
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, item)| format!("{:?}: {}", name.as_str(), one_line(item)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::List(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        other => other.clone().into_json().unwrap().to_string(),
    }
}

pub(crate) const NODE: NodeMempool = NodeMempool {
    min_fee_rate: 1.0,
    min_relay_fee_rate: 1.0,
    incremental_fee_rate: 1.0,
    max_memory: 300_000_000,
    memory_usage: 8_192,
    loaded: true,
};

/// Transactions that could wait behind these blocks, but for their signatures: three of their own, a child of the first,
/// and one that replaces the third.
pub(crate) fn unconfirmed(blocks: &[Block]) -> Vec<Transaction> {
    let pay = |coin: OutPoint, value: u64, fee: u64| {
        let script_sig = vec![0x51; 100].into();
        Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![TxIn { previous_output: coin, script_sig, ..TxIn::default() }],
            output: vec![TxOut { value: Amount::from_sat(value - fee), script_pubkey: ScriptBuf::from(vec![0x51]) }],
        }
    };
    let output = |of: &Transaction| OutPoint { txid: of.compute_txid(), vout: 0 };
    let reward = 5_000_000_000;
    let coinbase = |height: usize| output(&blocks[height].txdata[0]);
    let first = pay(coinbase(4_000), reward, 200);
    let child = pay(output(&first), reward - 200, 1_500);
    let (second, third) = (pay(coinbase(4_001), reward, 3_000), pay(coinbase(4_002), reward, 400));
    let replacement = pay(coinbase(4_002), reward, 800);
    vec![first, child, second, third, replacement]
}

#[test]
fn the_format_of_the_index_is_documented() {
    let page = include_str!("../../../docs/index-format.md");
    let format = format!("`<data directory>/<network>/index.redb`, format **{}**", btcgraph::index::FORMAT_VERSION);
    assert!(page.contains(&format), "docs/index-format.md: {format}");
}

/// The table of the page about rates.
fn documented_rates() -> Rates {
    let page = include_str!("../../../docs/api/rates.md");
    let (_, table) = page.split_once("```csv\n").expect("a table");
    let (table, _) = table.split_once("```\n").expect("its end");
    Rates::new(table.parse().unwrap(), Duration::from_secs(u64::MAX))
}

#[test]
fn every_query_of_the_guide_gives_the_answer_behind_it() {
    let Some(data) = shared_data("mainnet-0-4521.blk") else { return };
    let blocks = blocks(&data);
    assert_eq!(blocks.len(), 4_522);
    let mut api = Api::of(Network::Bitcoin, &blocks);
    api.serve_rates(documented_rates());
    api.set_node_mempool(NODE);
    api.arrive(&unconfirmed(&blocks));
    let snapshot = api.data("{ snapshot { cursor } }")["snapshot"]["cursor"].as_str().unwrap().to_owned();
    let answer = |query: &str| {
        let mut text = String::new();
        write_json(&answer_in_order(&api, query), 0, &mut text);
        // it contains the random number of this run
        text.replace(&format!("\"{snapshot}\""), "\"AVW9hAp4eYrQ…\"")
    };
    let mut answers = 0;
    for (path, page) in pages() {
        let (expected, count) = with_answers(&page, answer);
        answers += count;
        if std::env::var_os("BTCGRAPH_UPDATE_DOCS").is_some() {
            std::fs::write(path, expected).unwrap();
            continue;
        }
        let path = path.display();
        for ((line, found), number) in page.lines().zip(expected.lines()).zip(1..) {
            assert_eq!(line, found, "{path} is not what the code answers, from line {number} on");
        }
        assert_eq!(page.len(), expected.len(), "{path} is not what the code answers at its end");
    }
    assert!(answers >= 10, "the guide has {answers} answers");
}
