//! Counts how often each kind of event occurs, so that a test cannot pass without the events that it is about.

use std::collections::BTreeMap;
use std::fmt;

use bitcoin::Block;
use btcgraph::sim::SimCoin;

use crate::support::model::{TYPES, type_of};

/// Every kind of event that histories must show.
pub(crate) const EVENTS: [&str; 22] = [
    "block, hostile",
    "block, empty",
    "blocks, several between two looks",
    "chain of three transactions in one block",
    "coinbase repeated, earlier copy partly spent",
    "coinbase repeated, earlier copy spent",
    "coinbase repeated, earlier copy unspent",
    "coinbase spent exactly at maturity",
    "index closed and opened",
    "index killed in the middle of an update",
    "node back at genesis",
    "node far behind, and not followed",
    "payment spent in a later block",
    "reorganisation, and back to the first branch",
    "reorganisation, one block higher",
    "reorganisations, several between two looks",
    "spend of the same block's output",
    "tip of the node lower than the index's",
    "transaction confirmed elsewhere after a reorganisation",
    "transaction double spent by a reorganisation",
    "transaction returned by a reorganisation",
    "update abandoned",
];

/// The types of scripts that no input can spend.
const NEVER_SPENT: [&str; 1] = ["OpReturn"];

/// How often something was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, u64>);

impl Counts {
    pub(crate) fn add(&mut self, event: &'static str) {
        assert!(EVENTS.contains(&event), "{event} is no known event");
        *self.0.entry(event.into()).or_default() += 1;
    }

    /// Whatever a block that was just mined shows by itself.
    pub(crate) fn add_block(&mut self, block: &Block, spent: &[Vec<SimCoin>]) {
        for coin in spent.iter().flatten() {
            *self.0.entry(format!("output spent, {}", type_of(&coin.output.script_pubkey))).or_default() += 1;
        }
        let mut lengths = BTreeMap::new();
        for transaction in &block.txdata {
            let txid = transaction.compute_txid();
            let mut length = 1;
            for input in &transaction.input {
                if let Some(before) = lengths.get(&input.previous_output.txid) {
                    self.add("spend of the same block's output");
                    length = length.max(before + 1);
                }
            }
            if length == 3 {
                self.add("chain of three transactions in one block");
            }
            lengths.insert(txid, length);
            for output in &transaction.output {
                *self.0.entry(format!("output created, {}", type_of(&output.script_pubkey))).or_default() += 1;
            }
        }
    }

    pub(crate) fn extend(&mut self, other: &Counts) {
        for (event, count) in &other.0 {
            *self.0.entry(event.clone()).or_default() += count;
        }
    }

    /// The kinds of events that were seen less often than this.
    pub(crate) fn rarer_than(&self, times: u64) -> Vec<(String, u64)> {
        let created = TYPES.iter().map(|name| format!("output created, {name}"));
        let spent = TYPES.iter().filter(|name| !NEVER_SPENT.contains(name)).map(|name| format!("output spent, {name}"));
        let all = EVENTS.iter().map(|event| (*event).to_owned()).chain(created).chain(spent);
        all.map(|event| (self.0.get(&event).copied().unwrap_or_default(), event))
            .filter(|(count, _)| *count < times)
            .map(|(count, event)| (event, count))
            .collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(event, count)| writeln!(f, "{count:>8}  {event}"))
    }
}
