//! The world, and the operations on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{Block, BlockHash, Transaction, Txid, Weight};

use super::event::{EventLog, NumberedEvent, WorldEvent};
use super::tip_change::TipChangeCause;
use crate::chain::Height;
use crate::sim::mempool::FeeRule;
use crate::sim::{
    Assessment, ChainError, ChainPath, Policy, Rejection, Reward, SimChain, SimMempool, SimMempoolEntry, Template,
};

/// The default number of events to keep: those of a deep reorganisation of full blocks.
const EVENTS_KEPT: usize = 65_536;
/// The most weight of a block without its coinbase (Core's default of `-blockmaxweight` without the weight that it
/// reserves).
const BLOCK_WEIGHT: Weight = Weight::from_wu(3_992_000);

/// The state of a simulated node.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) chain: SimChain,
    pub(super) mempool: SimMempool,
    pub(super) log: EventLog,
    now: Option<u32>,
}

/// A transaction that the mempool accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its txid.
    pub txid: Txid,
    /// The transactions that it replaced: its conflicts and their descendants, in order of txids.
    pub replaced: BTreeSet<Txid>,
}

/// The options of mining a block; by default it pays the chain's own miner, without a tag, with the default weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mining {
    /// The outputs of the coinbase; all to [`SimChain::miner`] if none.
    pub reward: Option<Reward>,
    /// Seconds since 1970. If none, the world's time, or the chain's clock for a world without one; never too early.
    pub time: Option<u32>,
    /// Up to 80 bytes of text in the coinbase script.
    pub tag: Vec<u8>,
    /// The most weight of all transactions from the mempool together; 3,992,000 if none.
    pub max_weight: Option<Weight>,
}

impl World {
    /// A world of this chain and an empty mempool with the default policy.
    #[must_use]
    pub fn new(chain: SimChain) -> Self {
        World { chain, mempool: SimMempool::new(Policy::default()), log: EventLog::new(EVENTS_KEPT), now: None }
    }

