//! Corner cases of mempool and chain at random, to find errors.

use std::sync::Arc;
use std::time::Duration;

use bitcoin::{Block, BlockHash, Transaction, Txid, Weight};

use super::super::hostile_body::HostileBody;
use super::super::utxo::COINBASE_MATURITY;
use super::super::{
    ChainError, Hostile, Mining, Owner, Payment, Rejection, Rng, ScriptKind, SimChain, Spendable, Template, World,
};
use super::action::LifeAction;
use super::wallet::{Wallet, any_entry};
use crate::chain::Height;

/// Blocks before the life begins.
const HISTORY: u32 = COINBASE_MATURITY + 20;
/// Seconds from the first of these blocks to the beginning of the life. Their times increase as slowly as the median
/// allows, and so do those of all later blocks that are not mined from the mempool: otherwise they would be too far in
/// the future for a node.
const HISTORY_BEGINS: u32 = 7_200;
/// The number of coins that the transactions of one body can spend.
const COINS_OF_A_BODY: u64 = 30;
/// Milliseconds to the next step.
const WAIT: (u64, u64) = (0, 120);
/// The height that no reorganisation reaches.
const DEEPEST: u32 = COINBASE_MATURITY;
/// The owner of the coins of chains and packages.
const PLAIN: Owner = Owner::new(ScriptKind::P2wsh, 1);

#[derive(Clone, Debug)]
pub(super) struct HostileLife {
    rng: Rng,
    hostile: Hostile,
    wallet: Wallet,
    invalidated: Vec<BlockHash>,
    /// Whether coinbases may be repeated.
    repeats: bool,
}

impl HostileLife {
    pub(super) fn start(seed: u64, now: u32) -> Result<(Self, World), ChainError> {
        let first = now.saturating_sub(HISTORY_BEGINS);
        let mut world = World::new(SimChain::new(seed).with_clock(first, 0));
        let mut hostile = Hostile::new(seed);
        for _ in 0..HISTORY {
            world.change_chain(|chain| hostile.mine(chain))?;
        }
        world.set_time(now);
        let mut wallet = Wallet::default();
        for owner in hostile.owners() {
            wallet.learn(*owner);
        }
        wallet.recount(&world);
        let life = HostileLife { rng: Rng::new(!seed), hostile, wallet, invalidated: Vec::new(), repeats: false };
        Ok((life, world))
    }

    pub(super) fn repeat_coinbases(&mut self) {
        self.repeats = true;
    }

    pub(super) fn next(&mut self, world: &mut World) -> Result<(LifeAction, Duration), ChainError> {
        let action = match self.rng.below(100) {
            0..34 => self.submit_body(world)?,
            34..42 => self.replace(world)?,
            42..47 => self.bump(world)?,
            47..51 => self.package(world)?,
            51..55 => self.long_chain(world)?,
            55..60 => self.locks(world)?,
            60..64 => self.at_maturity(world)?,
            64..67 => self.remove(world),
            67..80 => self.mine(world)?,
            80..85 => self.mine_unseen(world)?,
            85..93 => self.branch(world)?,
            93..96 => self.invalidate(world)?,
            96..98 => self.reconsider(world)?,
            98 if self.repeats => self.repeat_coinbase(world)?,
            _ => LifeAction::Removed(world.expire(world.time())),
        };
        let is_payment =
            matches!(action, LifeAction::Submitted { .. } | LifeAction::Bumped { .. } | LifeAction::Nothing);
        if !is_payment {
            self.wallet.recount(world);
        }
        Ok((action, Duration::from_millis(self.rng.between(WAIT.0, WAIT.1))))
    }

    /// Submits the transactions of a hostile block.
    fn submit_body(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let mut coins = Vec::new();
        for _ in 0..COINS_OF_A_BODY {
            coins.extend(self.wallet.take(world, &mut self.rng, usize::MAX));
        }
        let mut body = HostileBody::new(world.chain().height().next(), coins.clone());
        for _ in 0..self.rng.between(1, 4) {
            body.act(&mut self.rng)?;
        }
        let submitted = self.submit_all(world, body.into_transactions());
        // Unspent coins are available to the next body.
        self.wallet.put_back(world, &coins);
        Ok(submitted)
    }

    fn submit_all(&mut self, world: &mut World, transactions: Vec<Transaction>) -> LifeAction {
        let (mut taken, mut refused) = (Vec::new(), 0);
        for tx in transactions {
            match self.submit(world, tx) {
                Ok(txid) => taken.push(txid),
                Err(_) => refused += 1,
            }
        }
        LifeAction::Submitted { taken, refused }
    }

