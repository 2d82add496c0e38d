//! The REST interface: paths below `/rest/`, without authentication (Core's `src/rest.cpp`, whose messages these are).

use bitcoin::BlockHash;
use bitcoin::consensus::Encodable;
use bitcoin::consensus::encode::VarInt;
use bitcoin::hashes::Hash;
use bitcoin::hex::DisplayHex;
use serde::Serialize;

use super::super::SimCoin;
use super::backend::Backend;
use super::blocks::Detail;
use super::error::{RpcFailure, code};
use super::rpc::params;
use super::transactions::{SpentOutputJson, TransactionJson};
use super::{blocks, chain, mempool};
use crate::chain::Height;

/// The most headers at once (`MAX_REST_HEADERS_RESULTS` of Core's `rest.h`).
const MAX_HEADERS: u32 = 2_000;

/// The response of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RestReply {
    /// The requested data.
    Binary(Vec<u8>),
    Text(String),
    Json(String),
    /// The data is not found, or the request is invalid: a status and a message.
    Refused(u16, String),
    /// There is no such path.
    NoPath,
}

/// The format that a path requests by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Hex,
    Json,
    Unknown,
}

/// A response, or one that reports an error.
type RestResult = Result<RestReply, RestReply>;

/// Answers a path without its `/rest/`.
pub(super) fn answer(node: &Backend, path: &str, query: Option<&str>) -> RestReply {
    if let Some(progress) = node.switches().warming_up {
        return RestReply::Refused(503, format!("Service temporarily unavailable: {progress}"));
    }
    let outcome = if let Some(rest) = path.strip_prefix("headers/") {
        headers(node, rest, query)
    } else if let Some(rest) = path.strip_prefix("blockhashbyheight/") {
        block_hash(node, rest)
    } else if let Some(rest) = path.strip_prefix("block/") {
        block(node, rest)
    } else if let Some(rest) = path.strip_prefix("spenttxouts/").filter(|_| node.options.spent_outputs) {
        spent_outputs(node, rest)
    } else if let Some(rest) = path.strip_prefix("chaininfo") {
        chain_info(node, rest)
    } else if let Some(rest) = path.strip_prefix("mempool/") {
        mempool_part(node, rest, query)
    } else if let Some(rest) = path.strip_prefix("tx/") {
        transaction(node, rest)
    } else {
        Err(RestReply::NoPath)
    };
    outcome.unwrap_or_else(|refused| refused)
}

fn headers(node: &Backend, path: &str, query: Option<&str>) -> RestResult {
    let (path, format) = format_of(path);
    let (count, hash) = match path.split_once('/') {
        Some((count, hash)) => (count, hash),
        None => (query.and_then(|query| query.strip_prefix("count=")).unwrap_or("5"), path),
    };
    let accepted = count.parse().ok().filter(|count| (1..=MAX_HEADERS).contains(count));
    let accepted = accepted
        .ok_or_else(|| bad(format!("Header count is invalid or out of acceptable range (1-{MAX_HEADERS}): {count}")))?;
    let hash = hash_of(hash)?;
    let locked = node.lock_world().map_err(unavailable)?;
    let chain = locked.chain();
    let first = chain.height_of(&hash).filter(|_| chain.is_active(&hash)).map(Height::to_u32);
    let heights = first.into_iter().flat_map(|first| first..first.saturating_add(accepted));
    let hashes: Vec<BlockHash> = heights.map_while(|height| chain.hash_at(Height::from(height))).collect();
    if format == Format::Json {
        let infos = hashes.iter().map(|hash| chain::HeaderJson::of(&locked, hash));
        return json(&infos.collect::<Result<Vec<_>, _>>().map_err(unavailable)?);
    }
    let mut bytes = Vec::new();
    for hash in &hashes {
        encode(&mut bytes, locked.archive.header(hash).map_err(unavailable)?);
    }
    binary(bytes, format)
}

fn block_hash(node: &Backend, path: &str) -> RestResult {
    let (height, format) = format_of(path);
    let number = height.parse::<u32>().ok().filter(|number| i32::try_from(*number).is_ok());
    let number = number.ok_or_else(|| bad(format!("Invalid height: {height}")))?;
    let hash = node.lock_world().map_err(unavailable)?.chain().hash_at(Height::from(number));
    let hash = hash.ok_or_else(|| RestReply::Refused(404, "Block height out of range".to_owned()))?;
    match format {
        Format::Binary => Ok(RestReply::Binary(hash.to_byte_array().to_vec())),
        Format::Hex => Ok(RestReply::Text(format!("{hash}\n"))),
        Format::Json => json(&serde_json::json!({ "blockhash": hash })),
        Format::Unknown => Err(no_format(".bin, .hex, .json")),
    }
}

fn block(node: &Backend, path: &str) -> RestResult {
    let (hash, format) = format_of(path);
    let (hash, detail) = match hash.strip_prefix("notxdetails/") {
        Some(hash) => (hash, Detail::Ids),
        None => (hash, Detail::WithSpentOutputs),
    };
    let hash = hash_of(hash)?;
    if format == Format::Json {
        let explained = blocks::explain(node, &hash, detail).map_err(|failure| missing(&hash, failure))?;
        return Ok(line(explained.get()));
    }
    let mut locked = node.lock_world().map_err(unavailable)?;
    locked.find(&hash).map_err(|failure| missing(&hash, failure))?;
    let body = locked.archive.body(locked.chain(), &hash);
    drop(locked);
    let bytes = body.and_then(|body| body.bytes().map_err(RpcFailure::internal));
    binary(bytes.map_err(|failure| missing(&hash, failure))?, format)
}

