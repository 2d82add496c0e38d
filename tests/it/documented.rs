//! The guide to the API is true: each of its queries gives the answer that stands behind it.
//!
//! docs/api.md holds pairs of a query and its answer, both in code blocks, on the first 4,522 blocks of mainnet. To write
//! the answers anew: `BTCGRAPH_UPDATE_DOCS=1 cargo test --test it documented`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bitcoin::consensus::deserialize;
use bitcoin::{Block, Network};
use serde_json::Value;

use crate::support::api::Api;
use crate::support::skips::shared_data;

const GUIDE: &str = "docs/api.md";

/// The blocks of a file in blk framing, in its order: magic, length, block.
fn blocks(path: &Path) -> Vec<Block> {
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

#[test]
fn every_query_of_the_guide_gives_the_answer_behind_it() {
    let Some(data) = shared_data("mainnet-0-4521.blk") else { return };
    let blocks = blocks(&data);
    assert_eq!(blocks.len(), 4_522);
    let api = Api::of(Network::Bitcoin, &blocks);
    let answer = |query: &str| serde_json::to_string_pretty::<Value>(&api.ask(query)).unwrap();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(GUIDE);
    let guide = std::fs::read_to_string(&path).unwrap();
    let (expected, count) = with_answers(&guide, answer);
    assert!(count >= 10, "the guide has {count} answers");
    if std::env::var_os("BTCGRAPH_UPDATE_DOCS").is_some() {
        std::fs::write(path, expected).unwrap();
    } else {
        assert_eq!(guide, expected, "{GUIDE} is not what the code answers");
    }
}
