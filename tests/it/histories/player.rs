//! Plays a history: does to the simulated chain what its actions say, lets the index follow, and compares the index with
//! the model each time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::{Block, BlockHash, OutPoint, ScriptBuf, Transaction, Txid};
use btcgraph::chain::Height;
use btcgraph::index::{BlockRow, Index};
use btcgraph::sim::{ChainError, Hostile, Rng, SimChain};

use super::actions::{Action, Fate, Step};
use super::counts::Counts;
use super::prepared::Prepared;
use super::purse::{Coins, Purse, applicable, apply, coins_of};
use crate::support::agree::{assert_agrees, assert_agrees_from, assert_is_stale};
use crate::support::indexed::{Indexed, options};
use crate::support::model::Model;

/// How the index comes to follow the chain.
pub(crate) trait Way {
    /// Brings the index to the tip of the chain.
    fn follow(&mut self, index: &mut Index, chain: &SimChain);

    /// Refuses to follow a node that has only a small part of the chain.
    fn refuse(&mut self, index: &mut Index, beginning: &SimChain);

    /// Lets go of what it reads, so that the index can be closed.
    fn let_go(&mut self);

    /// Compares what it sees itself with the model. `touched` are the scripts whose rows may have changed.
    fn compare(&mut self, model: &Model, touched: &BTreeSet<ScriptBuf>);

    /// The same at the end of a history, of any scripts.
    fn finish(&mut self, model: &Model);
}

/// A history that is under way.
pub(crate) struct Player<W> {
    way: W,
    chain: SimChain,
    hostile: Hostile,
    purse: &'static Purse,
    planted: Vec<BlockHash>,
    /// Outputs that were paid to be spent later.
    payments: Vec<OutPoint>,
    /// The index; none only while it is being opened.
    indexed: Option<Indexed>,
    model: Model,
    /// Every block that left the chain and did not come back, with its height and the row it had.
    stale: BTreeMap<BlockHash, (Arc<Block>, u32, BlockRow)>,
    /// Branches taken since the index looked.
    reorganisations: u32,
    /// How often the index was compared with the model.
    compared: u32,
    counts: Counts,
}

/// Every so many comparisons all rows are compared, and not only those that the last blocks could touch.
const ALL_COMPARED: u32 = 15;

impl<W: Way> Player<W> {
    pub(crate) fn new(way: W) -> Self {
        let prepared = Prepared::get();
        let directory = prepared.index();
        let index = Index::open(&options(directory.path())).unwrap();
        Self {
            way,
            chain: prepared.chain.clone(),
            hostile: prepared.hostile.clone(),
            purse: &prepared.purse,
            planted: prepared.planted.clone(),
            payments: Vec::new(),
            indexed: Some(Indexed { index, directory }),
            model: prepared.model.clone(),
            stale: BTreeMap::new(),
            reorganisations: 0,
            compared: 0,
            counts: Counts::default(),
        }
    }

