//! The public format pools-v2: a JSON array of objects, one a pool.

use std::collections::HashMap;

use bitcoin::Network;
use serde::Deserialize;
use serde_json::Value;

use super::pool::{Pool, slug};
use crate::chain::address::{AddressError, parse_address};

/// The most pools that a file may have: ids of pools have 16 bits, of which the built-in table needs some.
const MOST_POOLS: usize = 50_000;

/// The most characters of a name that an error quotes.
const QUOTED: usize = 60;

/// Why a file is not a table of pools.
#[derive(Debug, thiserror::Error)]
pub enum PoolsFileError {
    /// It is not JSON.
    #[error("it is not JSON")]
    Json(#[source] serde_json::Error),
    /// It is not a list, or too long a list.
    #[error("it must be a JSON array of at most {MOST_POOLS} pools")]
    NotAList,
    /// An entry is not a pool.
    #[error("entry {entry}: {reason}")]
    Entry {
        /// Its number, from 1, and its name if it has one.
        entry: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// One pool of the file. Other members, as the id, are of no use here.
#[derive(Deserialize)]
struct PoolEntry {
    name: String,
    addresses: Vec<String>,
    tags: Vec<String>,
    #[serde(default)]
    link: Option<String>,
}

/// The pools of a file, in its order, with the payout scripts of this network. Entries whose names are the same but for case and
/// punctuation are one pool, with the name and link of the first.
pub(super) fn read(network: Network, json: &str) -> Result<Vec<Pool>, PoolsFileError> {
    let file: Value = serde_json::from_str(json).map_err(PoolsFileError::Json)?;
    let Value::Array(entries) = file else { return Err(PoolsFileError::NotAList) };
    if entries.len() > MOST_POOLS {
        return Err(PoolsFileError::NotAList);
    }
    let mut pools: Vec<Pool> = Vec::new();
    let mut places = HashMap::new();
    for (number, entry) in (1_usize..).zip(entries) {
        let label = label(number, &entry);
        let wrong = |reason: String| PoolsFileError::Entry { entry: label.clone(), reason };
        let entry: PoolEntry = serde_json::from_value(entry).map_err(|error| wrong(error.to_string()))?;
        let pool = pool(network, entry).map_err(wrong)?;
        // the public file has a pool twice
        if let Some(before) = places.get(&pool.slug).and_then(|place: &usize| pools.get_mut(*place)) {
            before.tags.extend(pool.tags);
            before.payout_scripts.extend(pool.payout_scripts);
        } else {
            places.insert(pool.slug.clone(), pools.len());
            pools.push(pool);
        }
    }
    Ok(pools)
}

fn pool(network: Network, entry: PoolEntry) -> Result<Pool, String> {
    let PoolEntry { name, addresses, tags, link } = entry;
    let slug = slug(&name);
    if slug.is_empty() {
        return Err("the name has neither a letter nor a digit of ASCII".to_owned());
    }
    if let Some(tag) = tags.iter().find(|tag| tag.trim().is_empty()) {
        return Err(format!("the tag {tag:?} is blank, and would match any coinbase"));
    }
    let mut payout_scripts = Vec::new();
    for address in addresses {
        match parse_address(&address, network) {
            Ok(script) => payout_scripts.push(script),
            // a public file is of mainnet, and its tags are of use on other networks too
            Err(AddressError::Network { .. }) => {}
            Err(error) => return Err(format!("the address {address:?} is invalid: {error}")),
        }
    }
    Ok(Pool { name, slug, link: link.filter(|link| !link.is_empty()), tags, payout_scripts })
}

/// The number of an entry, and its name if it has one.
fn label(number: usize, entry: &Value) -> String {
    match entry.get("name").and_then(Value::as_str) {
        Some(name) => format!("{number} ({:?})", name.chars().take(QUOTED).collect::<String>()),
        None => number.to_string(),
    }
}
