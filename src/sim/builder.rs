//! The tree of blocks, the active chain in it, and the making of blocks.
//!
//! Blocks are valid by every rule that does not look into scripts: proof of work, median time, BIP34 height, merkle
//! root, witness commitment, unspent and mature inputs, values, reward, weight and signature operations. Scripts,
//! lock times and relative locks are up to whoever makes the transactions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bitcoin::block::{Header, Version};
use bitcoin::hashes::Hash;
use bitcoin::{
    Block, BlockHash, CompactTarget, Network, OutPoint, Transaction, TxMerkleNode, Txid, Weight, merkle_tree,
};

use super::coinbase::{self, Reward, has_witness};
use super::scripts::{Owner, ScriptKind};
use super::utxo::{Change, Coin, Coins, Duplicates, UtxoSet, total};
use super::{ChainError, Rng};
use crate::chain::subsidy::subsidy;
use crate::chain::{Height, median_time_past};

/// The highest cost of signature operations in a block (`MAX_BLOCK_SIGOPS_COST` of Core's `consensus/consensus.h`).
const MAX_BLOCK_SIGOPS_COST: usize = 80_000;
/// The target of every regtest block, as `bits` (Core's `kernel/chainparams.cpp`).
const REGTEST_BITS: u32 = 0x207f_ffff;
/// How many blocks the median time past looks back (`nMedianTimeSpan` of Core's `chain.h`).
const MEDIAN_TIME_SPAN: usize = 11;
/// Seconds from a block to the next, unless told otherwise.
const SPACING: u32 = 600;

/// What a block is to be made of. `Template::default()` is an empty block on the tip that pays the chain's own miner.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// The block to build on, the tip of the active chain if none.
    pub parent: Option<BlockHash>,
    /// All transactions but the coinbase, in an order in which each spends only what exists before it.
    pub transactions: Vec<Transaction>,
    /// What the coinbase pays; all to [`SimChain::miner`] if none.
    pub reward: Option<Reward>,
    /// Seconds since 1970; the chain's clock if none.
    pub time: Option<u32>,
    /// Up to 80 bytes of text that the coinbase script carries.
    pub tag: Vec<u8>,
}

/// A block of the tree. Body and changes are dropped once it is deeper than the chain is told to keep.
#[derive(Clone, Debug)]
struct Record {
    parent: BlockHash,
    height: Height,
    time: u32,
    kept: Option<Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    block: Arc<Block>,
    changes: Arc<[Change]>,
}

/// The active chain: the longest branch of a tree of regtest blocks, the first seen among equals (all regtest blocks
/// have the same work).
#[derive(Clone, Debug)]
pub struct SimChain {
    seed: u64,
    first_time: Option<u32>,
    spacing: u32,
    keep: Option<u32>,
    records: HashMap<BlockHash, Record>,
    active: BTreeMap<Height, BlockHash>,
    tip: BlockHash,
    /// The unspent outputs as seen from `view`, which is the tip between two calls.
    utxos: UtxoSet,
    view: BlockHash,
}

