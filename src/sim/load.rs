//! A long chain of the shape of mainnet, made fast: to measure an import with, not to find errors with.
//!
//! The first 100 blocks only pay coins to many owners. From then on blocks are filled evenly: inputs and outputs a
//! transaction, spends within the block, recent and old coins, and owners who are paid once or a hundred thousand
//! times are distributed about as on mainnet. Script types are mostly those that a node validates without a signature.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bitcoin::{
    Amount, Block, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Weight, Witness, absolute,
    transaction,
};

use super::utxo::COINBASE_MATURITY;
use super::{ChainError, Owner, Reward, Rng, ScriptKind, SimChain, Template};
use crate::chain::subsidy::subsidy;

/// Outputs of each coinbase before there are transactions.
const FAN_OUT: u64 = 1_000;
/// What a block may weigh without its coinbase, which takes less than the difference to 4,000,000.
const BLOCK_WEIGHT: Weight = Weight::from_wu(3_980_000);
/// How many scripts there are of a kind whose scripts take point arithmetic to make.
const COSTLY_SCRIPTS: u32 = 1_024;
/// Owners who mine.
const MINERS: u64 = 12;

/// How many inputs a transaction has: (cases of 10,000, lowest, highest). 2.25 on average.
const INPUTS: [(u64, u64, u64); 7] =
    [(6_550, 1, 1), (1_800, 2, 2), (500, 3, 3), (300, 4, 4), (500, 5, 8), (300, 9, 20), (50, 21, 60)];
/// How many outputs a transaction has, in the same form. 2.53 on average.
const OUTPUTS: [(u64, u64, u64); 7] =
    [(2_000, 1, 1), (6_584, 2, 2), (600, 3, 3), (250, 4, 4), (400, 5, 10), (146, 11, 30), (20, 31, 100)];
/// How many of 100 owners are of which kind.
const KINDS: [(u64, ScriptKind); 7] = [
    (42, ScriptKind::P2wsh),
    (30, ScriptKind::P2sh),
    (12, ScriptKind::BareTrue),
    (7, ScriptKind::WitnessV2),
    (6, ScriptKind::P2trScript),
    (1, ScriptKind::P2wpkh),
    (2, ScriptKind::P2a),
];
/// Of 100 outputs: those with data, and those to an owner who was never paid before.
const DATA_OUTPUTS: u64 = 6;
const FRESH_OWNERS: u64 = 45;

/// How much to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProfile {
    /// Transactions in all, coinbases not counted.
    pub transactions: u64,
    /// Blocks in all, genesis not counted. The first 100 hold no transactions; each of the others can hold about
    /// 4,500.
    pub blocks: u32,
    /// What all choices follow from.
    pub seed: u64,
}

/// A coin that a later transaction may spend.
#[derive(Clone, Copy, Debug)]
struct Spendable {
    outpoint: OutPoint,
    value: u64,
    owner: Owner,
}

/// Makes the blocks of a [`LoadProfile`] on a chain that nobody else mines on.
#[derive(Debug)]
pub struct Load {
    profile: LoadProfile,
    rng: Rng,
    made: u64,
    /// How many owners were paid so far; owner `i` follows from `i`.
    owners: u32,
    coins: Vec<Spendable>,
    /// Coinbases that wait for maturity, the oldest first, with their heights.
    immature: VecDeque<(u32, Vec<Spendable>)>,
    /// The scripts that take long to make.
    scripts: HashMap<Owner, ScriptBuf>,
    /// The witnesses of those that need no signature, which are the same in every spend.
    witnesses: HashMap<Owner, Witness>,
}

impl Load {
    /// A generator that is about to make the first block on genesis.
    #[must_use]
    pub fn new(profile: LoadProfile) -> Self {
        Load {
            profile,
            rng: Rng::new(profile.seed),
            made: 0,
            owners: 0,
            coins: Vec::new(),
            immature: VecDeque::new(),
            scripts: HashMap::new(),
            witnesses: HashMap::new(),
        }
    }