    fn submit(&mut self, world: &mut World, tx: Transaction) -> Result<Txid, Rejection> {
        let tx = Arc::new(tx);
        let accepted = world.submit(Arc::clone(&tx))?;
        self.wallet.add(&tx);
        Ok(accepted.txid)
    }

    fn replace(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let Some(entry) = any_entry(world, &mut self.rng).cloned() else { return Ok(LifeAction::Nothing) };
        let replacement = self.wallet.replacement(world, &entry, &mut self.rng)?;
        let by = replacement.and_then(|tx| self.submit(world, tx).ok());
        Ok(by.map_or(LifeAction::Nothing, |by| LifeAction::Replaced { by }))
    }

    fn bump(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let Some(entry) = any_entry(world, &mut self.rng).cloned() else { return Ok(LifeAction::Nothing) };
        let rate = self.rng.between(1, 80);
        let child = self.wallet.child(world, &entry, PLAIN, rate)?;
        let child = child.and_then(|tx| self.submit(world, tx).ok());
        Ok(child.map_or(LifeAction::Nothing, |child| LifeAction::Bumped { child }))
    }

    /// Submits a parent that pays nothing with a child that pays for both, or too little.
    fn package(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let Some(coin) = self.wallet.take(world, &mut self.rng, usize::MAX) else { return Ok(LifeAction::Nothing) };
        let parent = Payment::of([coin]).change(PLAIN, 0).version(3).sign()?;
        let Some(paid) = Spendable::of(&parent, 0, PLAIN) else { return Ok(LifeAction::Nothing) };
        let child = Payment::of([paid]).change(PLAIN, self.rng.between(1, 30)).version(3).sign()?;
        let verdicts = world.submit_package(vec![parent.clone(), child.clone()]).unwrap_or_default();
        let taken: Vec<Txid> = verdicts.iter().flatten().map(|accepted| accepted.txid).collect();
        if taken.len() == 2 {
            self.wallet.add(&parent);
            self.wallet.add(&child);
        }
        Ok(LifeAction::Submitted { refused: 2 - taken.len(), taken })
    }

    /// Submits a chain of transactions up to the limit, and sometimes beyond.
    fn long_chain(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let mut spent = self.wallet.take(world, &mut self.rng, usize::MAX);
        let mut chain = Vec::new();
        for _ in 0..self.rng.between(5, 27) {
            let Some(coin) = spent.take() else { break };
            let tx = Payment::of([coin]).change(PLAIN, self.rng.between(1, 5)).sign()?;
            spent = Spendable::of(&tx, 0, PLAIN);
            chain.push(tx);
        }
        Ok(self.submit_all(world, chain))
    }

    /// Submits lock times and relative locks that end at the next block, or one later.
    fn locks(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let tip = world.chain().tip();
        let height = world.chain().height().to_u32();
        let median = world.chain().median_time_past(&tip).unwrap_or_default();
        let mut transactions = Vec::new();
        for lock_time in [height, height + 1, median.saturating_sub(1), median] {
            let coin = self.wallet.take(world, &mut self.rng, usize::MAX);
            let payment = coin.map(|coin| Payment::of([coin]).change(PLAIN, 2).lock_time(lock_time));
            transactions.extend(payment.map(Payment::sign).transpose()?);
        }
        for later in [1, 2] {
            let Some(coin) = self.wallet.take(world, &mut self.rng, usize::MAX) else { continue };
            let Some(created) = world.chain().coin(&coin.outpoint).map(|coin| coin.height.to_u32()) else { continue };
            let sequence = (height + later - created).min(0xffff);
            transactions.push(Payment::of([coin]).change(PLAIN, 2).sequence(sequence).sign()?);
        }
        Ok(self.submit_all(world, transactions))
    }

    /// Spends coinbases that become mature in the next block, and those that do not yet.
    fn at_maturity(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let mut transactions = Vec::new();
        for depth in [COINBASE_MATURITY - 1, COINBASE_MATURITY - 2] {
            let hash = world.chain().ancestor(&world.chain().tip(), depth);
            let block: Option<Arc<Block>> = hash.and_then(|hash| world.chain().block(&hash).cloned());
            let Some(coinbase) = block.as_ref().and_then(|block| block.coinbase()) else { continue };
            let txid = coinbase.compute_txid();
            let outpoints = (0..).zip(&coinbase.output).map(|(vout, _)| bitcoin::OutPoint { txid, vout });
            for coin in outpoints.filter_map(|outpoint| self.wallet.spendable(world, outpoint)) {
                transactions.push(Payment::of([coin]).change(PLAIN, 3).sign()?);
            }
        }
        Ok(self.submit_all(world, transactions))
    }

