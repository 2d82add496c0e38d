//! What a history does to the chain one block after the other: what is mined, and who pays whom.

use std::sync::Arc;

use bitcoin::{Amount, Block, BlockHash, OutPoint, Transaction};
use btcgraph::sim::{ChainError, Rng, SimChain};

use super::player::{Player, Way};
use super::purse::{Coins, coins_of};

impl<W: Way> Player<W> {
    pub(super) fn height(&self) -> u32 {
        self.chain.height().to_u32()
    }

    pub(super) fn coins_at(&mut self, hash: BlockHash) -> Coins {
        if hash == self.chain.tip() { coins_of(&self.chain) } else { self.chain.unspent_at(&hash).unwrap() }
    }

    pub(super) fn mine(&mut self, transactions: Vec<Transaction>) -> Arc<Block> {
        self.mine_on(self.chain.tip(), transactions)
    }

    pub(super) fn mine_on(&mut self, parent: BlockHash, transactions: Vec<Transaction>) -> Arc<Block> {
        let block = self.chain.mine_on(parent, transactions).unwrap();
        self.mined(&block);
        block
    }

    pub(super) fn mined(&mut self, block: &Block) {
        self.counts.add_block(block, &self.chain.spent_coins(&block.block_hash()).unwrap());
    }

    pub(super) fn hostile_on(&mut self, parent: BlockHash, seed: u64) -> Arc<Block> {
        self.hostile.reseed(seed);
        let block = self.hostile.mine_on(&mut self.chain, parent).unwrap();
        self.counts.add("block, hostile");
        self.mined(&block);
        block
    }

    /// Pays, and spends what was paid before.
    pub(super) fn pay(&mut self, seed: u64) {
        let (mut random, coins, height) = (Rng::new(seed), coins_of(&self.chain), self.chain.height().next());
        let mut transactions = Vec::new();
        let paid = self.payments.iter().position(|paid| coins.contains_key(paid));
        let paid = paid.map(|at| self.payments.remove(at));
        if let Some((paid, coin)) = paid.as_ref().and_then(|paid| coins.get_key_value(paid)) {
            transactions.push(self.purse.pay_on((paid, coin), &mut random));
            self.counts.add("payment spent in a later block");
        }
        let spendable = self.purse.spendable(&coins, height);
        let fresh: Vec<_> = spendable.into_iter().filter(|(outpoint, _)| Some(**outpoint) != paid).collect();
        if let Some(coin) = random.choose(&fresh) {
            let payment = self.purse.pay_on(*coin, &mut random);
            self.payments.push(OutPoint::new(payment.compute_txid(), 0));
            transactions.push(payment);
        }
        self.mine(transactions);
    }

    pub(super) fn spend_at_maturity(&mut self, seed: u64) {
        let (coins, height) = (coins_of(&self.chain), self.chain.height().next());
        let young = |coin: &btcgraph::sim::SimCoin| coin.coinbase && coin.height.to_u32() + 100 == height.to_u32();
        let just: Vec<_> = self.purse.spendable(&coins, height).into_iter().filter(|(_, coin)| young(coin)).collect();
        let mut random = Rng::new(seed);
        let Some(coin) = random.choose(&just) else { return };
        let spending = self.purse.pay_on(*coin, &mut random);
        self.mine(vec![spending]);
        self.counts.add("coinbase spent exactly at maturity");
    }

    /// Lets a planted coinbase come again when `spent` of its outputs, or more, are spent or can be.
    pub(super) fn repeat(&mut self, which: usize, spent: usize) {
        let (coins, height) = (coins_of(&self.chain), self.chain.height().next());
        for at in 0..self.planted.len() {
            let hash = self.planted[which.wrapping_add(at) % self.planted.len()];
            if !self.chain.is_active(&hash) {
                continue;
            }
            let txid = self.chain.block(&hash).unwrap().txdata[0].compute_txid();
            let left: Vec<_> = coins.range(OutPoint::new(txid, 0)..=OutPoint::new(txid, 2)).collect();
            let Some(more) = (left.len() + spent).checked_sub(3) else { continue };
            let to_spend = &left[..more];
            if !to_spend.iter().all(|(_, coin)| coin.is_mature_at(height)) {
                continue;
            }
            if !to_spend.is_empty() {
                let value: Amount = to_spend.iter().map(|(_, coin)| coin.output.value).sum();
                // with an amount of its own: after the next repetition an equal transaction would overwrite this one
                let to = SimChain::miner().output(value - Amount::from_sat(height.to_u32().into()));
                self.mine(vec![self.purse.spend(to_spend, vec![to])]);
            }
            let block = match self.chain.mine_duplicate_coinbase(&hash, Vec::new()) {
                // an abandoned branch already contains this very block
                Err(ChainError::SameBlock(_)) => return,
                made => made.unwrap(),
            };
            self.mined(&block);
            self.counts.add(match spent {
                0 => "coinbase repeated, earlier copy unspent",
                3 => "coinbase repeated, earlier copy spent",
                _ => "coinbase repeated, earlier copy partly spent",
            });
            return;
        }
    }

    /// A branch that becomes the chain, its first block hostile.
    pub(super) fn branch(&mut self, depth: u32, seed: u64) {
        let mut parent = self.chain.ancestor(&self.chain.tip(), depth).unwrap();
        let first = parent;
        while parent != self.chain.tip() {
            let block = if parent == first { self.hostile_on(parent, seed) } else { self.mine_on(parent, Vec::new()) };
            parent = block.block_hash();
        }
        self.reorganisations += 1;
    }
}
