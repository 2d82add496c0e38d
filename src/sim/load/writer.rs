//! Makes the bodies of a load's blocks on a thread of its own, while the blocks before them are assembled.
//!
//! What a body spends is known without its block, but for coinbases, whose values hold fees: these are told back, and
//! are needed only a hundred blocks later. So all is the same however fast either side is.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use bitcoin::{Block, Transaction, TxOut, Txid, Weight};

use super::super::utxo::COINBASE_MATURITY;
use super::super::{ChainError, Reward};
use super::LoadProfile;
use super::traffic::{Payout, Traffic};
use crate::chain::Height;

/// How many bodies are ready at most.
const AHEAD: usize = 2;

/// The transactions of a block but the coinbase, their ids, and what the coinbase pays.
pub(super) struct Body {
    pub(super) transactions: Vec<Transaction>,
    pub(super) txids: Vec<Txid>,
    pub(super) reward: Reward,
}

type Coinbase = (Txid, Vec<TxOut>);

/// The thread that makes bodies. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    bodies: Receiver<Result<Body, ChainError>>,
    coinbases: Sender<Coinbase>,
}

impl Writer {
    pub(super) fn start(profile: LoadProfile) -> Self {
        let (body_sender, bodies) = sync_channel(AHEAD);
        let (coinbases, coinbase_receiver) = channel();
        thread::spawn(move || write(profile, &body_sender, &coinbase_receiver));
        Writer { bodies, coinbases }
    }

    /// The body of the next block, `None` after the last.
    pub(super) fn next_body(&self) -> Option<Result<Body, ChainError>> {
        self.bodies.recv().ok()
    }

    /// Tells the coinbase of the block that the last body became.
    pub(super) fn tell_coinbase(&self, block: &Block) {
        if let Some(coinbase) = block.coinbase() {
            // After its last body the thread has ended and needs no more.
            let _ = self.coinbases.send((coinbase.compute_txid(), coinbase.output.clone()));
        }
    }
}

fn write(profile: LoadProfile, bodies: &SyncSender<Result<Body, ChainError>>, coinbases: &Receiver<Coinbase>) {
    let mut traffic = Traffic::new(profile.seed);
    // Of the blocks whose coinbases are not told yet, the lowest first.
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
        let body = body.map(|(transactions, txids)| Body { transactions, txids, reward: payout.reward.clone() });
        payouts.push_back((Height::from(height), payout));
        left -= body.as_ref().map_or(0, |body| u64::try_from(body.txids.len()).unwrap_or(u64::MAX));
        if bodies.send(body).is_err() {
            return;
        }
    }
}

/// So many transactions, or as many as a block can hold.
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
