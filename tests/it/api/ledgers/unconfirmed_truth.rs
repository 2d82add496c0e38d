//! What an answer about scripts must say with a mempool on top, counted from the transactions of a simulated world.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bitcoin::{OutPoint, ScriptBuf, Transaction, Txid};
use btcgraph::mempool::Entry;
use btcgraph::sim::World;
use serde_json::{Value, json};

use super::expected::{Scripts, name};

/// An output of the world that no block has spent.
#[derive(Clone)]
struct Coin {
    outpoint: OutPoint,
    value: u64,
    script: ScriptBuf,
    /// `None` for one of the mempool.
    height: Option<u32>,
    coinbase: bool,
    /// What of the mempool spends it.
    spender: Option<Txid>,
}

/// Scripts with amounts in sat.
type Outputs = Vec<(ScriptBuf, u64)>;

/// The world, counted.
pub(super) struct WorldTruth {
    /// All coins: those of the mempool first, newest first.
    coins: Vec<Coin>,
    /// The mempool in the order of arrival: each transaction with what it spends, and with what it creates.
    waiting: Vec<(Txid, Outputs, Outputs)>,
    tip: u32,
}

impl WorldTruth {
    /// Of a world whose mempool arrived in this order.
    pub(super) fn of(world: &World, arrived: &[Arc<Entry>]) -> Self {
        let mempool: Vec<Arc<Transaction>> =
            arrived.iter().map(|entry| Arc::clone(&world.mempool().get(&entry.txid).unwrap().tx)).collect();
        let mut spenders = HashMap::new();
        for transaction in &mempool {
            let txid = transaction.compute_txid();
            spenders.extend(transaction.input.iter().map(|input| (input.previous_output, txid)));
        }
        let mut outputs = HashMap::new();
        let mut coins = Vec::new();
        let tip = world.chain().height().to_u32();
        for (height, block) in (0..).zip(world.chain().active_blocks()) {
            for transaction in &block.txdata {
                let txid = transaction.compute_txid();
                for (vout, output) in (0..).zip(&transaction.output) {
                    let outpoint = OutPoint { txid, vout };
                    if world.chain().coin(&outpoint).is_none() {
                        continue;
                    }
                    let (script, value) = (output.script_pubkey.clone(), output.value.to_sat());
                    outputs.insert(outpoint, (script.clone(), value));
                    coins.push(Coin {
                        outpoint,
                        value,
                        script,
                        height: Some(height),
                        coinbase: transaction.is_coinbase(),
                        spender: spenders.get(&outpoint).copied(),
                    });
                }
            }
        }
        let mut waiting = Vec::new();
        for transaction in &mempool {
            let txid = transaction.compute_txid();
            for (vout, output) in (0..).zip(&transaction.output) {
                outputs.insert(OutPoint { txid, vout }, (output.script_pubkey.clone(), output.value.to_sat()));
            }
        }
        for transaction in &mempool {
            let txid = transaction.compute_txid();
            let mut created = Vec::new();
            for (vout, output) in (0..).zip(&transaction.output) {
                let (script, value) = (output.script_pubkey.clone(), output.value.to_sat());
                if script.is_op_return() || script.len() > 10_000 {
                    continue;
                }
                created.push((script.clone(), value));
                let outpoint = OutPoint { txid, vout };
                let spender = spenders.get(&outpoint).copied();
                coins.push(Coin { outpoint, value, script, height: None, coinbase: false, spender });
            }
            let spent = transaction.input.iter().map(|input| outputs[&input.previous_output].clone()).collect();
            waiting.push((txid, spent, created));
        }
        coins.reverse();
        Self { coins, waiting, tip }
    }

