//! How the simulated node does what a scenario asks of a node.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use bitcoin::{Block, BlockHash, OutPoint, Transaction, Txid};
use btcgraph::chain::Height;
use btcgraph::sim::{Mining, Reward, SimChain, SimNode, SimNodeOptions, World};

use super::names::START;
use super::node::{NewBlock, Node};

const USER: &str = "scenario";
const PASSWORD: &str = "password";

/// A node in this process.
pub(super) struct Simulated {
    node: SimNode,
}

impl Simulated {
    /// A node whose blocks are those that a real node would make. It sends signals (ZMQ) or does not.
    pub(super) fn like_a_real_node(signals: bool) -> Self {
        Self::with(SimChain::new(0).with_core_coinbases(), signals)
    }

    /// A node whose coinbases commit to no witnesses where there are none, so that they can be repeated.
    pub(super) fn with_bare_coinbases() -> Self {
        Self::with(SimChain::new(0), false)
    }

    fn with(chain: SimChain, signals: bool) -> Self {
        let mut world = World::new(chain);
        world.set_time(START.try_into().unwrap());
        let login = (USER.to_owned(), PASSWORD.to_owned());
        let options = SimNodeOptions { login, zmq: signals.then_some(0), ..SimNodeOptions::default() };
        Self { node: SimNode::start(Arc::new(Mutex::new(world)), options).unwrap() }
    }

    fn world<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        self.node.with(act).unwrap()
    }
}

impl Node for Simulated {
    fn login(&self) -> Vec<OsString> {
        ["--rpc-url", &self.node.url(), "--rpc-user", USER, "--rpc-password", PASSWORD].map(OsString::from).into()
    }

    fn set_clock(&mut self, seconds: i64) {
        self.world(|world| world.set_time(seconds.try_into().unwrap()));
    }

    fn mine(&mut self, block: &NewBlock) -> Result<BlockHash, String> {
        let reward = Some(Reward::to(block.to.clone()).withholding(block.withheld));
        let mining = Mining { reward, ..Mining::default() };
        let mined = self.world(|world| match &block.transactions {
            None => world.mine(mining),
            Some(transactions) => world.mine_exactly(transactions.clone(), mining),
        });
        mined.map(|block| block.block_hash()).map_err(|error| error.to_string())
    }

    fn duplicate_coinbase(&mut self, earlier: BlockHash) -> Result<BlockHash, String> {
        let mined = self.world(|world| world.change_chain(|chain| chain.mine_duplicate_coinbase(&earlier, Vec::new())));
        mined.map(|block| block.block_hash()).map_err(|error| error.to_string())
    }

    fn submit(&mut self, transaction: &Transaction) -> Result<(), String> {
        self.world(|world| world.submit(transaction.clone())).map(|_| ()).map_err(|refusal| refusal.to_string())
    }

    fn evict(&mut self, txid: Txid) {
        self.world(|world| world.evict(&txid));
    }

    fn invalidate(&mut self, hash: BlockHash) {
        self.world(|world| world.invalidate(&hash)).unwrap();
    }

    fn reconsider(&mut self, hash: BlockHash) {
        self.world(|world| world.reconsider(&hash)).unwrap();
    }

    fn tip(&self) -> BlockHash {
        self.world(|world| world.chain().tip())
    }

    fn waiting(&self) -> BTreeSet<Txid> {
        self.world(|world| world.mempool().entries().map(|entry| entry.txid).collect())
    }

    fn height(&self) -> u32 {
        self.world(|world| world.chain().height().to_u32())
    }

    fn hash_at(&self, height: u32) -> BlockHash {
        self.world(|world| world.chain().hash_at(Height::from(height))).unwrap()
    }

    fn block(&self, hash: BlockHash) -> Block {
        self.world(|world| world.chain().block(&hash).map(|block| Block::clone(block))).unwrap()
    }

    fn height_of(&self, hash: BlockHash) -> u32 {
        self.world(|world| world.chain().height_of(&hash)).unwrap().to_u32()
    }

    fn is_spendable(&self, outpoint: &OutPoint) -> bool {
        self.world(|world| {
            let next = world.chain().height().next();
            let mature = world.chain().coin(outpoint).is_some_and(|coin| coin.is_mature_at(next));
            (mature || world.mempool().output(outpoint).is_some()) && world.mempool().spender(outpoint).is_none()
        })
    }

    fn stop(&mut self) {
        self.node.stop_serving();
    }

    fn start(&mut self, forgets: bool) {
        if forgets { self.node.restart() } else { self.node.answer() }.unwrap();
    }

    fn signals(&self) -> Option<String> {
        self.node.zmq_url().map(|url| url.trim_start_matches("tcp://").to_owned())
    }
}
