use std::sync::{Arc, Mutex};

use async_graphql::{Executor, Request, Variables};
use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::{Address, Amount, Block, Network, OutPoint, Sequence, Transaction, TxIn, TxOut, absolute, transaction};
use btcgraph::api::{self, Features, Schema};
use btcgraph::limits::Limits;
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{Mining, Owner, Reward, ScriptKind, SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};

use crate::mempool::following::{Following, How};
use crate::support::bitcoind::RealNode;

pub(super) const OWNER: Owner = Owner::new(ScriptKind::P2wpkh, 1);
/// What each coin holds, in sat.
pub(super) const COIN: u64 = 1_000_000;
/// How many coins there are.
const COINS: u32 = 12;

pub(super) enum AnyNode {
    Sim(Box<SimNode>),
    Real(Box<RealNode>),
}

/// A node that is followed, and the schema over what follows it.
pub(super) struct Lab {
    pub(super) node: AnyNode,
    pub(super) schema: Schema,
    following: Following,
    /// Coins of [`COIN`] sat in the chain, not spent yet.
    coins: Vec<OutPoint>,
    /// A coinbase that pays the owner and may be spent.
    pub(super) coinbase: Transaction,
}

/// One on the simulated node, and one on a real one, if there is any.
#[track_caller]
pub(super) fn labs() -> Vec<Lab> {
    [Some(Lab::simulated()), Lab::real()].into_iter().flatten().collect()
}

impl Lab {
    pub(super) fn simulated() -> Self {
        let world = World::new(SimChain::new(81).with_clock(1_700_000_000, 600));
        let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
        let sim = SimNode::start(Arc::new(Mutex::new(world)), options).unwrap();
        let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
        let url = sim.url();
        Self::over(AnyNode::Sim(Box::new(sim)), url, auth)
    }

    #[track_caller]
    fn real() -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let publish = format!("-zmqpubsequence=tcp://127.0.0.1:{port}");
        // the fees that the simulated node asks for, and any transaction may be replaced
        let fees = ["-minrelaytxfee=0.00001", "-incrementalrelayfee=0.00001", "-mempoolfullrbf=1"];
        let real = RealNode::start(&[&["-persistmempool=0", &publish][..], &fees].concat())?;
        let (url, auth) = (real.rpc_url(), Auth::Cookie(real.cookie_path()));
        Some(Self::over(AnyNode::Real(Box::new(real)), url, auth))
    }

    fn over(node: AnyNode, url: String, auth: Auth) -> Self {
        let following = Following::start(url.clone(), auth.clone(), How::default());
        following.published.set_node(Node::connect(NodeOptions::new(Network::Regtest, url, auth)).unwrap());
        let (published, live) = (following.published.clone(), following.live.clone());
        let schema =
            api::schema(published, live, Limits::default(), Features { broadcast: true, ..Features::default() });
        let mut lab = Self { node, schema, following, coins: Vec::new(), coinbase: nothing() };
        let first = lab.mine_to_owner();
        lab.coinbase = lab.mine_to_owner();
        lab.mine(100);
        let coin = OutPoint { txid: first.compute_txid(), vout: 0 };
        let mut outputs = vec![OWNER.output(Amount::from_sat(COIN)); usize::try_from(COINS).unwrap()];
        let rest = first.output[0].value - Amount::from_sat(COIN * u64::from(COINS)) - Amount::from_sat(10_000);
        outputs.push(OWNER.output(rest));
        let split = spending(&[(coin, first.output[0].clone())], outputs);
        lab.node.submit(&split);
        lab.mine(1);
        lab.coins = (0..COINS).map(|vout| OutPoint { txid: split.compute_txid(), vout }).collect();
        lab
    }

    /// A coin that no call before gave.
    pub(super) fn coin(&mut self) -> OutPoint {
        self.coins.pop().expect("coins are left")
    }

    /// A block with all that waits, and others on it; the owner gets nothing of it. Returns once it is followed.
    pub(super) fn mine(&self, count: u32) {
        match &self.node {
            AnyNode::Sim(sim) => {
                for _ in 0..count {
                    sim.with(|world| world.mine(Mining::default())).unwrap().unwrap();
                }
                self.following.assert_catches_up(&**sim);
            }
            AnyNode::Real(real) => {
                real.mine(count);
                self.following.assert_catches_up(&**real);
            }
        }
    }

    /// A block with this transaction alone, whatever waits, and returns once it is followed.
    pub(super) fn mine_only(&self, transaction: &Transaction) {
        match &self.node {
            AnyNode::Sim(sim) => {
                let mined = sim.with(|world| world.mine_exactly(vec![transaction.clone()], Mining::default()));
                mined.unwrap().unwrap();
            }
            AnyNode::Real(real) => {
                let address = Address::from_script(&OWNER.script_pubkey(), Network::Regtest).unwrap();
                real.must("generateblock", &[json!(address.to_string()), json!([serialize_hex(transaction)])]);
            }
        }
        self.catch_up();
    }

    /// The coinbase of a block that pays the owner.
    pub(super) fn mine_to_owner(&self) -> Transaction {
        let block = match &self.node {
            AnyNode::Sim(sim) => {
                let reward = Some(Reward::to(OWNER.script_pubkey()));
                sim.with(|world| world.mine(Mining { reward, ..Mining::default() })).unwrap().unwrap()
            }
            AnyNode::Real(real) => {
                let address = Address::from_script(&OWNER.script_pubkey(), Network::Regtest).unwrap();
                let hash = real.mine_to(&address.to_string(), 1)[0];
                let block: Block =
                    deserialize_hex(real.must("getblock", &[json!(hash), json!(0)]).as_str().unwrap()).unwrap();
                Arc::new(block)
            }
        };
        block.txdata[0].clone()
    }

    /// Waits until what is published is the node's.
    pub(super) fn catch_up(&self) {
        match &self.node {
            AnyNode::Sim(sim) => self.following.assert_catches_up(&**sim),
            AnyNode::Real(real) => self.following.assert_catches_up(&**real),
        };
    }

    /// The whole response to a document with variables.
    pub(super) fn execute(&self, document: &str, variables: Value) -> Value {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let request = Request::new(document).variables(Variables::from_json(variables));
        serde_json::to_value(runtime.block_on(self.schema.execute(request))).unwrap()
    }

    /// What a field says that must have no errors.
    #[track_caller]
    pub(super) fn data(&self, document: &str, variables: Value) -> Value {
        let mut response = self.execute(document, variables);
        assert_eq!(response.get("errors"), None, "{response:#}");
        response["data"]["of"].take()
    }

    /// What becomes of a transaction that is sent.
    #[track_caller]
    pub(super) fn send(&self, transaction: &Transaction) -> Value {
        self.send_hex(&serialize_hex(transaction))
    }

    #[track_caller]
    pub(super) fn send_hex(&self, hex: &str) -> Value {
        let document =
            format!("mutation($hex: Hex!) {{ of: broadcastTransaction(hex: $hex) {{ {RESULT} {REJECT} }} }}");
        self.data(&document, json!({ "hex": hex }))
    }

    /// The same where the transaction must be taken.
    #[track_caller]
    pub(super) fn must_take(&self, transaction: &Transaction) -> Value {
        let answer = self.send(transaction);
        assert_eq!((&answer["outcome"], &answer["reject"]), (&json!("ACCEPTED"), &Value::Null), "{answer:#}");
        answer
    }

    /// Ends it, and has all of its states checked.
    pub(super) fn stop(self) {
        // it could still tell of events, for which the check waits
        drop(self.schema);
        self.following.stop();
    }
}