    /// Plays a whole history, and tells what it showed.
    pub(crate) fn play(mut self, history: &[Step]) -> Counts {
        for step in history {
            for action in step {
                self.act(action);
            }
            self.look();
        }
        self.finish();
        self.counts
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Hostile { seed } => {
                self.hostile_on(self.chain.tip(), seed);
            }
            Action::Empty { blocks } => {
                for _ in 0..blocks {
                    self.mine(Vec::new());
                    self.counts.add("block, empty");
                }
            }
            Action::Pay { seed } => self.pay(seed),
            Action::Mature { seed } => self.spend_at_maturity(seed),
            Action::Repeat { which, spent } => self.repeat(which, spent),
            Action::Reorganise { depth, fate, seed } => self.reorganise(depth, fate, seed),
            Action::Shorten { depth } => self.shorten(depth),
            Action::Genesis { rounds } => self.back_to_genesis(rounds),
            Action::ThereAndBack { depth, seed } => self.there_and_back(depth, seed),
            Action::Flicker { times, seed } => {
                for time in 0..times {
                    self.branch(1 + time % 2, seed.wrapping_add(time.into()));
                }
            }
            Action::Behind => self.fall_behind(),
            Action::Restart => self.reopen("index closed and opened", |_| ()),
            Action::Abandon { depth, blocks, killed } => self.abandon(depth, blocks, killed),
        }
    }

    // ---- what happens to the chain ----

    fn height(&self) -> u32 {
        self.chain.height().to_u32()
    }

    fn coins_at(&mut self, hash: BlockHash) -> Coins {
        if hash == self.chain.tip() { coins_of(&self.chain) } else { self.chain.unspent_at(&hash).unwrap() }
    }

    fn mine(&mut self, transactions: Vec<Transaction>) -> Arc<Block> {
        self.mine_on(self.chain.tip(), transactions)
    }

    fn mine_on(&mut self, parent: BlockHash, transactions: Vec<Transaction>) -> Arc<Block> {
        let block = self.chain.mine_on(parent, transactions).unwrap();
        self.mined(&block);
        block
    }

    fn mined(&mut self, block: &Block) {
        self.counts.add_block(block, &self.chain.spent_coins(&block.block_hash()).unwrap());
    }

    fn hostile_on(&mut self, parent: BlockHash, seed: u64) -> Arc<Block> {
        self.hostile.reseed(seed);
        let block = self.hostile.mine_on(&mut self.chain, parent).unwrap();
        self.counts.add("block, hostile");
        self.mined(&block);
        block
    }

    /// Pays, and spends what was paid before.
    fn pay(&mut self, seed: u64) {
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

    fn spend_at_maturity(&mut self, seed: u64) {
        let (coins, height) = (coins_of(&self.chain), self.chain.height().next());
        let young = |coin: &btcgraph::sim::Coin| coin.coinbase && coin.height.to_u32() + 100 == height.to_u32();
        let just: Vec<_> = self.purse.spendable(&coins, height).into_iter().filter(|(_, coin)| young(coin)).collect();
        let mut random = Rng::new(seed);
        let Some(coin) = random.choose(&just) else { return };
        let spending = self.purse.pay_on(*coin, &mut random);
        self.mine(vec![spending]);
        self.counts.add("coinbase spent exactly at maturity");
    }

    /// Lets a planted coinbase come again when `spent` of its outputs, or more, are spent or can be.
    fn repeat(&mut self, which: usize, spent: usize) {
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
                let value = to_spend.iter().map(|(_, coin)| coin.output.value).sum();
                let to = SimChain::miner().output(value);
                self.mine(vec![self.purse.spend(to_spend, vec![to])]);
            }
            let block = match self.chain.mine_duplicate_coinbase(&hash, Vec::new()) {
                // a branch that was left holds this very block already
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
    fn branch(&mut self, depth: u32, seed: u64) {
        let mut parent = self.chain.ancestor(&self.chain.tip(), depth).unwrap();
        let first = parent;
        while parent != self.chain.tip() {
            let block = if parent == first { self.hostile_on(parent, seed) } else { self.mine_on(parent, Vec::new()) };
            parent = block.block_hash();
        }
        self.reorganisations += 1;
    }

    /// Another branch takes the place of the last blocks, with their transactions as `fate` says.
    fn reorganise(&mut self, depth: u32, fate: Fate, seed: u64) {
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

    fn shorten(&mut self, depth: u32) {
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

    fn back_to_genesis(&mut self, rounds: u32) {
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

    fn there_and_back(&mut self, depth: u32, seed: u64) {
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
    fn fall_behind(&mut self) {
        self.catch_up();
        let beginning = &Prepared::get().beginning;
        let stands_on_it = self.chain.is_active(&beginning.tip());
        if stands_on_it && self.height() > beginning.height().to_u32() + 144 {
            self.way.refuse(&mut self.indexed.as_mut().unwrap().index, beginning);
            self.counts.add("node far behind, and not followed");
            self.compare(self.height() + 1, &BTreeSet::new());
        }
    }

    // ---- what happens to the index ----

    /// Closes the index, and opens it again after `meanwhile`.
    fn reopen(&mut self, event: &'static str, meanwhile: impl FnOnce(&std::path::Path)) {
        self.way.let_go();
        let Indexed { index, directory } = self.indexed.take().unwrap();
        drop(index);
        meanwhile(directory.path());
        let index = Index::open(&options(directory.path())).unwrap();
        self.indexed = Some(Indexed { index, directory });
        self.counts.add(event);
    }

    /// Goes a part of the way to the chain's tip, or down and up again, and drops it all.
    fn abandon(&mut self, depth: usize, blocks: usize, killed: bool) {
        let Some(tip) = self.model.blocks.last().map(|block| block.hash) else { return };
        let way = self.chain.path(&tip, &self.chain.tip()).unwrap();
        let down = way.disconnected.len().max(depth).min(self.model.blocks.len() - 1);
        // what joins stands on the blocks that are left
        let left: BTreeSet<_> =
            self.model.blocks.iter().take(self.model.blocks.len() - down).map(|block| block.hash).collect();
        let joining = self.chain.active_blocks().filter(|block| !left.contains(&block.block_hash()));
        let joining: Vec<_> = joining.take(blocks).cloned().collect();
        let indexed = self.indexed.as_mut().unwrap();
        let path = options(indexed.directory.path()).path;
        let copy = path.with_extension("crashed");
        {
            let mut update = indexed.index.update().unwrap();
            for _ in 0..down {
                update.disconnect().unwrap().unwrap();
            }
            let parser = update.parser();
            let parse = |block: &Arc<Block>| parser.parse(block.block_hash(), serialize(block.as_ref())).unwrap();
            update.connect(&joining.iter().map(parse).collect::<Vec<_>>()).unwrap();
            if killed {
                fs::copy(&path, &copy).unwrap();
            }
        }
        self.counts.add("update abandoned");
        if killed {
            self.reopen("index killed in the middle of an update", |_| fs::rename(&copy, &path).unwrap());
        }
        let height = u32::try_from(self.model.blocks.len()).unwrap();
        self.compare(height, &BTreeSet::new());
    }

    // ---- comparing ----

    /// Lets the index follow the chain if there is somewhere to follow it to.
    fn catch_up(&mut self) {
        if self.model.blocks.last().is_none_or(|block| block.hash != self.chain.tip()) {
            self.look();
        }
    }

    /// Lets the index follow the chain, and compares.
    fn look(&mut self) {
        let active: Vec<_> = self.chain.active_blocks().cloned().collect();
        let both = self.model.blocks.iter().zip(&active);
        let common = both.take_while(|(known, block)| known.hash == block.block_hash()).count();
        let left: Vec<_> = self.model.blocks[common..].iter().map(|block| block.hash).collect();
        let snapshot = self.indexed.as_ref().unwrap().index.snapshot().unwrap();
        for (hash, height) in left.iter().zip(u32::try_from(common).unwrap()..) {
            let row = snapshot.block(height.into()).unwrap().unwrap();
            let block = self.chain.block(hash).unwrap();
            self.stale.insert(*hash, (Arc::clone(block), height, row));
        }
        drop(snapshot);

        self.way.follow(&mut self.indexed.as_mut().unwrap().index, &self.chain);

        let mut touched = BTreeSet::new();
        while self.model.blocks.len() > common {
            let height = u32::try_from(self.model.blocks.len() - 1).unwrap();
            touched.extend(self.model.touched_by(height).cloned());
            self.model.disconnect();
        }
        for block in &active[common..] {
            self.stale.remove(&block.block_hash());
            let height = u32::try_from(self.model.blocks.len()).unwrap();
            self.model.connect(block);
            touched.extend(self.model.touched_by(height).cloned());
        }
        if active.len() - common > 1 {
            self.counts.add("blocks, several between two looks");
        }
        if std::mem::take(&mut self.reorganisations) > 1 {
            self.counts.add("reorganisations, several between two looks");
        }
        self.compare(u32::try_from(common).unwrap(), &touched);
        let snapshot = self.indexed.as_ref().unwrap().index.snapshot().unwrap();
        for hash in &left {
            let Some((block, height, row)) = self.stale.get(hash) else { continue };
            assert_is_stale(&snapshot, block, *height, row);
        }
    }

    /// Compares what changed: blocks from this height on and these scripts. From time to time all is compared, and once
    /// for all what did not change.
    fn compare(&mut self, height: u32, touched: &BTreeSet<ScriptBuf>) {
        let snapshot = self.indexed.as_ref().unwrap().index.snapshot().unwrap();
        self.compared += 1;
        if self.compared.is_multiple_of(ALL_COMPARED) {
            assert_agrees(&snapshot, &self.model);
        } else {
            assert_agrees_from(&snapshot, &self.model, height, touched);
        }
        self.way.compare(&self.model, touched);
    }

    /// Compares whole tables with those of indexes that came to this tip without a detour.
    fn finish(&mut self) {
        self.way.finish(&self.model);
        let indexed = self.indexed.as_ref().unwrap();
        let snapshot = indexed.index.snapshot().unwrap();
        assert_agrees(&snapshot, &self.model);
        for (block, height, row) in self.stale.values() {
            assert_is_stale(&snapshot, block, *height, row);
        }
        let mut stale: Vec<_> =
            self.stale.iter().map(|(hash, (_, height, _))| (Height::from(*height), *hash)).collect();
        stale.sort_by_key(|(height, hash)| (*height, bitcoin::hashes::Hash::to_byte_array(*hash)));
        assert_eq!(snapshot.stale_block_hashes().unwrap(), stale, "the stale blocks");
        let blocks: Vec<_> = self.chain.active_blocks().map(Arc::as_ref).collect();
        let rows = indexed.rows();
        let block_by_block = Prepared::get().block_by_block(&blocks);
        assert_eq!(rows, block_by_block.rows(), "rows after this history, and block by block");
        let mut at_once = Indexed::within(super::prepared::directory());
        at_once.connect_at_once(blocks.iter().copied(), blocks.len());
        assert_eq!(rows, at_once.rows(), "rows after this history, and in one batch");
    }
}
