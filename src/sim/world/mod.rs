//! What a simulated node knows: its tree of blocks, its mempool, and what happened to both.
//!
//! ```text
//!   submit, submit_package,      mine, reorg, invalidate,        happenings_since(number)
//!   evict, expire                reconsider, change_chain             ▲
//!        │                            │                               │
//!        ▼                            ▼                               │
//!     Mempool ◄── follow_chain ── SimChain                          Log
//!        └────────────────────────────┴── each change is noted ──────┘
//! ```
//!
//! Every operation does what Core does in its place, and notes each step in the order in which Core tells its
//! subscribers. Time is what the caller says it is.

mod follow_chain;
mod happening;
mod package;

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{Block, BlockHash, Transaction, Txid, Weight};

use self::follow_chain::Cause;
use self::happening::Log;
pub use self::happening::{Happening, Noted};
use super::mempool::FeeRule;
use super::{Assessment, ChainError, Entry, Mempool, Policy, Rejection, Reward, SimChain, Template, TipChange};
use crate::chain::Height;

/// How many happenings are remembered unless told otherwise: those of a deep reorganisation of full blocks.
const REMEMBERED: usize = 65_536;
/// What a block of the mempool's transactions may weigh without its coinbase (Core's default of `-blockmaxweight`
/// without what it reserves).
const BLOCK_WEIGHT: Weight = Weight::from_wu(3_992_000);
/// The state of a simulated node.
#[derive(Clone, Debug)]
pub struct World {
    chain: SimChain,
    mempool: Mempool,
    log: Log,
    now: Option<u32>,
}

/// A transaction that the mempool took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its id.
    pub txid: Txid,
    /// What left for it: what it conflicts with and all that stood on that, in order of ids.
    pub replaced: BTreeSet<Txid>,
}

/// How a block is mined; by default to the chain's own miner, without a tag, of any weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mining {
    /// What the coinbase pays; all to [`SimChain::miner`] if none.
    pub reward: Option<Reward>,
    /// Seconds since 1970. If none, the world's time, or the chain's clock for a world without; never too early.
    pub time: Option<u32>,
    /// Up to 80 bytes of text that the coinbase script carries.
    pub tag: Vec<u8>,
    /// The most that transactions from the mempool may weigh together; 3,992,000 if none.
    pub max_weight: Option<Weight>,
}

impl World {
    /// A node that has this chain, and an empty mempool of the default policy.
    #[must_use]
    pub fn new(chain: SimChain) -> Self {
        World { chain, mempool: Mempool::new(Policy::default()), log: Log::new(REMEMBERED), now: None }
    }

