//! Assembly of blocks: a template becomes a block that consensus accepts, and a leaf of the tree.

use std::sync::Arc;

use bitcoin::block::{Header, Version};
use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash, CompactTarget, Network, Transaction, TxMerkleNode, Txid, Weight, merkle_tree};

use super::super::coinbase::{self, Reward, has_witness};
use super::super::utxo::{Duplicates, UtxoChange, total};
use super::super::{ChainError, Rng};
use super::sim_chain::SimChain;
use crate::chain::Height;
use crate::chain::subsidy::subsidy;

/// The highest cost of signature operations in a block (`MAX_BLOCK_SIGOPS_COST` of Core's `consensus/consensus.h`).
pub(crate) const MAX_BLOCK_SIGOPS_COST: usize = 80_000;
/// The target of every regtest block, as `bits` (Core's `kernel/chainparams.cpp`).
const REGTEST_BITS: u32 = 0x207f_ffff;

/// The contents of a block to mine. `Template::default()` is an empty block on the tip that pays the chain's own miner.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// The block to build on, the tip of the active chain if none.
    pub parent: Option<BlockHash>,
    /// All transactions but the coinbase, each after the transactions whose outputs it spends.
    pub transactions: Vec<Transaction>,
    /// The outputs of the coinbase; all to [`SimChain::miner`] if none.
    pub reward: Option<Reward>,
    /// Seconds since 1970; the chain's clock if none.
    pub time: Option<u32>,
    /// Up to 80 bytes of text in the coinbase script.
    pub tag: Vec<u8>,
}

/// Parts of a block that the caller has already computed.
#[derive(Default)]
struct Precomputed {
    txids: Option<Vec<Txid>>,
    coinbase: Option<Transaction>,
}

impl SimChain {
    /// Mines these transactions on the tip.
    pub fn mine(&mut self, transactions: Vec<Transaction>) -> Result<Arc<Block>, ChainError> {
        self.mine_template(Template { transactions, ..Template::default() })
    }

    /// Mines `count` blocks without transactions on the tip.
    pub fn mine_empty(&mut self, count: u32) -> Result<Vec<Arc<Block>>, ChainError> {
        (0..count).map(|_| self.mine(Vec::new())).collect()
    }

    /// Mines these transactions on any block of the tree. The new block becomes the tip if its branch is now the
    /// longest.
    pub fn mine_on(&mut self, parent: BlockHash, transactions: Vec<Transaction>) -> Result<Arc<Block>, ChainError> {
        self.mine_template(Template { parent: Some(parent), transactions, ..Template::default() })
    }

    /// Mines the block of a template.
    pub fn mine_template(&mut self, template: Template) -> Result<Arc<Block>, ChainError> {
        self.mine_with(template, Precomputed::default())
    }

    /// Mines the block of a template whose transactions have these ids.
    pub(crate) fn mine_known(&mut self, template: Template, txids: Vec<Txid>) -> Result<Arc<Block>, ChainError> {
        self.mine_with(template, Precomputed { txids: Some(txids), coinbase: None })
    }

    /// Mines a block on the tip that repeats the coinbase of an earlier block of the active chain, as happened on
    /// mainnet before BIP30. **A node refuses such a block**: feed it to an index directly. The unspent outputs of the
    /// earlier copy are overwritten.
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
        self.mine_with(
            Template { transactions, ..Template::default() },
            Precomputed { coinbase: Some(coinbase), ..Precomputed::default() },
        )
    }

    fn mine_with(&mut self, template: Template, known: Precomputed) -> Result<Arc<Block>, ChainError> {
        let parent = template.parent.unwrap_or(self.tip);
        let height = self.height_of(&parent).ok_or(ChainError::UnknownBlock(parent))?.next();
        if self.is_invalid(&parent) {
            return Err(ChainError::InvalidParent(parent));
        }
        self.move_view(parent)?;
        let mut changes = Vec::new();
        let assembled = self.assemble(parent, height, template, known, &mut changes);
        let block = match assembled {
            Ok(block) => Arc::new(block),
            Err(error) => {
                self.utxos.undo(&changes);
                self.move_view(self.tip)?;
                return Err(error);
            }
        };
        self.grow(parent, height, &block, changes);
        self.move_view(self.tip)?;
        Ok(block)
    }

    /// Assembles a block on `parent` and moves the UTXO set, which must be that of `parent`, to the new block.
    fn assemble(
        &mut self,
        parent: BlockHash,
        height: Height,
        template: Template,
        known: Precomputed,
        changes: &mut Vec<UtxoChange>,
    ) -> Result<Block, ChainError> {
        let time = self.time_after(&parent, template.time)?;
        let mut earned = subsidy(height, Network::Regtest);
        let mut sigops = 0usize;
        let mut txids = vec![Txid::all_zeros()];
        let known_txids = known.txids.unwrap_or_default();
        for (index, tx) in template.transactions.iter().enumerate() {
            let txid = known_txids.get(index).copied().unwrap_or_else(|| tx.compute_txid());
            let coins = self.utxos.coins();
            sigops += tx.total_sigop_cost(|outpoint| coins.get(outpoint).map(|coin| coin.output.clone()));
            // Fees are at most the value of all unspent outputs, so the sum does not overflow.
            earned += self.utxos.apply(tx, txid, height, changes)?;
            txids.push(txid);
        }
        let duplicates = if known.coinbase.is_some() { Duplicates::Overwrite } else { Duplicates::Refuse };
        let coinbase = if let Some(coinbase) = known.coinbase {
            coinbase
        } else {
            let made = u64::try_from(self.records.len()).unwrap_or(u64::MAX);
            let extra_nonce = (!self.core_coinbases).then(|| Rng::new(self.seed ^ made.rotate_left(32)).next_u64());
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
        let hash = block.block_hash();
        if self.records.contains_key(&hash) {
            return Err(ChainError::SameBlock(hash));
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
}

/// Finds a nonce; every second one meets the regtest target, which is half of all hashes.
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