/// What is asked of a result.
pub(super) const RESULT: &str =
    "outcome txid wtxid replaced transaction { txid state fee confirmations mempoolEntry { ancestorCount } }";
pub(super) const REJECT: &str = "reject { code rejectReason details missingInputs { text } conflictsWith requiredFee }";

impl AnyNode {
    fn submit(&self, transaction: &Transaction) {
        match self {
            AnyNode::Sim(sim) => {
                sim.with(|world| world.submit(transaction.clone())).unwrap().unwrap();
            }
            AnyNode::Real(real) => {
                real.must("sendrawtransaction", &[json!(serialize_hex(transaction))]);
            }
        }
    }

    /// Ends answering, as when it is killed.
    pub(super) fn kill(&mut self) {
        match self {
            AnyNode::Sim(sim) => sim.stop_serving(),
            AnyNode::Real(real) => real.kill(),
        }
    }

    /// Answers again, with what it had on disk.
    pub(super) fn start_again(&mut self) {
        match self {
            AnyNode::Sim(sim) => sim.answer().unwrap(),
            AnyNode::Real(real) => real.start_again(),
        }
    }
}

fn nothing() -> Transaction {
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: Vec::new(),
        output: Vec::new(),
    }
}

/// A transaction that spends these outputs of the owner, signalling that it may be replaced.
pub(super) fn spending(coins: &[(OutPoint, TxOut)], output: Vec<TxOut>) -> Transaction {
    spending_as(transaction::Version::TWO, coins, output)
}

pub(super) fn spending_as(
    version: transaction::Version,
    coins: &[(OutPoint, TxOut)],
    output: Vec<TxOut>,
) -> Transaction {
    let sequence = Sequence::ENABLE_RBF_NO_LOCKTIME;
    let input = coins.iter().map(|(coin, _)| TxIn { previous_output: *coin, sequence, ..TxIn::default() });
    let mut spending = Transaction { version, input: input.collect(), output, ..nothing() };
    let prevouts: Vec<_> = coins.iter().map(|(_, prevout)| prevout.clone()).collect();
    for input in 0..coins.len() {
        OWNER.unlock(&mut spending, input, &prevouts).unwrap();
    }
    spending
}

/// A transaction that spends a coin of the lab to its owner and leaves this fee, in sat.
pub(super) fn paying(coin: OutPoint, fee: u64) -> Transaction {
    spending(&[(coin, of_owner(COIN))], vec![of_owner(COIN - fee)])
}

/// A transaction that spends the first output of another, and leaves this fee, in sat.
pub(super) fn child_of(parent: &Transaction, fee: u64) -> Transaction {
    let value = parent.output[0].value.to_sat();
    spending(&[(output_of(parent), parent.output[0].clone())], vec![of_owner(value - fee)])
}

pub(super) fn of_owner(sat: u64) -> TxOut {
    OWNER.output(Amount::from_sat(sat))
}

pub(super) fn output_of(of: &Transaction) -> OutPoint {
    OutPoint { txid: of.compute_txid(), vout: 0 }
}

/// Its txid, as an answer has it.
pub(super) fn txid(of: &Transaction) -> Value {
    json!(of.compute_txid().to_string())
}

/// The least fee that its size costs, in sat.
pub(super) fn least_fee(of: &Transaction) -> u64 {
    of.weight().to_vbytes_ceil()
}
