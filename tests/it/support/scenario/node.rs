//! What a scenario asks of a node, and how a real one does it. Its clock stands still between blocks.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::{Amount, Block, BlockHash, OutPoint, ScriptBuf, Transaction, Txid};
use serde_json::{Value, json};

use super::names::START;
use crate::support::bitcoind::{RealNode, free_port, wait_for};
use crate::support::program::login;

/// From so many confirmations on the next block may spend a coinbase.
const MATURE: u64 = 100;

/// A block to be mined on the tip.
pub(super) struct NewBlock {
    /// What the coinbase pays; it has an address.
    pub(super) to: ScriptBuf,
    /// The transactions of the block, in this order; those of the mempool if none.
    pub(super) transactions: Option<Vec<Transaction>>,
    /// The fees of `transactions`, which the coinbase claims beside the subsidy,
    pub(super) fees: Amount,
    /// and what it leaves of both; only with `transactions`.
    pub(super) withheld: Amount,
}

/// A node of regtest without peers. What is an `Err` is the node's own refusal.
pub(super) trait Node {
    /// Where btcgraph finds it, as flags.
    fn login(&self) -> Vec<OsString>;
    /// Sets its clock, in seconds since 1970.
    fn set_clock(&mut self, seconds: i64);
    fn mine(&mut self, block: &NewBlock) -> Result<BlockHash, String>;
    /// Mines a block whose coinbase is that of an earlier block.
    fn duplicate_coinbase(&mut self, earlier: BlockHash) -> Result<BlockHash, String>;
    /// Takes a transaction into its mempool.
    fn submit(&mut self, transaction: &Transaction) -> Result<(), String>;
    /// Drops a transaction from its mempool, with all that spend it.
    fn evict(&mut self, txid: Txid);
    /// Takes a block for invalid, with all that stand on it.
    fn invalidate(&mut self, hash: BlockHash);
    /// Takes a block for valid again, with all around it.
    fn reconsider(&mut self, hash: BlockHash);
    fn tip(&self) -> BlockHash;
    fn height(&self) -> u32;
    /// The transactions of its mempool.
    fn waiting(&self) -> BTreeSet<Txid>;
    fn hash_at(&self, height: u32) -> BlockHash;
    fn block(&self, hash: BlockHash) -> Block;
    fn height_of(&self, hash: BlockHash) -> u32;
    /// Whether the next transaction may spend it: it is in the chain or the mempool, unspent in both, and mature.
    fn is_spendable(&self, outpoint: &OutPoint) -> bool;
    fn stop(&mut self);
    /// Starts a stopped node with the chain that it had, and with the mempool unless it forgets that.
    fn start(&mut self, forgets: bool);
    /// The endpoint on which it sends signals (ZMQ), as `host:port`, if it sends any.
    fn signals(&self) -> Option<String>;
}

/// A bitcoind.
pub(super) struct Real {
    node: RealNode,
    clock: i64,
    signals: Option<String>,
}

impl Real {
    /// Starts one, with or without signals. `None`, which is recorded, where there is no bitcoind.
    #[track_caller]
    pub(super) fn new(signals: bool) -> Option<Self> {
        let signals = signals.then(|| format!("127.0.0.1:{}", free_port()));
        let mut arguments = vec![format!("-mocktime={START}")];
        arguments.extend(signals.as_ref().map(|endpoint| format!("-zmqpubsequence=tcp://{endpoint}")));
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        Some(Self { node: RealNode::start(&arguments)?, clock: START, signals })
    }

    fn start_with(&mut self, arguments: &[&str]) {
        // with the clock of now: a node refuses to start on blocks of the future
        let clock = format!("-mocktime={}", self.clock);
        self.node.start_with(&[&[clock.as_str()], arguments].concat());
        wait_for("the mempool to be read", Duration::from_secs(30), || {
            (self.node.must("getmempoolinfo", &[])["loaded"] == json!(true)).then_some(())
        });
    }

    fn call(&self, method: &str, params: &[Value]) -> Result<Value, String> {
        self.node.call(method, params).map_err(|error| error.message)
    }

    fn hash(&self, method: &str, params: &[Value]) -> BlockHash {
        serde_json::from_value(self.node.must(method, params)).unwrap()
    }