    /// The same with another policy. What is in the mempool is forgotten.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.mempool = Mempool::new(policy);
        self
    }

    /// The same, remembering that many happenings instead of 65,536.
    #[must_use]
    pub fn remembering(mut self, happenings: usize) -> Self {
        self.log = Log::new(happenings);
        self
    }

    /// The tree of blocks and the active chain in it.
    #[must_use]
    pub fn chain(&self) -> &SimChain {
        &self.chain
    }

    /// The unconfirmed transactions.
    #[must_use]
    pub fn mempool(&self) -> &Mempool {
        &self.mempool
    }

    /// Sets the time, in seconds since 1970: that of new transactions and new blocks.
    pub fn set_time(&mut self, now: u32) {
        self.now = Some(now);
    }

    /// The time last set, or the tip's if none was.
    #[must_use]
    pub fn time(&self) -> u32 {
        let tip = || self.chain.block(&self.chain.tip()).map_or(0, |block| block.header.time);
        self.now.unwrap_or_else(tip)
    }

    /// How many happenings there were: the number of the next.
    #[must_use]
    pub fn happened(&self) -> u64 {
        self.log.next_number()
    }

    /// What happened from this number on, in order. `None` when some of it is forgotten, or has not happened yet.
    #[must_use]
    pub fn happenings_since(&self, number: u64) -> Option<impl Iterator<Item = &Noted>> {
        self.log.since(number)
    }

    /// The number that the next transaction to enter or leave the mempool will have, as Core's
    /// `getrawmempool false true` tells it.
    #[must_use]
    pub fn mempool_sequence(&self) -> u64 {
        self.log.next_sequence()
    }

    /// What would become of a transaction if it were submitted, as Core's `testmempoolaccept`.
    pub fn check(&self, tx: &Transaction) -> Result<Assessment, Rejection> {
        self.mempool.assess(&self.chain, tx, FeeRule::Relay)
    }

    /// Takes a transaction into the mempool, in place of what it conflicts with if it pays enough more.
    pub fn submit(&mut self, tx: impl Into<Arc<Transaction>>) -> Result<Accepted, Rejection> {
        let tx = tx.into();
        let assessed = self.check(&tx)?;
        let (txid, replaced) = (assessed.txid, assessed.replaced.clone());
        for entry in self.mempool.remove_all(&replaced) {
            self.log.note(Happening::Replaced { txid: entry.txid, by: txid });
        }
        self.insert(tx, assessed, self.chain.height());
        self.log.note(Happening::Arrived { txid });
        Ok(Accepted { txid, replaced })
    }

    /// Removes a transaction and all that stands on it, as a full mempool would, and tells which, in the order in which
    /// they came.
    pub fn evict(&mut self, txid: &Txid) -> Vec<Txid> {
        let removed = self.mempool.remove_with_descendants(txid);
        self.note_each(&removed, |txid| Happening::Evicted { txid })
    }

    /// Removes what entered before this time, in seconds since 1970, and all that stands on it, and tells which.
    pub fn expire(&mut self, before: u32) -> Vec<Txid> {
        let old: Vec<Txid> =
            self.mempool.entries().filter(|entry| entry.time < before).map(|entry| entry.txid).collect();
        let mut expired = Vec::new();
        for txid in old {
            let removed = self.mempool.remove_with_descendants(&txid);
            expired.extend(self.note_each(&removed, |txid| Happening::Expired { txid }));
        }
        expired
    }

    /// Empties the mempool and counts its changes from the beginning, as a node does that is started anew without what it
    /// had (`-persistmempool=0`). Nothing is noted: such a node tells nobody.
    pub fn forget_mempool(&mut self) {
        self.mempool = Mempool::new(*self.mempool.policy());
        self.log.restart_sequence();
    }

    /// Mines the best of the mempool on the tip.
    pub fn mine(&mut self, mining: Mining) -> Result<Arc<Block>, ChainError> {
        let chosen = self.mempool.select(mining.max_weight.unwrap_or(BLOCK_WEIGHT));
        let chosen = chosen.iter().filter_map(|txid| self.mempool.get(txid)).map(|entry| (*entry.tx).clone()).collect();
        self.mine_exactly(chosen, mining)
    }

    /// Mines these transactions on the tip, in this order, from the mempool or not.
    pub fn mine_exactly(&mut self, transactions: Vec<Transaction>, mining: Mining) -> Result<Arc<Block>, ChainError> {
        let template = self.template(self.chain.tip(), transactions, mining);
        self.mine_template(template)
    }

    /// Mines a block as the template says, on whatever block it says.
    pub fn mine_template(&mut self, template: Template) -> Result<Arc<Block>, ChainError> {
        self.change_chain(|chain| chain.mine_template(template))
    }

    /// Mines `length` blocks on the block `depth` blocks below the tip, the first of these transactions, the next of the
    /// next, and those for which none are given empty. The branch becomes the active chain as soon as it is longer,
    /// which it is at the end when `length` is above `depth`.
    ///
    /// After an error the blocks before the one that could not be made are there.
    pub fn reorg(
        &mut self,
        depth: u32,
        length: u32,
        transactions: Vec<Vec<Transaction>>,
        mining: &Mining,
    ) -> Result<Vec<Arc<Block>>, ChainError> {
        let tip = self.chain.tip();
        let mut parent = self.chain.ancestor(&tip, depth).ok_or(ChainError::UnknownBlock(tip))?;
        let mut transactions = transactions.into_iter();
        let mut blocks = Vec::new();
        for _ in 0..length {
            let template = self.template(parent, transactions.next().unwrap_or_default(), mining.clone());
            let block = self.mine_template(template)?;
            parent = block.block_hash();
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Takes a block and all that stands on it off the active chain, as Core's `invalidateblock`. Transactions of the
    /// highest ten of these blocks return to the mempool where they can.
    pub fn invalidate(&mut self, hash: &BlockHash) -> Result<TipChange, ChainError> {
        let change = self.chain.invalidate(hash)?;
        self.follow_chain(&change, Cause::Invalidation);
        Ok(change)
    }

    /// Lets an invalidated block onto the active chain again, as Core's `reconsiderblock`.
    pub fn reconsider(&mut self, hash: &BlockHash) -> Result<TipChange, ChainError> {
        let change = self.chain.reconsider(hash)?;
        self.follow_chain(&change, Cause::Growth);
        Ok(change)
    }

    /// Changes the chain by hand, after which the mempool follows from the tip before to the tip after at once.
    pub fn change_chain<T>(&mut self, change: impl FnOnce(&mut SimChain) -> T) -> T {
        let before = self.chain.tip();
        let changed = change(&mut self.chain);
        // Both are blocks of the tree: there is a way.
        if let Ok(path) = self.chain.path(&before, &self.chain.tip()) {
            self.follow_chain(&path, Cause::Growth);
        }
        changed
    }

    /// What to mine on a block, at a time that it allows.
    fn template(&self, parent: BlockHash, transactions: Vec<Transaction>, mining: Mining) -> Template {
        let earliest = self.chain.median_time_past(&parent).map_or(0, |median| median.saturating_add(1));
        let time = mining.time.or(self.now.map(|now| now.max(earliest)));
        Template { parent: Some(parent), transactions, reward: mining.reward, time, tag: mining.tag }
    }

    fn insert(&mut self, tx: Arc<Transaction>, assessed: Assessment, height: Height) {
        let time = self.time();
        self.mempool.insert(tx, assessed, time, height);
    }

    fn note_each(&mut self, entries: &[Entry], happening: impl Fn(Txid) -> Happening) -> Vec<Txid> {
        for entry in entries {
            self.log.note(happening(entry.txid));
        }
        entries.iter().map(|entry| entry.txid).collect()
    }
}

#[cfg(test)]
mod tests;
