//! Blocks of as many transactions as on mainnet, about every ten minutes, made of the transactions of a
//! [`LoadGenerator`](super::super::LoadGenerator).

use std::time::Duration;

use bitcoin::{Transaction, Txid, Weight};

use super::super::load::Traffic;
use super::super::utxo::COINBASE_MATURITY;
use super::super::{ChainError, Mining, SimChain, World};
use super::action::LifeAction;

/// Blocks before the life begins: those that pay coins to owners, and a few full ones.
const HISTORY: u32 = COINBASE_MATURITY + 3;
/// Transactions of a block.
const TRANSACTIONS: usize = 3_200;
/// Seconds between two blocks.
const SPACING: u32 = 600;

#[derive(Clone, Debug)]
pub(super) struct MainnetLike {
    traffic: Traffic,
    /// The transactions of the next block and their weight; all but those that policy refuses are in the mempool.
    waiting: Vec<Transaction>,
    weight: Weight,
    is_full: bool,
}

impl MainnetLike {
    pub(super) fn start(seed: u64, now: u32) -> Result<(Self, World), ChainError> {
        let mut world = World::new(SimChain::new(seed));
        let traffic = Traffic::new(seed);
        let mut life = MainnetLike { traffic, waiting: Vec::new(), weight: Weight::ZERO, is_full: false };
        for after in (0..HISTORY).rev() {
            world.set_time(now.saturating_sub(1 + after * SPACING));
            life.traffic.begin_block(world.chain().height().next());
            while after < HISTORY - COINBASE_MATURITY && !life.is_full {
                life.draw()?;
            }
            life.mine(&mut world)?;
        }
        world.set_time(now);
        life.traffic.begin_block(world.chain().height().next());
        Ok((life, world))
    }

    pub(super) fn next(&mut self, world: &mut World) -> Result<(LifeAction, Duration), ChainError> {
        let wait = Duration::from_secs(SPACING.into()) / u32::try_from(TRANSACTIONS).unwrap_or(u32::MAX);
        if let Some(tx) = self.draw()? {
            // A refused transaction is mined as well, as are transactions that only other nodes accept.
            let taken: Vec<Txid> = world.submit(tx).into_iter().map(|accepted| accepted.txid).collect();
            return Ok((LifeAction::Submitted { refused: 1 - taken.len(), taken }, wait));
        }
        let mined = self.mine(world)?;
        self.traffic.begin_block(world.chain().height().next());
        Ok((mined, wait))
    }

    /// The next transaction of the block, `None` if the block is full.
    fn draw(&mut self) -> Result<Option<Transaction>, ChainError> {
        if !self.is_full
            && let Some((tx, _)) = self.traffic.next_transaction(&mut self.weight)?
        {
            self.waiting.push(tx.clone());
            self.is_full = self.waiting.len() >= TRANSACTIONS;
            return Ok(Some(tx));
        }
        self.is_full = true;
        Ok(None)
    }

    fn mine(&mut self, world: &mut World) -> Result<LifeAction, ChainError> {
        let height = world.chain().height().next();
        let payout = self.traffic.payout(height);
        let mining = Mining { reward: Some(payout.reward.clone()), ..Mining::default() };
        (self.weight, self.is_full) = (Weight::ZERO, false);
        let block = world.mine_exactly(std::mem::take(&mut self.waiting), mining)?;
        if let Some(coinbase) = block.coinbase() {
            self.traffic.paid(height, coinbase.compute_txid(), &coinbase.output, &payout);
        }
        Ok(LifeAction::Mined(block.block_hash()))
    }
}
