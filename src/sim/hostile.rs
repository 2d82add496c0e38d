//! A random chain that covers the corner cases of an index: all script types paid and spent, chains of spends within a
//! block, payments to oneself, many inputs of one script, empty blocks, unclaimed rewards, odd values, branches, and
//! coinbases that repeat an earlier one. Small and slow: it serves to find errors, not to measure.

use std::collections::HashMap;
use std::sync::Arc;

use bitcoin::hashes::Hash;
use bitcoin::{Amount, Block, BlockHash, Network, OutPoint, ScriptBuf, Transaction, Txid};

use super::hostile_body::{HostileBody, SCRIPTS_OF_A_KIND, any_owner};
use super::utxo::COINBASE_MATURITY;
use super::{ChainError, Owner, Reward, Rng, ScriptKind, SimChain, Spendable, Template};
use crate::chain::Height;
use crate::chain::subsidy::subsidy;

/// The first number of the owners of coinbases that are repeated later, whom no other transaction pays.
const PLANTED: u32 = 1_000_000;
/// The value of each output of such a coinbase: three of them are within the subsidy of the first 1,000 blocks.
const PLANTED_VALUE: Amount = Amount::from_sat(10_000_001);

/// Makes hostile blocks on any block of a chain. The same seed and the same calls make the same blocks.
#[derive(Clone, Debug)]
pub struct Hostile {
    rng: Rng,
    owners: HashMap<ScriptBuf, Owner>,
    planted: u32,
}

