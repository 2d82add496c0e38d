//! Makes the bodies of blocks on a thread of its own, while the blocks before them are assembled.
//!
//! A body needs no assembled block, but for the coinbases that it spends, whose values include fees: the generator
//! sends each coinbase back, and it is needed only a hundred blocks later. So the result does not depend on the speed
//! of either side.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use bitcoin::{Block, Transaction, TxOut, Txid, Weight};

use super::super::utxo::COINBASE_MATURITY;
use super::super::{ChainError, Reward};
use super::profile::LoadProfile;
use super::traffic::{Payout, Traffic};
use crate::chain::Height;

/// The most bodies that are ready in advance.
const AHEAD: usize = 2;

/// The transactions of a block but the coinbase, their txids, and the reward.
pub(super) struct LoadBody {
    pub(super) transactions: Vec<Transaction>,
    pub(super) txids: Vec<Txid>,
    pub(super) reward: Reward,
}

type Coinbase = (Txid, Vec<TxOut>);

/// The thread that makes bodies. Dropping this stops it.
#[derive(Debug)]
pub(super) struct BodyWriter {
    bodies: Receiver<Result<LoadBody, ChainError>>,
    coinbases: Sender<Coinbase>,
}

impl BodyWriter {
    pub(super) fn start(profile: LoadProfile) -> Self {
        let (body_sender, bodies) = sync_channel(AHEAD);
        let (coinbases, coinbase_receiver) = channel();
        thread::spawn(move || write(profile, &body_sender, &coinbase_receiver));
        BodyWriter { bodies, coinbases }
    }

    /// The body of the next block, `None` after the last.
    pub(super) fn next_body(&self) -> Option<Result<LoadBody, ChainError>> {
        self.bodies.recv().ok()
    }

    /// Sends the coinbase of the block of the last body back to the thread.
    pub(super) fn report_coinbase(&self, block: &Block) {
        if let Some(coinbase) = block.coinbase() {
            // After its last body the thread has ended and needs no more coinbases.
            let _ = self.coinbases.send((coinbase.compute_txid(), coinbase.output.clone()));
        }
    }
}

fn write(profile: LoadProfile, bodies: &SyncSender<Result<LoadBody, ChainError>>, coinbases: &Receiver<Coinbase>) {
    let mut traffic = Traffic::new(profile.seed);
    // The payouts whose coinbases are not received yet, the lowest first.
    let mut payouts: VecDeque<(Height, Payout)> = VecDeque::new();
    let mut left = profile.transactions;
    for height in 1..=profile.blocks {
        while let Some((created, payout)) =
            payouts.pop_front_if(|(created, _)| height - created.to_u32() >= COINBASE_MATURITY)
        {
            let Ok((txid, outputs)) = coinbases.recv() else { return };
            traffic.paid(created, txid, &outputs, &payout);
        }
        traffic.begin_block(Height::from(height));
        let count = left.div_ceil(u64::from(profile.blocks - height + 1));
        let body = write_body(&mut traffic, if height > COINBASE_MATURITY { count } else { 0 });
        let payout = traffic.payout(Height::from(height));
        let body = body.map(|(transactions, txids)| LoadBody { transactions, txids, reward: payout.reward.clone() });
        payouts.push_back((Height::from(height), payout));
        left -= body.as_ref().map_or(0, |body| u64::try_from(body.txids.len()).unwrap_or(u64::MAX));
        if bodies.send(body).is_err() {
            return;
        }
    }
}

/// This many transactions, or as many as fit into a block.
fn write_body(traffic: &mut Traffic, count: u64) -> Result<(Vec<Transaction>, Vec<Txid>), ChainError> {
    let (mut transactions, mut txids) = (Vec::new(), Vec::new());
    let mut weight = Weight::ZERO;
    for _ in 0..count {
        let Some((tx, txid)) = traffic.next_transaction(&mut weight)? else { break };
        transactions.push(tx);
        txids.push(txid);
    }
    Ok((transactions, txids))
}
