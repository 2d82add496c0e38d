//! What a history does to the chain when the node changes its mind: other branches, shorter chains, and what becomes of the
//! transactions of blocks that leave.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::{Transaction, Txid};
use btcgraph::chain::Height;
use btcgraph::sim::Rng;

use super::actions::Fate;
use super::player::{Player, Way};
use super::prepared::Prepared;
use super::purse::{Coins, applicable, apply};

impl<W: Way> Player<W> {
    /// Another branch takes the place of the last blocks, with their transactions as `fate` says.
    pub(super) fn reorganise(&mut self, depth: u32, fate: Fate, seed: u64) {
        let (mut random, tip, before) = (Rng::new(seed), self.chain.tip(), self.height());
        let mut parent = self.chain.ancestor(&tip, depth).unwrap();
        let old: Vec<_> = self.chain.path(&parent, &tip).unwrap().connected;
        let old: Vec<_> = old.iter().map(|hash| self.chain.block(hash).unwrap().txdata[1..].to_vec()).collect();
        let mut coins = self.coins_at(parent);
        let first = self.chain.height_of(&parent).unwrap().next();

        let mut bodies = old.clone();
        match fate {
            Fate::Return => bodies.push(Vec::new()),
            Fate::Die => {
                bodies.push(Vec::new());
                if let Some(other) = self.double_spend(&old, &coins, first, &mut random) {
                    bodies[0].insert(0, other);
                }
            }
            Fate::Elsewhere => {
                for body in &mut bodies {
                    body.reverse();
                }
                bodies.insert(0, Vec::new());
            }
        }
        let mut left_over = Vec::new();
        let mut places = BTreeMap::new();
        let mut height = first;
        for body in bodies {
            let candidates = left_over.into_iter().chain(body).collect();
            let (mut taken, rest) = applicable(&mut coins, height, candidates);
            // what stands on a transaction of the same body may come behind it
            let (more, rest) = applicable(&mut coins, height, rest);
            taken.extend(more);
            left_over = rest;
            let block = self.mine_on(parent, taken);
            apply(&mut coins, height, &block.txdata[0]);
            let of_block = (0..).zip(&block.txdata).map(|(index, tx)| (tx.compute_txid(), (height, index)));
            places.extend(of_block.collect::<Vec<(Txid, (Height, u32))>>());
            parent = block.block_hash();
            height = height.next();
        }
        self.reorganisations += 1;
        assert_eq!((self.chain.tip(), self.height()), (parent, before + 1));
        self.counts.add("reorganisation, one block higher");
        self.count_fates(&old, first, &places);
    }

    /// A transaction that spends a coin which one of these spends as well, from among the coins that there were before.
    fn double_spend(
        &self,
        old: &[Vec<Transaction>],
        coins: &Coins,
        height: Height,
        random: &mut Rng,
    ) -> Option<Transaction> {
        let spendable: BTreeMap<_, _> = self.purse.spendable(coins, height).into_iter().collect();
        let inputs = old.iter().flatten().flat_map(|transaction| &transaction.input);
        let coins: Vec<_> = inputs.filter_map(|input| spendable.get_key_value(&input.previous_output)).collect();
        random.choose(&coins).map(|(outpoint, coin)| self.purse.pay_on((outpoint, coin), random))
    }

    fn count_fates(&mut self, old: &[Vec<Transaction>], first: Height, places: &BTreeMap<Txid, (Height, u32)>) {
        let (mut returned, mut elsewhere, mut dead) = (false, false, false);
        for (body, height) in old.iter().zip(first.to_u32()..) {
            for (transaction, index) in body.iter().zip(1_u32..) {
                match places.get(&transaction.compute_txid()) {
                    Some((found, at)) if (found.to_u32(), *at) == (height, index) => returned = true,
                    Some(_) => elsewhere = true,
                    None => {
                        dead |= transaction.input.iter().any(|input| self.chain.coin(&input.previous_output).is_none());
                    }
                }
            }
        }
        for (seen, event) in [
            (returned, "transaction returned by a reorganisation"),
            (elsewhere, "transaction confirmed elsewhere after a reorganisation"),
            (dead, "transaction double spent by a reorganisation"),
        ] {
            if seen {
                self.counts.add(event);
            }
        }
    }

    pub(super) fn shorten(&mut self, depth: u32) {
        let depth = depth.min(self.height());
        let Some(first) = depth.checked_sub(1) else { return };
        self.catch_up();
        let before = self.height();
        let hash = self.chain.ancestor(&self.chain.tip(), first).unwrap();
        self.chain.invalidate(&hash).unwrap();
        self.look();
        if self.height() < before {
            self.counts.add("tip of the node lower than the index's");
        }
    }

    pub(super) fn back_to_genesis(&mut self, rounds: u32) {
        let Some(first) = self.chain.hash_at(1.into()) else { return };
        for round in 0..rounds {
            // of several branches from genesis the longest comes first
            while let Some(hash) = self.chain.hash_at(1.into()) {
                self.chain.invalidate(&hash).unwrap();
            }
            self.look();
            self.counts.add("node back at genesis");
            for _ in 0..=round % 3 {
                self.mine(Vec::new());
            }
            self.look();
        }
        self.chain.reconsider(&first).unwrap();
        self.reorganisations += 1;
    }

    pub(super) fn there_and_back(&mut self, depth: u32, seed: u64) {
        self.catch_up();
        let first = self.chain.tip();
        self.branch(depth.min(self.height()), seed);
        self.look();
        let mut parent = first;
        while self.chain.tip() != parent {
            parent = self.mine_on(parent, Vec::new()).block_hash();
        }
        self.reorganisations += 1;
        self.look();
        self.counts.add("reorganisation, and back to the first branch");
    }

    /// The node has lost all but the first blocks for a while: it is not followed there.
    pub(super) fn fall_behind(&mut self) {
        self.catch_up();
        let beginning = &Prepared::get().beginning;
        let stands_on_it = self.chain.is_active(&beginning.tip());
        if stands_on_it && self.height() > beginning.height().to_u32() + 144 {
            self.way.refuse(&mut self.indexed.as_mut().unwrap().index, beginning);
            self.counts.add("node far behind, and not followed");
            self.compare(self.height() + 1, &BTreeSet::new());
        }
    }
}
