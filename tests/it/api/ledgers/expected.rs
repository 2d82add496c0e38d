//! What an answer about scripts must say, counted from the blocks of the simulated chain and the naive model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bitcoin::{Address, Block, Network, OutPoint, ScriptBuf};
use btcgraph::sim::{Hostile, Rng, SimChain};
use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::model::{Model, Totals, TxNum};

/// Scripts that are looked at as one.
pub(super) type Scripts = BTreeSet<ScriptBuf>;

/// Blocks, and everything that can be counted of them.
pub(super) struct Truth {
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) model: Model,
    /// By transaction: scripts that it pays, those that can never be spent left out, and scripts that it spends.
    paid: Vec<(Scripts, Scripts)>,
    coinbases: BTreeSet<TxNum>,
}

impl Truth {
    /// The chain up to a height.
    pub(super) fn at(chain: &SimChain, height: usize) -> Self {
        let blocks: Vec<_> = chain.active_blocks().take(height + 1).cloned().collect();
        let model = Model::of(blocks.iter().map(Arc::as_ref));
        let (mut outputs, mut paid, mut coinbases) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for (height, block) in blocks.iter().enumerate() {
            coinbases.insert(u32::try_from(paid.len()).unwrap());
            for transaction in &block.txdata {
                let spends = transaction.input.iter().filter_map(|input| outputs.get(&input.previous_output).cloned());
                let spends: Scripts = spends.collect();
                let mut pays = Scripts::new();
                for (vout, output) in (0..).zip(&transaction.output) {
                    let script = output.script_pubkey.clone();
                    outputs.insert(OutPoint { txid: transaction.compute_txid(), vout }, script.clone());
                    if height > 0 && !script.is_op_return() && script.len() <= 10_000 {
                        pays.insert(script);
                    }
                }
                paid.push((pays, spends));
            }
        }
        Self { blocks, model, paid, coinbases }
    }

    pub(super) fn whole(chain: &SimChain) -> Self {
        Self::at(chain, usize::MAX - 1)
    }

    pub(super) fn tip(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap() - 1
    }

    pub(super) fn hash(&self, height: u32) -> String {
        self.model.blocks[usize::try_from(height).unwrap()].hash.to_string()
    }

    /// `stats` and `balance` of these scripts, as [`FIGURES`] asks for them.
    pub(super) fn figures(&self, scripts: &Scripts) -> Value {
        let sum = |part: fn(&Totals) -> u64| scripts.iter().map(|script| part(&self.model.totals(script))).sum::<u64>();
        let (received, spent) = (sum(|totals| totals.received), sum(|totals| totals.spent));
        let coins = scripts.iter().flat_map(|script| self.model.unspent.get(script).into_iter().flatten());
        let immature = coins.filter(|(_, coin)| coin.coinbase && coin.height + 100 > self.tip() + 1);
        let immature: u64 = immature.map(|(_, coin)| coin.value).sum();
        let confirmed = received - spent;
        let seen = self.txnums(scripts);
        let block = |txnum: Option<&TxNum>| txnum.map_or(Value::Null, |txnum| json!({ "height": self.height(*txnum) }));
        let (receipts, spends) =
            (sum(|totals| totals.outputs_received.into()), sum(|totals| totals.outputs_spent.into()));
        json!({
            "stats": {
                "txCount": seen.len(),
                "receivedCount": receipts,
                "received": received.to_string(),
                "spentCount": spends,
                "spent": spent.to_string(),
                "utxoCount": receipts - spends,
                "firstSeenBlock": block(seen.first()),
                "lastSeenBlock": block(seen.last()),
                "minedBlockCount": self.payouts(scripts).len(),
                "used": !seen.is_empty(),
            },
            "balance": { "confirmed": confirmed, "immature": immature, "spendable": confirmed - immature },
        })
    }

    /// The unspent outputs, newest first, as [`UTXO`] asks for them.
    pub(super) fn utxos(&self, scripts: &Scripts) -> Vec<Value> {
        let coins = scripts.iter().flat_map(|script| self.model.unspent.get(script).into_iter().flatten());
        let coins: BTreeMap<_, _> = coins.collect();
        let row = |((txnum, vout), coin): (&(TxNum, u32), &crate::support::model::Unspent)| {
            json!({
                "outpoint": {
                    "text": format!("{}:{vout}", self.model.transactions[usize::try_from(*txnum).unwrap()].txid),
                },
                "value": coin.value,
                "height": coin.height,
                "confirmations": self.tip() + 1 - coin.height,
                "isCoinbase": coin.coinbase,
                "matureAtHeight": if coin.coinbase { json!(coin.height + 100) } else { Value::Null },
            })
        };
        coins.into_iter().rev().map(row).collect()
    }

    /// The transactions of these scripts, oldest first, as [`ENTRY`] asks for them.
    pub(super) fn entries(&self, scripts: &Scripts) -> Vec<Value> {
        let mut balance = 0;
        let entries = self.txnums(scripts).into_iter().map(|txnum| {
            let (mut received, mut spent, mut touched) = (0, 0, BTreeSet::new());
            for script in scripts {
                let Some(rows) = self.model.history.get(script) else { continue };
                let Some(after) = rows.get(&txnum) else { continue };
                let before = rows.range(..txnum).next_back().map(|(_, row)| *row).unwrap_or_default();
                received += after.received - before.received;
                spent += after.spent - before.spent;
                touched.insert(name(script));
            }
            balance = balance + received - spent;
            let (pays, spends) = self.ways(txnum, scripts);
            json!({
                "transaction": { "txid": self.model.transactions[usize::try_from(txnum).unwrap()].txid.to_string() },
                "net": i64::try_from(received).unwrap() - i64::try_from(spent).unwrap(),
                "received": received,
                "spent": spent,
                "balanceAfter": balance,
                "sentToSelf": pays && spends,
                "touched": touched,
            })
        });
        entries.collect()
    }