    /// Transactions made so far, coinbases not counted. Below the profile's number after the last block when its
    /// blocks cannot hold them.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.made
    }

    /// Mines the next block on the chain's tip, `None` when all are made. The chain may be told to keep no bodies.
    pub fn next_block(&mut self, chain: &mut SimChain) -> Result<Option<Arc<Block>>, ChainError> {
        let height = chain.height().next();
        let Some(blocks_left) = self.profile.blocks.checked_sub(chain.height().to_u32()).filter(|left| *left > 0)
        else {
            return Ok(None);
        };
        while let Some((_, coins)) =
            self.immature.pop_front_if(|(created, _)| height.to_u32() - *created >= COINBASE_MATURITY)
        {
            self.coins.extend(coins);
        }
        let (transactions, owners, reward) = if height.to_u32() <= COINBASE_MATURITY {
            let owners: Vec<Owner> = (0..FAN_OUT).map(|_| self.fresh_owner()).collect();
            let value = subsidy(height, Network::Regtest) / FAN_OUT;
            let outputs = owners.iter().map(|owner| self.output(*owner, value.to_sat())).collect();
            (Vec::new(), owners, Reward::exactly(outputs))
        } else {
            let left = self.profile.transactions.saturating_sub(self.made);
            let transactions = self.transactions_of_block(left.div_ceil(u64::from(blocks_left)))?;
            let miner = Owner::new(ScriptKind::P2wsh, u32::MAX - small(self.rng.below(MINERS)));
            (transactions, vec![miner], Reward::to(miner.script_pubkey()))
        };
        let block = chain.mine_template(Template { transactions, reward: Some(reward), ..Template::default() })?;
        if let Some(coinbase) = block.coinbase() {
            let txid = coinbase.compute_txid();
            let coins = (0u32..).zip(&coinbase.output).zip(owners).map(|((vout, output), owner)| Spendable {
                outpoint: OutPoint { txid, vout },
                value: output.value.to_sat(),
                owner,
            });
            self.immature.push_back((height.to_u32(), coins.collect()));
        }
        Ok(Some(block))
    }

    fn transactions_of_block(&mut self, count: u64) -> Result<Vec<Transaction>, ChainError> {
        let mut transactions = Vec::new();
        let mut weight = Weight::ZERO;
        for _ in 0..count {
            let inputs = draw(&mut self.rng, &INPUTS);
            let outputs = draw(&mut self.rng, &OUTPUTS);
            // An input weighs at most 300 weight units, an output at most 172.
            let estimate = Weight::from_wu(300 * inputs + 172 * outputs + 50);
            if weight + estimate > BLOCK_WEIGHT || self.coins.len() < usize::try_from(inputs).unwrap_or(usize::MAX) {
                break;
            }
            let tx = self.transaction(inputs, outputs)?;
            weight += tx.weight();
            transactions.push(tx);
            self.made += 1;
        }
        Ok(transactions)
    }

    fn transaction(&mut self, inputs: u64, outputs: u64) -> Result<Transaction, ChainError> {
        let spent: Vec<Spendable> = (0..inputs).filter_map(|_| self.take_coin()).collect();
        let value: u64 = spent.iter().map(|coin| coin.value).sum();
        let fee = (self.rng.between(1, 30) * (68 * inputs + 31 * outputs + 11)).min(value / 20);
        let mut left = value - fee;
        let mut owners = Vec::new();
        let mut output = Vec::new();
        for after in (0..outputs).rev() {
            if after > 0 && self.rng.below(100) < DATA_OUTPUTS {
                let data = Owner::new(ScriptKind::OpReturn, small(self.rng.next_u64() >> 32));
                owners.push(data);
                output.push(data.output(Amount::ZERO));
                continue;
            }
            let value = if after == 0 { left } else { self.rng.below(2 * left / (after + 1) + 1).min(left) };
            left -= value;
            let owner = if self.rng.below(100) < FRESH_OWNERS { self.fresh_owner() } else { self.known_owner() };
            owners.push(owner);
            output.push(self.output(owner, value));
        }
        let input = spent
            .iter()
            .map(|coin| TxIn {
                previous_output: coin.outpoint,
                script_sig: ScriptBuf::new(),
                sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
                witness: Witness::new(),
            })
            .collect();
        let mut tx =
            Transaction { version: transaction::Version::TWO, lock_time: absolute::LockTime::ZERO, input, output };
        let prevouts: Vec<TxOut> = if spent.iter().any(|coin| coin.owner.kind.is_signed()) {
            spent.iter().map(|coin| self.output(coin.owner, coin.value)).collect()
        } else {
            Vec::new()
        };
        for (index, coin) in spent.iter().enumerate() {
            if let Some(witness) = self.witnesses.get(&coin.owner) {
                tx.input[index].witness.clone_from(witness);
                continue;
            }
            coin.owner.unlock(&mut tx, index, &prevouts)?;
            if coin.owner.kind == ScriptKind::P2trScript {
                self.witnesses.insert(coin.owner, tx.input[index].witness.clone());
            }
        }
        let txid = tx.compute_txid();
        for ((vout, output), owner) in (0u32..).zip(&tx.output).zip(owners) {
            if owner.kind.is_spendable() {
                let outpoint = OutPoint { txid, vout };
                self.coins.push(Spendable { outpoint, value: output.value.to_sat(), owner });
            }
        }
        Ok(tx)
    }

    /// A coin to spend: made just now, in the last blocks, or at any time.
    fn take_coin(&mut self) -> Option<Spendable> {
        let newest = match self.rng.below(100) {
            0..15 => 2_000,
            15..60 => 30_000,
            _ => usize::MAX,
        };
        let back = self.rng.index(self.coins.len().min(newest));
        let index = self.coins.len().checked_sub(back + 1)?;
        Some(self.coins.swap_remove(index))
    }

    fn fresh_owner(&mut self) -> Owner {
        self.owners += 1;
        self.owner(self.owners - 1)
    }

    /// An owner who was paid before: each power of two of them is as likely as the next, so that the first owners are
    /// paid again and again.
    fn known_owner(&mut self) -> Owner {
        let bits = u64::from(u32::BITS - self.owners.leading_zeros());
        let width = self.rng.between(1, bits.max(1));
        let index = self.rng.below(1 << width) % u64::from(self.owners.max(1));
        self.owner(small(index))
    }

    fn owner(&self, index: u32) -> Owner {
        let mut case = Rng::new(self.profile.seed ^ u64::from(index) << 20).below(100);
        for (share, kind) in KINDS {
            if case < share {
                let n = if kind.is_costly() { index % COSTLY_SCRIPTS } else { index };
                return Owner::new(kind, n);
            }
            case -= share;
        }
        Owner::new(ScriptKind::P2wsh, index)
    }

    fn output(&mut self, owner: Owner, value: u64) -> TxOut {
        let value = Amount::from_sat(value);
        if !owner.kind.is_costly() {
            return owner.output(value);
        }
        let script = self.scripts.entry(owner).or_insert_with(|| owner.script_pubkey());
        TxOut { value, script_pubkey: script.clone() }
    }
}