    fn remove(&mut self, world: &mut World) -> LifeAction {
        let entry = any_entry(world, &mut self.rng).map(|entry| entry.txid);
        LifeAction::Removed(entry.map(|txid| world.evict(&txid)).unwrap_or_default())
    }

    /// Mines a block from the mempool, sometimes with a low maximum weight.
    fn mine(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let max_weight = self.rng.chance(50).then(|| Weight::from_wu(self.rng.below(60_000)));
        let mining = Mining { max_weight, ..self.mining(world.chain().height().next()) };
        Ok(LifeAction::Mined(world.mine(mining)?.block_hash()))
    }

    /// Mines a block of transactions that were never in the mempool, many of which conflict with transactions there.
    fn mine_unseen(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let block = world.change_chain(|chain| self.hostile.mine(chain))?;
        Ok(LifeAction::Mined(block.block_hash()))
    }

    fn mining(&mut self, height: Height) -> Mining {
        let tag = if self.rng.chance(50) { b"/hostile/".to_vec() } else { Vec::new() };
        Mining { reward: Some(self.hostile.reward(height)), tag, ..Mining::default() }
    }

    /// Mines a branch, which is mostly longer than the active chain. Its blocks contain transactions of the block at
    /// the same height of the active chain, or others, or none.
    fn branch(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let height = world.chain().height().to_u32();
        let most = if self.rng.chance(5) { 40 } else { 8 };
        let depth = u32::try_from(self.rng.between(1, most)).unwrap_or(1).min(height.saturating_sub(DEEPEST));
        let length = if self.rng.chance(20) { depth } else { depth + 1 + u32::from(self.rng.chance(30)) };
        let tip = world.chain().tip();
        let Some(mut parent) = world.chain().ancestor(&tip, depth) else { return Ok(LifeAction::Nothing) };
        let beside = world.chain().path(&parent, &tip)?.connected;
        for n in 0..length {
            let old = usize::try_from(n).ok().and_then(|n| world.chain().block(beside.get(n)?).cloned());
            parent = self.mine_beside(world, parent, old.as_deref())?.block_hash();
        }
        Ok(LifeAction::Branched { depth, length })
    }

    fn mine_beside(
        &mut self,
        world: &mut World,
        parent: BlockHash,
        old: Option<&Block>,
    ) -> Result<Arc<Block>, ChainError> {
        if self.rng.chance(40) {
            return world.change_chain(|chain| self.hostile.mine_on(chain, parent));
        }
        let mut transactions =
            old.filter(|_| self.rng.chance(70)).map_or_else(Vec::new, |old| old.txdata[1..].to_vec());
        transactions.truncate(transactions.len() - self.rng.index(transactions.len() / 2 + 1));
        // Transactions whose inputs do not exist on this branch are left out.
        let height = world.chain().height_of(&parent).ok_or(ChainError::UnknownBlock(parent))?.next();
        let tag = b"/beside/".to_vec();
        loop {
            let reward = Some(self.hostile.reward(height));
            let template = Template {
                parent: Some(parent),
                transactions: transactions.clone(),
                reward,
                time: None,
                tag: tag.clone(),
            };
            match world.mine_template(template) {
                Err(ChainError::MissingCoin { txid, .. } | ChainError::Duplicate(txid)) => {
                    transactions.retain(|tx| tx.compute_txid() != txid);
                }
                Err(ChainError::Immature { txid, .. }) => transactions.retain(|tx| tx.compute_txid() != txid),
                mined => return mined,
            }
        }
    }

    fn invalidate(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let height = world.chain().height().to_u32();
        let depth = u32::try_from(self.rng.below(14)).unwrap_or(0);
        if height.saturating_sub(depth) <= DEEPEST {
            return Ok(LifeAction::Nothing);
        }
        let tip = world.chain().tip();
        let hash = world.chain().ancestor(&tip, depth).unwrap_or(tip);
        world.invalidate(&hash)?;
        self.invalidated.push(hash);
        Ok(LifeAction::Invalidated(hash))
    }

    fn reconsider(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let index = self.rng.index(self.invalidated.len());
        if index >= self.invalidated.len() {
            return Ok(LifeAction::Nothing);
        }
        let hash = self.invalidated.swap_remove(index);
        world.reconsider(&hash)?;
        Ok(LifeAction::Reconsidered(hash))
    }

    fn repeat_coinbase(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let spent = self.rng.index(4);
        let (_, later) = world.change_chain(|chain| self.hostile.repeat_coinbase(chain, spent))?;
        for owner in self.hostile.owners() {
            self.wallet.learn(*owner);
        }
        Ok(LifeAction::RepeatedCoinbase(later))
    }
}