    /// Scripts that the mempool pays or spends.
    pub(super) fn touched(&self) -> Vec<ScriptBuf> {
        let scripts = self.waiting.iter().flat_map(|(_, spent, created)| spent.iter().chain(created));
        scripts.map(|(script, _)| script.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn of_scripts<'t>(&'t self, scripts: &'t Scripts) -> impl Iterator<Item = &'t Coin> {
        self.coins.iter().filter(|coin| scripts.contains(&coin.script))
    }

    /// `balance` and the mempool's part of `stats`, as [`PENDING`] asks for them.
    pub(super) fn figures(&self, scripts: &Scripts) -> Value {
        let sum = |kept: &dyn Fn(&Coin) -> bool| {
            self.of_scripts(scripts).filter(|coin| kept(coin)).map(|coin| coin.value).sum::<u64>()
        };
        let confirmed = sum(&|coin| coin.height.is_some());
        let immature = sum(&|coin| self.is_immature(coin));
        let (pending, spent) = (sum(&|coin| coin.height.is_none()), sum(&|coin| coin.spender.is_some()));
        let touching = self
            .waiting
            .iter()
            .filter(|(_, spent, created)| spent.iter().chain(created).any(|(script, _)| scripts.contains(script)));
        let signed = |value: u64| i64::try_from(value).unwrap();
        json!({
            "balance": {
                "confirmed": confirmed,
                "immature": immature,
                "spentInMempool": spent,
                "pendingIn": pending,
                "unconfirmedDelta": signed(pending) - signed(spent),
                "total": confirmed + pending - spent,
                "spendable": sum(&|coin| coin.height.is_some() && !self.is_immature(coin) && coin.spender.is_none()),
            },
            "stats": { "mempoolTxCount": touching.count() },
        })
    }

    /// The unspent outputs, newest first, as [`WAITING_UTXO`] asks for them; with those that the mempool spends or
    /// without them.
    pub(super) fn utxos(&self, scripts: &Scripts, with_spent: bool) -> Vec<Value> {
        let coins = self.of_scripts(scripts).filter(|coin| with_spent || coin.spender.is_none());
        let row = |coin: &Coin| {
            json!({
                "outpoint": { "text": coin.outpoint.to_string() },
                "value": coin.value,
                "height": coin.height,
                "confirmations": coin.height.map_or(0, |height| self.tip + 1 - height),
                "isCoinbase": coin.coinbase,
                "matureAtHeight": coin.height.filter(|_| coin.coinbase).map(|height| height + 100),
                "spentInMempoolByTxid": coin.spender.map(|txid| txid.to_string()),
            })
        };
        coins.map(row).collect()
    }

    /// The transactions of the mempool that pay or spend these scripts, in the order of arrival, as
    /// [`ENTRY`](super::expected::ENTRY) asks for them.
    pub(super) fn waiting_entries(&self, scripts: &Scripts) -> Vec<Value> {
        let confirmed = self.of_scripts(scripts).filter(|coin| coin.height.is_some()).map(|coin| coin.value);
        let mut balance = i64::try_from(confirmed.sum::<u64>()).unwrap();
        let mut entries = Vec::new();
        for (txid, spent, created) in &self.waiting {
            let own = |coins: &[(ScriptBuf, u64)]| {
                let own = coins.iter().filter(|(script, _)| scripts.contains(script)).cloned();
                own.collect::<Vec<_>>()
            };
            let (spent, created) = (own(spent), own(created));
            if spent.is_empty() && created.is_empty() {
                continue;
            }
            let sum = |coins: &[(ScriptBuf, u64)]| coins.iter().map(|(_, value)| value).sum::<u64>();
            let net = i64::try_from(sum(&created)).unwrap() - i64::try_from(sum(&spent)).unwrap();
            balance += net;
            let touched: BTreeSet<_> = spent.iter().chain(&created).map(|(script, _)| name(script)).collect();
            entries.push(json!({
                "transaction": { "txid": txid.to_string() },
                "net": net,
                "received": sum(&created),
                "spent": sum(&spent),
                "balanceAfter": u64::try_from(balance).ok(),
                "sentToSelf": !spent.is_empty() && !created.is_empty(),
                "touched": touched,
            }));
        }
        entries
    }

    fn is_immature(&self, coin: &Coin) -> bool {
        coin.coinbase && coin.height.is_some_and(|height| height + 100 > self.tip + 1)
    }
}

pub(super) const PENDING: &str =
    "balance { confirmed immature spentInMempool pendingIn unconfirmedDelta total spendable }
    stats { mempoolTxCount }";
pub(super) const WAITING_UTXO: &str =
    "outpoint { text } value height confirmations isCoinbase matureAtHeight spentInMempoolByTxid";