impl SimChain {
    /// A chain of the regtest genesis block alone. The seed goes into every coinbase, so that chains of different
    /// seeds share no other block.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let genesis = bitcoin::constants::genesis_block(Network::Regtest);
        let hash = genesis.block_hash();
        // The genesis coinbase is no unspent output: Core never adds it to its database.
        let record = Record {
            parent: genesis.header.prev_blockhash,
            height: Height::GENESIS,
            time: genesis.header.time,
            kept: Some(Kept { block: Arc::new(genesis), changes: Arc::from([]) }),
        };
        SimChain {
            seed,
            first_time: None,
            spacing: SPACING,
            keep: None,
            records: HashMap::from([(hash, record)]),
            active: BTreeMap::from([(Height::GENESIS, hash)]),
            tip: hash,
            utxos: UtxoSet::default(),
            view: hash,
        }
    }

    /// Sets the clock: block 1 at `first`, in seconds since 1970, and `spacing` seconds from each block to the next.
    #[must_use]
    pub fn with_clock(mut self, first: u32, spacing: u32) -> Self {
        (self.first_time, self.spacing) = (Some(first), spacing);
        self
    }

    /// Keeps bodies and changes of the last `blocks` blocks of the active chain only, for chains that would not fit
    /// into memory. Nothing can be built on a block below them.
    #[must_use]
    pub fn keeping(mut self, blocks: u32) -> Self {
        self.keep = Some(blocks);
        self
    }

    /// Who gets the reward of a block whose template does not say.
    #[must_use]
    pub fn miner() -> Owner {
        Owner::new(ScriptKind::P2wsh, 0)
    }

    /// The hash of the last block of the active chain.
    #[must_use]
    pub fn tip(&self) -> BlockHash {
        self.tip
    }

    /// The height of the last block of the active chain.
    #[must_use]
    pub fn height(&self) -> Height {
        self.active.last_key_value().map_or(Height::GENESIS, |(height, _)| *height)
    }

    /// A block of the tree, on the active chain or not. `None` when it is unknown or its body was dropped.
    #[must_use]
    pub fn block(&self, hash: &BlockHash) -> Option<&Arc<Block>> {
        Some(&self.records.get(hash)?.kept.as_ref()?.block)
    }

    /// The height of a block of the tree.
    #[must_use]
    pub fn height_of(&self, hash: &BlockHash) -> Option<Height> {
        self.records.get(hash).map(|record| record.height)
    }

    /// The hash of the active chain's block at this height.
    #[must_use]
    pub fn hash_at(&self, height: Height) -> Option<BlockHash> {
        self.active.get(&height).copied()
    }

    /// The block `depth` blocks before `hash`, or genesis if the chain is shorter.
    #[must_use]
    pub fn ancestor(&self, hash: &BlockHash, depth: u32) -> Option<BlockHash> {
        let mut found = *hash;
        for _ in 0..depth {
            let record = self.records.get(&found)?;
            if record.height > Height::GENESIS {
                found = record.parent;
            }
        }
        self.records.contains_key(&found).then_some(found)
    }

    /// The blocks of the active chain, genesis first, as far as their bodies are kept.
    pub fn active_blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.active.values().filter_map(|hash| self.block(hash))
    }

    /// The median time past of a block, its own time included: what its child's time must be above.
    #[must_use]
    pub fn median_time_past(&self, hash: &BlockHash) -> Option<u32> {
        let record = self.records.get(hash)?;
        let back = std::iter::successors(Some(record), |record| self.records.get(&record.parent));
        let mut times: Vec<u32> = back.take(MEDIAN_TIME_SPAN).map(|record| record.time).collect();
        times.reverse();
        median_time_past(&times)
    }

    /// The unspent outputs at the tip, in no order to rely on.
    #[must_use]
    pub fn unspent(&self) -> &Coins {
        self.utxos.coins()
    }

    /// An output that is unspent at the tip.
    #[must_use]
    pub fn coin(&self, outpoint: &OutPoint) -> Option<&Coin> {
        self.utxos.coins().get(outpoint)
    }

    /// The unspent outputs as seen from any block of the tree, in order.
    pub fn unspent_at(&mut self, hash: &BlockHash) -> Result<BTreeMap<OutPoint, Coin>, ChainError> {
        self.move_view(*hash)?;
        let coins = self.utxos.sorted();
        self.move_view(self.tip)?;
        Ok(coins)
    }

    /// Mines these transactions on the tip.
    pub fn mine(&mut self, transactions: Vec<Transaction>) -> Result<Arc<Block>, ChainError> {
        self.mine_template(Template { transactions, ..Template::default() })
    }

    /// Mines `count` blocks without transactions on the tip.
    pub fn mine_empty(&mut self, count: u32) -> Result<Vec<Arc<Block>>, ChainError> {
        (0..count).map(|_| self.mine(Vec::new())).collect()
    }

    /// Mines these transactions on any block of the tree. The new block becomes the tip when its branch is now the
    /// longest.
    pub fn mine_on(&mut self, parent: BlockHash, transactions: Vec<Transaction>) -> Result<Arc<Block>, ChainError> {
        self.mine_template(Template { parent: Some(parent), transactions, ..Template::default() })
    }

    /// Mines a block as the template says.
    pub fn mine_template(&mut self, template: Template) -> Result<Arc<Block>, ChainError> {
        self.mine_with(template, None)
    }

    /// Mines a block on the tip whose coinbase is the very coinbase of an earlier block of the active chain, as
    /// happened on mainnet before BIP30. **A node refuses such a block**: it is for feeding an index directly. What is
    /// unspent of the earlier copy is overwritten.
    ///
    /// The transactions must have no witnesses, and so must those of the earlier block, because a coinbase that
    /// commits to witnesses commits to one block only.
    pub fn mine_duplicate_coinbase(
        &mut self,
        earlier: &BlockHash,
        transactions: Vec<Transaction>,
    ) -> Result<Arc<Block>, ChainError> {
        let body = self.body(earlier)?;
        let coinbase = body.coinbase().cloned().ok_or(ChainError::UnknownBlock(*earlier))?;
        if has_witness(&coinbase) || transactions.iter().any(has_witness) {
            return Err(ChainError::CommittedCoinbase(*earlier));
        }
        self.mine_with(Template { transactions, ..Template::default() }, Some(coinbase))
    }

    fn mine_with(&mut self, template: Template, coinbase: Option<Transaction>) -> Result<Arc<Block>, ChainError> {
        let parent = template.parent.unwrap_or(self.tip);
        let height = self.height_of(&parent).ok_or(ChainError::UnknownBlock(parent))?.next();
        self.move_view(parent)?;
        let mut changes = Vec::new();
        let assembled = self.assemble(parent, height, template, coinbase, &mut changes);
        let block = match assembled {
            Ok(block) => Arc::new(block),
            Err(error) => {
                self.utxos.undo(&changes);
                self.move_view(self.tip)?;
                return Err(error);
            }
        };
        let hash = block.block_hash();
        self.view = hash;
        let kept = Some(Kept { block: Arc::clone(&block), changes: Arc::from(changes) });
        self.records.insert(hash, Record { parent, height, time: block.header.time, kept });
        if height > self.height() {
            self.activate(hash);
        }
        self.move_view(self.tip)?;
        Ok(block)
    }

    /// Makes a block on `parent`, from whose view the unspent outputs must be seen, and changes them to its own.
    fn assemble(
        &mut self,
        parent: BlockHash,
        height: Height,
        template: Template,
        coinbase: Option<Transaction>,
        changes: &mut Vec<Change>,
    ) -> Result<Block, ChainError> {
        let time = self.time_after(&parent, template.time)?;
        let mut earned = subsidy(height, Network::Regtest);
        let mut sigops = 0usize;
        let mut txids = vec![Txid::all_zeros()];
        for tx in &template.transactions {
            let txid = tx.compute_txid();
            let coins = self.utxos.coins();
            sigops += tx.total_sigop_cost(|outpoint| coins.get(outpoint).map(|coin| coin.output.clone()));
            // Fees are at most the value of all unspent outputs, far below what overflows.
            earned += self.utxos.apply(tx, txid, height, changes)?;
            txids.push(txid);
        }
        let duplicates = if coinbase.is_some() { Duplicates::Overwrite } else { Duplicates::Refuse };
        let coinbase = if let Some(coinbase) = coinbase {
            coinbase
        } else {
            let made = u64::try_from(self.records.len()).unwrap_or(u64::MAX);
            let extra_nonce = Rng::new(self.seed ^ made.rotate_left(32)).next_u64();
            let reward = template.reward.unwrap_or_else(|| Reward::to(SimChain::miner().script_pubkey()));
            let outputs = reward.into_outputs(earned)?;
            coinbase::build(height, extra_nonce, &template.tag, outputs, &template.transactions)?
        };
        let claimed = total(&coinbase.output);
        if claimed > earned {
            return Err(ChainError::RewardTooHigh { claimed, earned });
        }
        sigops += coinbase.total_sigop_cost(|_| None);
        if sigops > MAX_BLOCK_SIGOPS_COST {
            return Err(ChainError::TooManySigops(sigops));
        }
        txids[0] = coinbase.compute_txid();
        self.utxos.add_outputs(&coinbase, txids[0], height, duplicates, changes)?;

        let mut txdata = template.transactions;
        txdata.insert(0, coinbase);
        let merkle_root = merkle_tree::calculate_root(txids.iter().map(|txid| txid.to_raw_hash()))
            .map_or_else(TxMerkleNode::all_zeros, TxMerkleNode::from_raw_hash);
        let header = Header {
            version: Version::from_consensus(0x2000_0000),
            prev_blockhash: parent,
            merkle_root,
            time,
            bits: CompactTarget::from_consensus(REGTEST_BITS),
            nonce: 0,
        };
        let block = Block { header: with_proof_of_work(header)?, txdata };
        if block.weight() > Weight::MAX_BLOCK {
            return Err(ChainError::TooHeavy(block.weight().to_wu()));
        }
        Ok(block)
    }

    fn time_after(&self, parent: &BlockHash, asked: Option<u32>) -> Result<u32, ChainError> {
        let record = self.records.get(parent).ok_or(ChainError::UnknownBlock(*parent))?;
        let median_time_past = self.median_time_past(parent).unwrap_or(record.time);
        let on_schedule = match self.first_time {
            Some(first) if record.height == Height::GENESIS => first,
            _ => record.time.saturating_add(self.spacing),
        };
        let time = asked.unwrap_or_else(|| on_schedule.max(median_time_past.saturating_add(1)));
        if time > median_time_past { Ok(time) } else { Err(ChainError::TimeTooOld { time, median_time_past }) }
    }

    /// Makes `hash` the tip and drops what is now too deep.
    fn activate(&mut self, hash: BlockHash) {
        self.tip = hash;
        let mut next = hash;
        while let Some(record) = self.records.get(&next) {
            if self.active.insert(record.height, next) == Some(next) {
                break;
            }
            next = record.parent;
        }
        let deep = self.keep.and_then(|keep| self.height().to_u32().checked_sub(keep));
        let deep = deep.and_then(|height| self.active.get(&Height::from(height)));
        if let Some(record) = deep.and_then(|hash| self.records.get_mut(hash)) {
            record.kept = None;
        }
    }

    /// Shows the unspent outputs as seen from another block, through the last common block of both.
    fn move_view(&mut self, to: BlockHash) -> Result<(), ChainError> {
        let (mut left, mut right) = (self.view, to);
        let (mut back, mut forward) = (Vec::new(), Vec::new());
        while left != right {
            let height = |hash| self.height_of(&hash).ok_or(ChainError::UnknownBlock(hash));
            let (left_height, right_height) = (height(left)?, height(right)?);
            if left_height >= right_height {
                back.push(self.changes(&left)?);
                left = self.records[&left].parent;
            }
            if right_height >= left_height {
                forward.push(self.changes(&right)?);
                right = self.records[&right].parent;
            }
        }
        for changes in back {
            self.utxos.undo(&changes);
        }
        for changes in forward.iter().rev() {
            self.utxos.redo(changes);
        }
        self.view = to;
        Ok(())
    }

    fn changes(&self, hash: &BlockHash) -> Result<Arc<[Change]>, ChainError> {
        self.kept(hash).map(|kept| Arc::clone(&kept.changes))
    }

    fn body(&self, hash: &BlockHash) -> Result<&Arc<Block>, ChainError> {
        self.kept(hash).map(|kept| &kept.block)
    }

    fn kept(&self, hash: &BlockHash) -> Result<&Kept, ChainError> {
        let record = self.records.get(hash).ok_or(ChainError::UnknownBlock(*hash))?;
        record.kept.as_ref().ok_or(ChainError::Forgotten(*hash))
    }
}

/// Finds the nonce; every second one does, the regtest target being half of all hashes.
fn with_proof_of_work(mut header: Header) -> Result<Header, ChainError> {
    let target = header.target();
    (0..=u32::MAX)
        .find(|nonce| {
            header.nonce = *nonce;
            target.is_met_by(header.block_hash())
        })
        .ok_or(ChainError::NoNonce)?;
    Ok(header)
}

#[cfg(test)]
mod tests;