/// Draws from a table of (cases of 10,000, lowest, highest).
fn draw(rng: &mut Rng, table: &[(u64, u64, u64)]) -> u64 {
    let mut case = rng.below(10_000);
    for (cases, low, high) in table {
        if case < *cases {
            return rng.between(*low, *high);
        }
        case -= cases;
    }
    1
}

/// A number that is known to fit into 32 bits.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    const PROFILE: LoadProfile = LoadProfile { transactions: 6_000, blocks: 106, seed: 1 };

    fn blocks(profile: LoadProfile) -> Vec<Arc<Block>> {
        let mut chain = SimChain::new(profile.seed).keeping(1);
        let mut load = Load::new(profile);
        std::iter::from_fn(|| load.next_block(&mut chain).unwrap()).collect()
    }

    #[test]
    fn the_same_profile_makes_the_same_chain() {
        let tip = |seed| blocks(LoadProfile { seed, ..PROFILE }).last().unwrap().block_hash();
        assert_eq!(tip(1), tip(1));
        assert_ne!(tip(1), tip(2));
    }

    #[test]
    fn blocks_are_filled_evenly_after_the_coinbases_are_mature() {
        let counts: Vec<usize> = blocks(PROFILE).iter().map(|block| block.txdata.len() - 1).collect();
        assert_eq!(counts[..100], [0; 100]);
        assert_eq!(counts[100..], [1_000; 6]);
    }

    #[test]
    fn transactions_have_the_shape_of_mainnet() {
        let blocks = blocks(PROFILE);
        let (mut inputs, mut outputs, mut spends_in_block) = (0, 0, 0);
        let mut paid: HashMap<&ScriptBuf, u32> = HashMap::new();
        for block in &blocks {
            let txids: HashSet<_> = block.txdata.iter().map(Transaction::compute_txid).collect();
            for tx in &block.txdata[1..] {
                inputs += tx.input.len();
                outputs += tx.output.len();
                spends_in_block += tx.input.iter().filter(|input| txids.contains(&input.previous_output.txid)).count();
                tx.output.iter().for_each(|output| *paid.entry(&output.script_pubkey).or_default() += 1);
            }
        }
        // Within a twentieth of 2.25 and 2.53 a transaction.
        assert!((12_825..14_175).contains(&inputs), "{inputs}");
        assert!((14_421..15_939).contains(&outputs), "{outputs}");
        assert!((inputs / 10..inputs / 2).contains(&spends_in_block), "{spends_in_block}");
        let once = paid.values().filter(|times| **times == 1).count();
        assert!(once * 2 > paid.len(), "most scripts are paid once");
        assert!(paid.values().any(|times| *times > 200), "a few are paid all the time");
    }

    #[test]
    fn what_blocks_cannot_hold_is_left_out_and_told() {
        let mut chain = SimChain::new(1).keeping(1);
        let mut load = Load::new(LoadProfile { transactions: 100_000, blocks: 102, seed: 1 });
        while load.next_block(&mut chain).unwrap().is_some() {}
        assert!((2_000..20_000).contains(&load.transactions()), "{}", load.transactions());
    }
}