    /// Whether a transaction pays these scripts, and whether it spends them.
    pub(super) fn ways(&self, txnum: TxNum, scripts: &Scripts) -> (bool, bool) {
        let (pays, spends) = &self.paid[usize::try_from(txnum).unwrap()];
        (!pays.is_disjoint(scripts), !spends.is_disjoint(scripts))
    }

    pub(super) fn is_coinbase(&self, txnum: TxNum) -> bool {
        self.coinbases.contains(&txnum)
    }

    /// The transactions that paid or spent these scripts.
    pub(super) fn txnums(&self, scripts: &Scripts) -> BTreeSet<TxNum> {
        scripts
            .iter()
            .filter_map(|script| self.model.history.get(script))
            .flat_map(|rows| rows.keys().copied())
            .collect()
    }

    /// Heights of the blocks whose coinbase paid these scripts.
    pub(super) fn payouts(&self, scripts: &Scripts) -> BTreeSet<u32> {
        scripts.iter().filter_map(|script| self.model.payouts.get(script)).flatten().copied().collect()
    }

    pub(super) fn height(&self, txnum: TxNum) -> u32 {
        self.model.transactions[usize::try_from(txnum).unwrap()].height
    }
}

pub(super) const FIGURES: &str = "stats { txCount receivedCount received spentCount spent utxoCount
    firstSeenBlock { height } lastSeenBlock { height } minedBlockCount used } balance { confirmed immature spendable }";
pub(super) const UTXO: &str = "outpoint { text } value height confirmations isCoinbase matureAtHeight";
pub(super) const ENTRY: &str = "transaction { txid } net received spent balanceAfter sentToSelf touched";

/// The address of a script.
pub(super) fn address(script: &ScriptBuf) -> Option<String> {
    Address::from_script(script, Network::Regtest).ok().map(|address| address.to_string())
}

/// How a script of a set is written: its address, or itself.
pub(super) fn name(script: &ScriptBuf) -> String {
    address(script).unwrap_or_else(|| script.to_hex_string())
}

/// The field that leads to one script: its address if it has one, its hash or the script itself if not.
pub(super) fn one(script: &ScriptBuf, random: &mut Rng) -> String {
    match address(script) {
        Some(address) if random.chance(70) => format!("address(address: \"{address}\")"),
        _ if random.chance(50) => {
            use bitcoin::hashes::{Hash, sha256};
            let hash = sha256::Hash::hash(script.as_bytes());
            format!("script(scriptHash: \"{hash}\")")
        }
        _ => format!("script(scriptPubKey: \"{}\")", script.to_hex_string()),
    }
}

/// The field that leads to a set, members given twice and in both forms, and texts that are no address among them.
pub(super) fn set(scripts: &Scripts, random: &mut Rng) -> String {
    let (mut addresses, mut hexes) = (vec!["no address".to_owned()], Vec::new());
    for script in scripts {
        match address(script) {
            Some(address) if random.chance(70) => {
                if random.chance(30) {
                    hexes.push(script.to_hex_string());
                }
                let again = if random.chance(30) { Some(address.clone()) } else { None };
                addresses.extend(again.into_iter().chain([address]));
            }
            _ => hexes.push(script.to_hex_string()),
        }
    }
    format!("ledgerSet(of: {{ addresses: {}, scripts: {} }})", json!(addresses), json!(hexes))
}

/// All scripts that the chain ever paid, and some that it never did.
pub(super) fn known_scripts(chain: &SimChain) -> Vec<ScriptBuf> {
    let outputs = chain.active_blocks().flat_map(|block| &block.txdata).flat_map(|transaction| &transaction.output);
    let known: Scripts = outputs.map(|output| output.script_pubkey.clone()).collect();
    let never = (900..903).map(|n| btcgraph::sim::Owner::new(btcgraph::sim::ScriptKind::P2wpkh, n).script_pubkey());
    known.into_iter().chain(never).collect()
}

/// Up to `most` of these.
pub(super) fn some(scripts: &[ScriptBuf], most: u64, random: &mut Rng) -> Scripts {
    (0..random.between(1, most)).filter_map(|_| random.choose(scripts)).cloned().collect()
}

/// Brings the index to the chain, through whatever reorganisation that takes.
pub(super) fn follow(api: &mut Api, chain: &SimChain, fed: &mut Vec<Arc<Block>>) {
    let active: Vec<_> = chain.active_blocks().cloned().collect();
    let shared = fed.iter().zip(&active).take_while(|(one, other)| one.block_hash() == other.block_hash()).count();
    let depth = u32::try_from(fed.len() - shared).unwrap();
    api.change(depth, active[shared..].iter().map(Arc::as_ref));
    *fed = active;
}

/// A hostile chain of this many blocks.
pub(super) fn hostile_chain(seed: u64, blocks: u32) -> (SimChain, Hostile) {
    let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
    for _ in 0..blocks {
        hostile.mine(&mut chain).unwrap();
    }
    (chain, hostile)
}
