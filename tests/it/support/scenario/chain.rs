//! What a scenario does to a chain: a real node whose clock stands still between blocks, and accounts whose keys are
//! ours, so that which coins pay what, and in which order, is the same in each run. (A wallet draws its keys, the place
//! of the change and the coins at random.)

use std::collections::BTreeMap;
use std::time::Duration;

use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::{Address, Amount, Block, BlockHash, Network, OutPoint, Transaction, TxOut};
use btcgraph::sim::{Owner, ScriptKind};
use serde_json::{Value, json};

use super::names::{Names, START};
use crate::support::api::spend_outputs;
use crate::support::bitcoind::{RealNode, wait_for};

/// Seconds from block to block.
const INTERVAL: i64 = 600;
/// From so many confirmations on the next block may spend a coinbase.
const MATURE: u64 = 100;

/// A node and its accounts.
pub(super) struct Chain {
    pub(super) node: RealNode,
    /// The node's clock, in seconds since 1970.
    clock: i64,
    height: u32,
    reorgs: u32,
    accounts: BTreeMap<String, Owner>,
    /// Every output that ever paid an account, the oldest first.
    coins: Vec<(OutPoint, TxOut)>,
}

impl Chain {
    /// A chain of the genesis block; `None`, which is recorded, where there is no node.
    #[track_caller]
    pub(super) fn start(names: &mut Names) -> Option<Self> {
        let node = RealNode::start(&[&format!("-mocktime={START}")])?;
        let genesis = bitcoin::constants::genesis_block(Network::Regtest).block_hash();
        let (accounts, coins) = (BTreeMap::new(), Vec::new());
        let mut chain = Self { node, clock: START, height: 0, reorgs: 0, accounts, coins };
        chain.name_block(names, genesis, 0);
        Some(chain)
    }

    /// Mines blocks with what waits in the mempool. They are 10 minutes apart.
    pub(super) fn mine(&mut self, names: &mut Names, count: u32, to: &str) {
        let address = self.address(names, to);
        for _ in 0..count {
            self.tick();
            let hash = self.node.mine_to(&address, 1)[0];
            self.height += 1;
            self.name_block(names, hash, self.height);
        }
    }

    /// Pays from the oldest coins of an account that can be spent: output 0 is the payment, output 1 the change.
    /// Errors: it has not enough.
    pub(super) fn send(
        &mut self,
        names: &mut Names,
        amount: Amount,
        fee: Amount,
        [from, to, name]: [&String; 3],
    ) -> Result<(), String> {
        let payer = self.account(names, from);
        let receiver = self.account(names, to);
        let script = payer.script_pubkey();
        let (mut coins, mut prevouts, mut total) = (Vec::new(), Vec::new(), Amount::ZERO);
        for (outpoint, output) in self.coins.iter().filter(|(_, output)| output.script_pubkey == script) {
            if total >= amount + fee {
                break;
            }
            if self.is_spendable(outpoint) {
                total += output.value;
                coins.push(*outpoint);
                prevouts.push(output.clone());
            }
        }
        let change = total.checked_sub(amount + fee).ok_or_else(|| format!("{from} can spend {total} and no more"))?;
        let mut outputs = vec![receiver.output(amount)];
        outputs.extend((change > Amount::ZERO).then(|| payer.output(change)));
        let transaction = spend_outputs(payer, &coins, &prevouts, outputs);
        self.node.must("sendrawtransaction", &[json!(serialize_hex(&transaction))]);
        self.name_transaction(names, &transaction, name);
        Ok(())
    }

    /// Replaces the newest blocks by one more block than they were, all empty: what was paid in them waits in the
    /// mempool again. Errors: there are not so many blocks.
    pub(super) fn reorg(&mut self, names: &mut Names, count: u32) -> Result<(), String> {
        if count > self.height {
            return Err(format!("the chain has {} blocks on the genesis block", self.height));
        }
        self.reorgs += 1;
        let address = self.address(names, &format!("rival{}", self.reorgs));
        let first = self.height - count + 1;
        let hash = self.node.must("getblockhash", &[json!(first)]);
        self.node.must("invalidateblock", &[hash]);
        self.height = first - 1;
        for _ in 0..=count {
            self.tick();
            let block = self.node.must("generateblock", &[json!(address), json!([])]);
            self.height += 1;
            self.name_block(names, serde_json::from_value(block["hash"].clone()).unwrap(), self.height);
        }
        Ok(())
    }

    /// Stops the node and starts it with what it had in its mempool.
    pub(super) fn restart(&mut self) {
        // with the clock of now: a node refuses to start on blocks of the future
        self.node.restart_with(&[&format!("-mocktime={}", self.clock)]);
        wait_for("the mempool to be read", Duration::from_secs(30), || {
            (self.node.must("getmempoolinfo", &[])["loaded"] == json!(true)).then_some(())
        });
    }

    fn tick(&mut self) {
        self.clock += INTERVAL;
        self.node.must("setmocktime", &[json!(self.clock)]);
    }

    /// Whether the next transaction may spend it: it is in the chain or the mempool, unspent in both, and mature.
    fn is_spendable(&self, outpoint: &OutPoint) -> bool {
        let found = self.node.must("gettxout", &[json!(outpoint.txid), json!(outpoint.vout), json!(true)]);
        let confirmations = found["confirmations"].as_u64();
        found != Value::Null && (found["coinbase"] == json!(false) || confirmations >= Some(MATURE))
    }

    fn account(&mut self, names: &mut Names, name: &str) -> Owner {
        let new = u32::try_from(self.accounts.len()).unwrap() + 1;
        // taproot: all signatures are of one size, and so are all transactions of one form
        let owner = *self.accounts.entry(name.to_owned()).or_insert(Owner::new(ScriptKind::P2trKey, new));
        names.give(&address_of(owner), &format!("$address.{name}"));
        names.give(&owner.script_pubkey().to_hex_string(), &format!("$script.{name}"));
        owner
    }

    fn address(&mut self, names: &mut Names, name: &str) -> String {
        address_of(self.account(names, name))
    }

    /// `$block7` and `$tx.coinbase7`; the second block at height 7 has a `b` behind the number.
    fn name_block(&mut self, names: &mut Names, hash: BlockHash, height: u32) {
        let block: Block =
            deserialize_hex(self.node.must("getblock", &[json!(hash), json!(0)]).as_str().unwrap()).unwrap();
        let mut numbers =
            std::iter::once(height.to_string()).chain(('b'..='z').map(|letter| format!("{height}{letter}")));
        let number = numbers.find(|number| !names.has(&format!("$block{number}"))).unwrap();
        names.give(&hash.to_string(), &format!("$block{number}"));
        self.name_transaction(names, &block.txdata[0], &format!("coinbase{number}"));
    }

    fn name_transaction(&mut self, names: &mut Names, transaction: &Transaction, name: &str) {
        let txid = transaction.compute_txid();
        names.give(&txid.to_string(), &format!("$tx.{name}"));
        names.give(&transaction.compute_wtxid().to_string(), &format!("$wtxid.{name}"));
        let scripts: Vec<_> = self.accounts.values().map(Owner::script_pubkey).collect();
        let outputs = (0..).zip(&transaction.output).filter(|(_, output)| scripts.contains(&output.script_pubkey));
        self.coins.extend(outputs.map(|(vout, output)| (OutPoint { txid, vout }, output.clone())));
    }
}

fn address_of(owner: Owner) -> String {
    Address::from_script(&owner.script_pubkey(), Network::Regtest).unwrap().to_string()
}
