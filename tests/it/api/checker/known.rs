//! What a client has heard of, and asks about next.

use btcgraph::sim::Rng;
use serde_json::Value;

/// Of each kind of thing as many are kept; a new one takes the place of any.
const KEPT: usize = 300;

/// A script, with its address if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownScript {
    pub(super) hex: String,
    pub(super) address: Option<String>,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) scripts: Vec<KnownScript>,
    pub(super) txids: Vec<String>,
    pub(super) blocks: Vec<String>,
    pub(super) height: u64,
}

impl Known {
    /// Takes up what an answer tells of.
    pub(super) fn learn(&mut self, answer: &Value, random: &mut Rng) {
        if let Some(height) = answer["tip"]["height"].as_u64() {
            self.height = height;
        }
        self.learn_from(answer, random);
    }

    fn learn_from(&mut self, value: &Value, random: &mut Rng) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn_from(item, random)),
            Value::Object(fields) => {
                if let Some(hex) = value["scriptPubKey"].as_str() {
                    let address = value["address"].as_str().map(str::to_owned);
                    keep(&mut self.scripts, KnownScript { hex: hex.to_owned(), address }, random);
                }
                for (field, kept) in [("txid", &mut self.txids), ("hash", &mut self.blocks)] {
                    if let Some(found) = fields.get(field).and_then(Value::as_str) {
                        keep(kept, found.to_owned(), random);
                    }
                }
                fields.values().for_each(|field| self.learn_from(field, random));
            }
            _ => (),
        }
    }
}

fn keep<T: PartialEq>(kept: &mut Vec<T>, new: T, random: &mut Rng) {
    if kept.contains(&new) {
        return;
    }
    if kept.len() < KEPT {
        kept.push(new);
    } else {
        let place = random.index(kept.len());
        kept[place] = new;
    }
}