    /// Sets the policy and empties the mempool.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.mempool = SimMempool::new(policy);
        self
    }

    /// Keeps this many events instead of 65,536, and drops those so far.
    #[must_use]
    pub fn keeping_events(mut self, events: usize) -> Self {
        self.log = EventLog::new(events);
        self
    }

    /// The tree of blocks and the active chain in it.
    #[must_use]
    pub fn chain(&self) -> &SimChain {
        &self.chain
    }

    /// The unconfirmed transactions.
    #[must_use]
    pub fn mempool(&self) -> &SimMempool {
        &self.mempool
    }

    /// Sets the time of new transactions and new blocks, in seconds since 1970.
    pub fn set_time(&mut self, now: u32) {
        self.now = Some(now);
    }

    /// The time that was set last, or the tip's if none was.
    #[must_use]
    pub fn time(&self) -> u32 {
        let tip = || self.chain.block(&self.chain.tip()).map_or(0, |block| block.header.time);
        self.now.unwrap_or_else(tip)
    }

    /// The number of events so far, which is the number of the next one.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.log.next_number()
    }

    /// The events from this number on, in order. `None` if some of them are dropped, or if the number is in the future.
    #[must_use]
    pub fn events_since(&self, number: u64) -> Option<impl Iterator<Item = &NumberedEvent>> {
        self.log.since(number)
    }

    /// The number of the next transaction to enter or leave the mempool, as in Core's `getrawmempool false true`.
    #[must_use]
    pub fn mempool_sequence(&self) -> u64 {
        self.log.next_sequence()
    }

    /// Whether a transaction would be accepted, as Core's `testmempoolaccept`. Errors: the reason why not.
    pub fn check(&self, tx: &Transaction) -> Result<Assessment, Rejection> {
        self.mempool.assess(&self.chain, tx, FeeRule::Relay)
    }

    /// Submits a transaction to the mempool. It replaces its conflicts if it pays enough more. Errors: the reason why
    /// it is refused.
    pub fn submit(&mut self, tx: impl Into<Arc<Transaction>>) -> Result<Accepted, Rejection> {
        let tx = tx.into();
        let assessed = self.check(&tx)?;
        let (txid, replaced) = (assessed.txid, assessed.replaced.clone());
        for entry in self.mempool.remove_all(&replaced) {
            self.log.push(WorldEvent::Replaced { txid: entry.txid, by: txid });
        }
        self.insert(tx, assessed, self.chain.height());
        self.log.push(WorldEvent::Arrived { txid });
        Ok(Accepted { txid, replaced })
    }

    /// Evicts a transaction and its descendants, as a full mempool does, and returns their txids in the order of their
    /// arrival.
    pub fn evict(&mut self, txid: &Txid) -> Vec<Txid> {
        let removed = self.mempool.remove_with_descendants(txid);
        self.log_each(&removed, |txid| WorldEvent::Evicted { txid })
    }

    /// Removes the transactions that entered before this time, in seconds since 1970, and their descendants, and
    /// returns their txids.
    pub fn expire(&mut self, before: u32) -> Vec<Txid> {
        let old: Vec<Txid> =
            self.mempool.entries().filter(|entry| entry.time < before).map(|entry| entry.txid).collect();
        let mut expired = Vec::new();
        for txid in old {
            let removed = self.mempool.remove_with_descendants(&txid);
            expired.extend(self.log_each(&removed, |txid| WorldEvent::Expired { txid }));
        }
        expired
    }

    /// Empties the mempool and restarts the count of its changes, as a node that starts without its former mempool
    /// (`-persistmempool=0`). No event is logged: such a node publishes none.
    pub fn forget_mempool(&mut self) {
        self.mempool = SimMempool::new(*self.mempool.policy());
        self.log.restart_sequence();
    }

    /// Mines the best transactions of the mempool on the tip.
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

    /// Mines the block of a template.
    pub fn mine_template(&mut self, template: Template) -> Result<Arc<Block>, ChainError> {
        self.change_chain(|chain| chain.mine_template(template))
    }

    /// Mines `length` blocks on the block `depth` blocks below the tip, each of the next list of `transactions`, and
    /// empty ones after the last list. The branch becomes the active chain as soon as it is longer, which happens if
    /// `length` is above `depth`.
    ///
    /// After an error the blocks before the failed one remain in the tree.
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

    /// Invalidates a block and its descendants, as Core's `invalidateblock`. Transactions of the highest ten of these
    /// blocks return to the mempool where they can.
    pub fn invalidate(&mut self, hash: &BlockHash) -> Result<ChainPath, ChainError> {
        let change = self.chain.invalidate(hash)?;
        self.follow_chain(&change, TipChangeCause::Invalidation);
        Ok(change)
    }

    /// Marks an invalidated block as valid again, as Core's `reconsiderblock`.
    pub fn reconsider(&mut self, hash: &BlockHash) -> Result<ChainPath, ChainError> {
        let change = self.chain.reconsider(hash)?;
        self.follow_chain(&change, TipChangeCause::Growth);
        Ok(change)
    }

    /// Changes the chain directly. Then the mempool follows the path from the former tip to the new one.
    pub fn change_chain<T>(&mut self, change: impl FnOnce(&mut SimChain) -> T) -> T {
        let before = self.chain.tip();
        let changed = change(&mut self.chain);
        // Both are blocks of the tree, so there is a path.
        if let Ok(path) = self.chain.path(&before, &self.chain.tip()) {
            self.follow_chain(&path, TipChangeCause::Growth);
        }
        changed
    }

    /// The template of a block on `parent`, at a time that it allows.
    fn template(&self, parent: BlockHash, transactions: Vec<Transaction>, mining: Mining) -> Template {
        let earliest = self.chain.median_time_past(&parent).map_or(0, |median| median.saturating_add(1));
        let time = mining.time.or(self.now.map(|now| now.max(earliest)));
        Template { parent: Some(parent), transactions, reward: mining.reward, time, tag: mining.tag }
    }

    pub(super) fn insert(&mut self, tx: Arc<Transaction>, assessed: Assessment, height: Height) {
        let time = self.time();
        self.mempool.insert(tx, assessed, time, height);
    }

    pub(super) fn log_each(&mut self, entries: &[SimMempoolEntry], event: impl Fn(Txid) -> WorldEvent) -> Vec<Txid> {
        for entry in entries {
            self.log.push(event(entry.txid));
        }
        entries.iter().map(|entry| entry.txid).collect()
    }
}
