//! Who makes the transactions of the mempool: 2.25 inputs and 2.5 outputs each on average, one input in ten of a
//! transaction that waits itself.

use std::collections::{HashMap, VecDeque};

use anyhow::{Context, Result, ensure};
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Transaction, TxOut};
use btcgraph::sim::{Owner, Payment, Rng, ScriptKind, SimChain, Spendable};

/// The kind of every output that is made here: spent without a signature, so that it is made fast.
const KIND: ScriptKind = ScriptKind::P2wsh;
/// Owners from this number on are paid by nobody else.
const OWN: u32 = 1 << 30;
/// A coin of less could not pay for ten outputs.
const LEAST: Amount = Amount::from_sat(50_000);
/// A coin of less might not pay the highest fee of a transaction.
const LEAST_SPREAD: Amount = Amount::from_sat(20_000);
/// The outputs of a transaction that spreads coins, how many coins it takes at most, and how many of them are in a block.
const SPREAD: u32 = 1_000;
const SPREAD_INPUTS: usize = 2_000;
const SPREAD_IN_BLOCK: usize = 20;
/// A waiting transaction that stands on so many others is not built upon.
const DEEPEST: usize = 3;

/// Coins and their owners.
pub(crate) struct Payer {
    rng: Rng,
    confirmed: VecDeque<Spendable>,
    /// Outputs of transactions that wait, each with how many transactions it stands on. Each transaction gives one.
    waiting: VecDeque<(Spendable, usize)>,
    next_owner: u32,
}

impl Payer {
    /// Finds the coins of a chain whose owners have numbers below this one.
    pub(crate) fn of(chain: &SimChain, owners: u32) -> Self {
        let mut by_script: HashMap<&ScriptBuf, Vec<(OutPoint, &TxOut)>> = HashMap::new();
        let next = chain.height().next();
        for (outpoint, coin) in chain.unspent().iter().filter(|(_, coin)| coin.is_mature_at(next)) {
            if coin.output.script_pubkey.is_p2wsh() && coin.output.value >= LEAST {
                by_script.entry(&coin.output.script_pubkey).or_default().push((*outpoint, &coin.output));
            }
        }
        let mut confirmed = Vec::new();
        for owner in (0..owners).map(|number| Owner::new(KIND, number)) {
            for (outpoint, output) in by_script.remove(&owner.script_pubkey()).into_iter().flatten() {
                confirmed.push(Spendable { outpoint, output: output.clone(), owner });
            }
        }
        // what is spread first is much
        confirmed.sort_unstable_by_key(|coin| std::cmp::Reverse((coin.output.value, coin.outpoint)));
        let confirmed = confirmed.into();
        Self { rng: Rng::new(7), confirmed, waiting: VecDeque::new(), next_owner: OWN }
    }

    /// How many confirmed coins there are.
    pub(crate) fn coins(&self) -> usize {
        self.confirmed.len()
    }

    /// The transactions of a block that makes many coins of few; they count once the block is announced.
    pub(crate) fn spread(&mut self) -> Result<Vec<Transaction>> {
        let mut made = Vec::new();
        while made.len() < SPREAD_IN_BLOCK {
            let (mut coins, mut whole) = (Vec::new(), Amount::ZERO);
            while whole < LEAST_SPREAD * u64::from(SPREAD + 1) && coins.len() < SPREAD_INPUTS {
                let coin = self.confirmed.pop_front().context("the chain has too few coins: make it longer")?;
                whole += coin.output.value;
                coins.push(coin);
            }
            let each = whole / u64::from(SPREAD + 1);
            ensure!(each >= LEAST_SPREAD, "the chain is too poor for so large a mempool: make it longer");
            let mut payment = Payment::of(coins);
            for _ in 0..SPREAD {
                payment = payment.to(self.owner(), each);
            }
            made.push(payment.sign()?);
        }
        Ok(made)
    }

    /// Takes up what a block of [`Payer::spread`] pays.
    pub(crate) fn paid(&mut self, block: &Block) {
        let first = self.next_owner - u32::try_from(block.txdata.len() - 1).unwrap_or(0) * SPREAD;
        let mut owners = (first..).map(|number| Owner::new(KIND, number));
        for tx in block.txdata.iter().skip(1) {
            for (vout, owner) in (0..SPREAD).zip(owners.by_ref()) {
                self.confirmed.extend(Spendable::of(tx, vout, owner));
            }
        }
    }

    /// Lets the coins be spent in no order: old ones and new ones, of many and of few.
    pub(crate) fn shuffle(&mut self) {
        for end in (1..=self.confirmed.len()).rev() {
            let place = self.rng.index(end);
            self.confirmed.swap(end - 1, place);
        }
    }

    /// The next so many transactions.
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<Transaction>> {
        (0..count).map(|_| self.transaction()).collect()
    }

    fn transaction(&mut self) -> Result<Transaction> {
        // (1 × 55 + 2 × 25 + 5 × 15 + 9 × 5) % = 2.25
        let inputs = [1, 2, 5, 9][self.percentile(&[55, 80, 95])];
        // (1 × 20 + 2 × 65 + 5 × 10 + 10 × 5) % = 2.5
        let outputs = [1, 2, 5, 10][self.percentile(&[20, 85, 95])];
        let (mut coins, mut depth) = (Vec::new(), 0);
        for _ in 0..inputs {
            let waiting = if self.rng.chance(10) && depth < DEEPEST { self.waiting.pop_front() } else { None };
            coins.push(match waiting {
                Some((coin, stands_on)) => {
                    depth = depth.max(stands_on);
                    coin
                }
                None => self.confirmed.pop_back().context("all coins are spent")?,
            });
        }
        let whole: Amount = coins.iter().map(|coin| coin.output.value).sum();
        let rate = 1 + self.rng.below(30);
        let (each, last) = (whole / 4 / outputs, self.owner());
        let mut payment = Payment::of(coins);
        for _ in 1..outputs {
            payment = payment.to(self.owner(), each);
        }
        let tx = payment.change(last, rate).sign()?;
        let vout = u32::try_from(tx.output.len().saturating_sub(1))?;
        if let Some(coin) = Spendable::of(&tx, vout, last).filter(|coin| depth < DEEPEST && coin.output.value >= LEAST)
        {
            self.waiting.push_back((coin, depth + 1));
        }
        Ok(tx)
    }

    fn owner(&mut self) -> Owner {
        self.next_owner += 1;
        Owner::new(KIND, self.next_owner - 1)
    }

    fn percentile(&mut self, bounds: &[u64]) -> usize {
        let percent = self.rng.below(100);
        bounds.iter().map(|bound| usize::from(percent >= *bound)).sum()
    }
}