impl Hostile {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let owners = ScriptKind::ALL
            .into_iter()
            .filter(|kind| kind.is_spendable())
            .flat_map(|kind| (0..SCRIPTS_OF_A_KIND).map(move |n| Owner::new(kind, n)))
            .map(|owner| (owner.script_pubkey(), owner))
            .collect();
        Hostile { rng: Rng::new(seed), owners, planted: 0 }
    }

    /// Makes all further choices as the generator of this seed.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    /// Mines a block on the tip. The first 100 blocks of a chain have no transactions: no coin is mature.
    pub fn mine(&mut self, chain: &mut SimChain) -> Result<Arc<Block>, ChainError> {
        self.mine_on(chain, chain.tip())
    }

    /// Mines a block on any block of the tree.
    pub fn mine_on(&mut self, chain: &mut SimChain, parent: BlockHash) -> Result<Arc<Block>, ChainError> {
        let height = chain.height_of(&parent).ok_or(ChainError::UnknownBlock(parent))?.next();
        let coins = chain.unspent_at(&parent)?;
        let mature = coins.into_iter().filter(|(_, coin)| coin.is_mature_at(height));
        let spendable = mature.filter_map(|(outpoint, coin)| {
            let owner = *self.owners.get(&coin.output.script_pubkey)?;
            Some(Spendable { outpoint, output: coin.output, owner })
        });
        let mut body = HostileBody::new(height, spendable.collect());
        if !self.rng.chance(20) {
            for _ in 0..self.rng.between(1, 9) {
                body.act(&mut self.rng)?;
            }
        }
        let reward = Some(self.reward(height));
        let tag = if self.rng.chance(50) { b"/hostile/".to_vec() } else { Vec::new() };
        let transactions = body.into_transactions();
        chain.mine_template(Template { parent: Some(parent), transactions, reward, time: None, tag })
    }

    /// Mines `length` blocks on the block `depth` blocks below the tip. The chain is reorganised when `length` is
    /// above `depth`.
    pub fn branch(&mut self, chain: &mut SimChain, depth: u32, length: u32) -> Result<Vec<Arc<Block>>, ChainError> {
        let tip = chain.tip();
        let mut parent = chain.ancestor(&tip, depth).ok_or(ChainError::UnknownBlock(tip))?;
        let mut blocks = Vec::new();
        for _ in 0..length {
            let block = self.mine_on(chain, parent)?;
            parent = block.block_hash();
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Mines on the tip a coinbase of three outputs, 99 blocks, a block that spends the first `spent` of these
    /// outputs, and a block that repeats the coinbase. Returns the hashes of the two blocks with that coinbase. **A
    /// node refuses the last block**: feed it to an index directly. With `spent` 0 the earlier copy is all unspent,
    /// with 3 it is fully spent.
    pub fn repeat_coinbase(
        &mut self,
        chain: &mut SimChain,
        spent: usize,
    ) -> Result<(BlockHash, BlockHash), ChainError> {
        self.planted += 1;
        let owners = [ScriptKind::P2pkh, ScriptKind::P2sh, ScriptKind::BareTrue]
            .map(|kind| Owner::new(kind, PLANTED + self.planted));
        let outputs = owners.map(|owner| owner.output(PLANTED_VALUE));
        let reward = Some(Reward::exactly(outputs.to_vec()));
        let earlier = chain.mine_template(Template { reward, ..Template::default() })?;
        let txid = earlier.coinbase().map_or_else(Txid::all_zeros, Transaction::compute_txid);
        for _ in 1..COINBASE_MATURITY {
            self.mine(chain)?;
        }
        let mut body = HostileBody::new(chain.height().next(), Vec::new());
        let coins = owners.into_iter().zip(outputs).zip(0..).map(|((owner, output), vout)| Spendable {
            outpoint: OutPoint { txid, vout },
            output,
            owner,
        });
        for coin in coins.take(spent) {
            body.pay(&mut self.rng, vec![coin], &[Owner::new(ScriptKind::P2wsh, 1)])?;
        }
        chain.mine(body.into_transactions())?;
        let later = chain.mine_duplicate_coinbase(&earlier.block_hash(), Vec::new())?;
        // From now on its remaining outputs are spent like all others.
        self.owners.extend(owners.map(|owner| (owner.script_pubkey(), owner)));
        Ok((earlier.block_hash(), later.block_hash()))
    }

    /// The owners whose outputs are spent.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.owners.values()
    }

    /// A reward of several outputs, some of them unspendable; mostly it claims all of subsidy and fees.
    pub(super) fn reward(&mut self, height: Height) -> Reward {
        let subsidy = subsidy(height, Network::Regtest).to_sat();
        if self.rng.chance(3) {
            return Reward::exactly(vec![any_owner(&mut self.rng).output(Amount::ZERO)]);
        }
        let rng = &mut self.rng;
        let mut reward = Reward::to(any_owner(rng).script_pubkey());
        for _ in 0..rng.below(if height.to_u32() <= COINBASE_MATURITY { 8 } else { 3 }) {
            let value = if rng.chance(10) { 0 } else { rng.below(subsidy / 10 + 1) };
            reward = reward.and(Amount::from_sat(value), any_owner(rng).script_pubkey());
        }
        let withheld = if rng.chance(15) { rng.below(subsidy / 10 + 1) } else { 0 };
        reward.withholding(Amount::from_sat(withheld))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_chain_branches_included() {
        let tip = |seed| {
            let mut chain = SimChain::new(1);
            let mut hostile = Hostile::new(seed);
            for _ in 0..120 {
                hostile.mine(&mut chain).unwrap();
            }
            hostile.branch(&mut chain, 5, 6).unwrap();
            chain.tip()
        };
        assert_eq!(tip(1), tip(1));
        assert_ne!(tip(1), tip(2));
    }

    #[test]
    fn a_chain_creates_every_kind_and_spends_every_spendable_kind() {
        let mut chain = SimChain::new(1);
        let mut hostile = Hostile::new(1);
        for _ in 0..200 {
            hostile.mine(&mut chain).unwrap();
        }
        let mut scripts: HashMap<OutPoint, ScriptBuf> = HashMap::new();
        let (mut created, mut spent) = (HashSet::new(), HashSet::new());
        let (mut empty_blocks, mut spends_in_block) = (0, 0);
        for block in chain.active_blocks() {
            empty_blocks += u32::from(block.txdata.len() == 1);
            let mut in_block = HashSet::new();
            for tx in &block.txdata {
                let txid = tx.compute_txid();
                for input in tx.input.iter().filter(|_| !tx.is_coinbase()) {
                    spent.insert(scripts[&input.previous_output].clone());
                    spends_in_block += u32::from(in_block.contains(&input.previous_output.txid));
                }
                in_block.insert(txid);
                for (vout, output) in (0..).zip(&tx.output) {
                    scripts.insert(OutPoint { txid, vout }, output.script_pubkey.clone());
                    created.insert(output.script_pubkey.clone());
                }
            }
        }
        for kind in ScriptKind::ALL {
            let any = |set: &HashSet<ScriptBuf>| {
                (0..SCRIPTS_OF_A_KIND).any(|n| set.contains(&Owner::new(kind, n).script_pubkey()))
            };
            assert!(any(&created), "{kind:?} is never created");
            assert_eq!(any(&spent), kind.is_spendable(), "{kind:?}");
        }
        assert!(empty_blocks > 110 && spends_in_block > 20, "{empty_blocks} {spends_in_block}");
    }

    #[test]
    fn a_coinbase_is_repeated_while_unspent_and_after_it_is_spent() {
        for spent in [0, 2, 3] {
            let mut chain = SimChain::new(1);
            let mut hostile = Hostile::new(1);
            let (earlier, later) = hostile.repeat_coinbase(&mut chain, spent).unwrap();
            let coinbase = |hash| chain.block(hash).unwrap().txdata[0].clone();
            assert_eq!(coinbase(&earlier), coinbase(&later));
            let txid = coinbase(&later).compute_txid();
            let parent = chain.ancestor(&later, 1).unwrap();
            let copies = |coins: &dyn Fn(&OutPoint) -> bool| (0..3).filter(|n| coins(&OutPoint::new(txid, *n))).count();
            let before = chain.clone().unspent_at(&parent).unwrap();
            assert_eq!(copies(&|outpoint| before.contains_key(outpoint)), 3 - spent);
            assert_eq!(copies(&|outpoint| chain.coin(outpoint).is_some()), 3);
        }
    }
}