    /// A block of exactly these transactions.
    fn mine_exactly(&self, address: &str, transactions: &[Transaction], block: &NewBlock) -> Result<BlockHash, String> {
        let transactions: Vec<_> = transactions.iter().map(serialize_hex).collect();
        let made = self.call("generateblock", &[json!(address), json!(transactions), json!(false)])?;
        let mut made: Block = deserialize_hex(made["hex"].as_str().unwrap()).unwrap();
        // the node claims the subsidy alone
        let reward = &mut made.txdata[0].output[0].value;
        *reward = (*reward + block.fees).checked_sub(block.withheld).ok_or("the coinbase has not so much to claim")?;
        made.header.merkle_root = made.compute_merkle_root().unwrap();
        made.header.nonce = 0;
        while !made.header.target().is_met_by(made.block_hash()) {
            made.header.nonce += 1;
        }
        match self.call("submitblock", &[json!(serialize_hex(&made))])? {
            Value::Null => Ok(made.block_hash()),
            refusal => Err(refusal.to_string()),
        }
    }
}

impl Node for Real {
    fn login(&self) -> Vec<OsString> {
        login(&self.node)
    }

    fn set_clock(&mut self, seconds: i64) {
        self.clock = seconds;
        self.node.must("setmocktime", &[json!(seconds)]);
    }

    fn mine(&mut self, block: &NewBlock) -> Result<BlockHash, String> {
        let address = bitcoin::Address::from_script(&block.to, bitcoin::Network::Regtest).unwrap().to_string();
        match &block.transactions {
            None => Ok(self.node.mine_to(&address, 1)[0]),
            Some(transactions) => self.mine_exactly(&address, transactions, block),
        }
    }

    fn duplicate_coinbase(&mut self, _: BlockHash) -> Result<BlockHash, String> {
        Err("a real node refuses a coinbase that is there".to_owned())
    }

    fn submit(&mut self, transaction: &Transaction) -> Result<(), String> {
        self.call("sendrawtransaction", &[json!(serialize_hex(transaction)), json!(0), json!(21_000_000)]).map(|_| ())
    }

    fn evict(&mut self, txid: Txid) {
        // no request does this: the node restarts with an empty mempool, and the others are submitted again
        let waiting = self.node.must("getrawmempool", &[json!(true)]);
        let mut waiting: Vec<_> = waiting.as_object().unwrap().iter().collect();
        waiting.sort_by_key(|(_, entry)| (entry["ancestorcount"].as_u64(), entry["time"].as_i64()));
        let others: Vec<_> = waiting
            .into_iter()
            .filter(|(waits, _)| **waits != txid.to_string())
            .map(|(waits, _)| self.node.must("getrawtransaction", &[json!(waits)]))
            .collect();
        self.node.stop();
        self.start_with(&["-persistmempool=0"]);
        for other in others {
            // those that spend it are refused now
            let _ = self.call("sendrawtransaction", &[other, json!(0)]);
        }
    }

    fn invalidate(&mut self, hash: BlockHash) {
        self.node.must("invalidateblock", &[json!(hash)]);
    }

    fn reconsider(&mut self, hash: BlockHash) {
        self.node.must("reconsiderblock", &[json!(hash)]);
    }

    fn tip(&self) -> BlockHash {
        self.hash("getbestblockhash", &[])
    }

    fn waiting(&self) -> BTreeSet<Txid> {
        serde_json::from_value(self.node.must("getrawmempool", &[])).unwrap()
    }

    fn height(&self) -> u32 {
        self.node.must("getblockcount", &[]).as_u64().unwrap().try_into().unwrap()
    }

    fn hash_at(&self, height: u32) -> BlockHash {
        self.hash("getblockhash", &[json!(height)])
    }

    fn block(&self, hash: BlockHash) -> Block {
        deserialize_hex(self.node.must("getblock", &[json!(hash), json!(0)]).as_str().unwrap()).unwrap()
    }

    fn height_of(&self, hash: BlockHash) -> u32 {
        self.node.must("getblockheader", &[json!(hash)])["height"].as_u64().unwrap().try_into().unwrap()
    }

    fn is_spendable(&self, outpoint: &OutPoint) -> bool {
        let found = self.node.must("gettxout", &[json!(outpoint.txid), json!(outpoint.vout), json!(true)]);
        let confirmations = found["confirmations"].as_u64();
        found != Value::Null && (found["coinbase"] == json!(false) || confirmations >= Some(MATURE))
    }

    fn stop(&mut self) {
        self.node.stop();
    }

    fn start(&mut self, forgets: bool) {
        self.start_with(if forgets { &["-persistmempool=0"] } else { &[] });
    }

    fn signals(&self) -> Option<String> {
        self.signals.clone()
    }
}