/// The outputs that a block spends: a list for each transaction, the first for the coinbase and empty.
fn spent_outputs(node: &Backend, path: &str) -> RestResult {
    let (hash, format) = format_of(path);
    let hash = hash_of(hash)?;
    let mut locked = node.lock_world().map_err(unavailable)?;
    locked.find(&hash).map_err(|failure| missing(&hash, failure))?;
    let spent = locked.archive.spent(locked.chain(), &hash);
    drop(locked);
    let spent = spent.and_then(|spent| spent.coins().map_err(RpcFailure::internal));
    let spent = spent.map_err(|failure| missing(&hash, failure))?;
    if format == Format::Json {
        let explain = |coins: &Vec<SimCoin>| coins.iter().map(|coin| SpentOutputJson::of(&coin.output)).collect();
        let all: Vec<Vec<SpentOutputJson>> = std::iter::once(Vec::new()).chain(spent.iter().map(explain)).collect();
        return json(&all);
    }
    let mut bytes = Vec::new();
    encode(&mut bytes, &VarInt::from(spent.len() + 1));
    encode(&mut bytes, &VarInt(0));
    for coins in spent {
        encode(&mut bytes, &VarInt::from(coins.len()));
        for coin in &coins {
            encode(&mut bytes, &coin.output);
        }
    }
    binary(bytes, format)
}

fn chain_info(node: &Backend, path: &str) -> RestResult {
    match format_of(path) {
        ("", Format::Json) => json(&chain::chain_info(node).map_err(unavailable)?),
        _ => Err(no_format("json")),
    }
}

/// `info` and `contents`; the latter in full unless `verbose=false`.
fn mempool_part(node: &Backend, path: &str, query: Option<&str>) -> RestResult {
    let asked = |name: &str| {
        let parts = query.unwrap_or_default().split('&');
        parts.filter_map(|part| part.split_once('=')).find(|(found, _)| *found == name).map(|(_, value)| value)
    };
    let (part, format) = format_of(path);
    match (part, format) {
        ("info", Format::Json) => json(&mempool::info(node).map_err(unavailable)?),
        ("contents", Format::Json) => {
            let (verbose, sequence) = (asked("verbose") != Some("false"), asked("mempool_sequence") == Some("true"));
            let contents = mempool::contents(node, verbose, sequence);
            Ok(line(contents.map_err(|failure| bad(failure.message))?.get()))
        }
        ("info" | "contents", _) => Err(no_format("json")),
        _ => Err(bad("Invalid URI format. Expected /rest/mempool/<info|contents>.json".to_owned())),
    }
}

/// An unconfirmed transaction: this node has no index of confirmed ones.
fn transaction(node: &Backend, path: &str) -> RestResult {
    let (text, format) = format_of(path);
    let txid = params::hash(text, "").map_err(|_| bad(format!("Invalid hash: {text}")))?;
    let locked = node.lock_world().map_err(unavailable)?;
    let entry = locked.world.mempool().get(&txid);
    let tx = entry.map(|entry| &*entry.tx).ok_or_else(|| RestReply::Refused(404, format!("{txid} not found")))?;
    if format == Format::Json {
        return json(&TransactionJson::of(tx));
    }
    let mut bytes = Vec::new();
    encode(&mut bytes, tx);
    binary(bytes, format)
}

/// Splits a path into its name and its format, the extension.
fn format_of(path: &str) -> (&str, Format) {
    let known = [(".bin", Format::Binary), (".hex", Format::Hex), (".json", Format::Json)];
    let found = known.into_iter().find_map(|(end, format)| Some((path.strip_suffix(end)?, format)));
    found.unwrap_or((path, Format::Unknown))
}

fn hash_of(text: &str) -> Result<BlockHash, RestReply> {
    params::hash(text, "").map_err(|_| bad(format!("Invalid hash: {text}")))
}

fn binary(bytes: Vec<u8>, format: Format) -> RestResult {
    match format {
        Format::Binary => Ok(RestReply::Binary(bytes)),
        Format::Hex => Ok(hexadecimal(&bytes)),
        Format::Json | Format::Unknown => Err(no_format(".bin, .hex, .json")),
    }
}

fn hexadecimal(bytes: &[u8]) -> RestReply {
    RestReply::Text(format!("{}\n", bytes.to_lower_hex_string()))
}

fn json(answer: &impl Serialize) -> RestResult {
    let text = serde_json::to_string(answer).map_err(|error| unavailable(RpcFailure::internal(error)))?;
    Ok(line(&text))
}

fn line(json: &str) -> RestReply {
    RestReply::Json(format!("{json}\n"))
}

fn bad(message: String) -> RestReply {
    RestReply::Refused(400, message)
}

fn no_format(available: &str) -> RestReply {
    RestReply::Refused(404, format!("output format not found (available: {available})"))
}

fn missing(hash: &BlockHash, failure: RpcFailure) -> RestReply {
    match failure.code {
        code::INVALID_ADDRESS_OR_KEY => RestReply::Refused(404, format!("{hash} not found")),
        code::MISC => RestReply::Refused(404, format!("{hash} not available (pruned data)")),
        _ => unavailable(failure),
    }
}

fn unavailable(failure: RpcFailure) -> RestReply {
    RestReply::Refused(500, failure.message)
}

fn encode(bytes: &mut Vec<u8>, what: &impl Encodable) {
    // writing to memory does not fail
    let _ = what.consensus_encode(bytes);
}
