//! Transactions of the shape of mainnet's, each of which spends outputs of earlier ones.

use std::collections::{HashMap, VecDeque};

use bitcoin::hashes::Hash;
use bitcoin::{
    Amount, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Weight, Witness, absolute,
    transaction,
};

use super::super::utxo::COINBASE_MATURITY;
use super::super::{ChainError, Owner, Reward, Rng, ScriptKind};
use crate::chain::Height;
use crate::chain::subsidy::subsidy;

/// Outputs of each coinbase before there are transactions.
const FAN_OUT: u64 = 1_000;
/// The most weight of a block without its coinbase, which weighs less than the difference to 4,000,000.
const BLOCK_WEIGHT: Weight = Weight::from_wu(3_980_000);
/// The number of scripts of each kind that needs point arithmetic.
const COSTLY_SCRIPTS: u32 = 1_024;
/// The number of miners.
const MINERS: u64 = 12;

/// The number of inputs of a transaction: (cases of 10,000, lowest, highest). 2.47 on average.
const INPUTS: [(u64, u64, u64); 7] =
    [(6_190, 1, 1), (1_800, 2, 2), (660, 3, 3), (300, 4, 4), (600, 5, 8), (400, 9, 20), (50, 21, 60)];
/// The number of outputs of a transaction, in the form of [`INPUTS`]. 2.75 on average.
const OUTPUTS: [(u64, u64, u64); 7] =
    [(2_000, 1, 1), (6_414, 2, 2), (600, 3, 3), (250, 4, 4), (470, 5, 10), (246, 11, 30), (20, 31, 100)];
/// The number of owners of each kind among 100.
const KINDS: [(u64, ScriptKind); 7] = [
    (42, ScriptKind::P2wsh),
    (30, ScriptKind::P2sh),
    (12, ScriptKind::BareTrue),
    (7, ScriptKind::WitnessV2),
    (6, ScriptKind::P2trScript),
    (1, ScriptKind::P2wpkh),
    (2, ScriptKind::P2a),
];
/// Items of the witness where an output of a future witness version is spent, which needs none, and the bytes of each. One input in
/// fourteen has them, so that transactions have nearly as many bytes, 480 on average, as if all their inputs were signed.
const WITNESS_ITEMS: usize = 16;
const SIGNATURE_BYTES: usize = 72;
/// The most weight of an input and of an output, and of a transaction without them.
const INPUT_WEIGHT: u64 = 1_400;
const OUTPUT_WEIGHT: u64 = 172;
const OTHER_WEIGHT: u64 = 50;
/// Among 100 outputs: those with data, and those to a new owner.
const DATA_OUTPUTS: u64 = 6;
const FRESH_OWNERS: u64 = 45;

/// A coin that a later transaction may spend.
#[derive(Clone, Copy, Debug)]
struct OwnedCoin {
    outpoint: OutPoint,
    value: u64,
    owner: Owner,
}

/// The reward of a coinbase, and the owner of each of its outputs.
#[derive(Clone, Debug)]
pub(crate) struct Payout {
    pub(crate) reward: Reward,
    owners: Vec<Owner>,
}

/// Makes transactions one after another, which all must be mined in this order.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    seed: u64,
    rng: Rng,
    /// The number of owners who were paid so far; owner `i` is a function of `i`.
    owners: u32,
    coins: Vec<OwnedCoin>,
    /// Immature coinbases, the oldest first, with their heights.
    immature: VecDeque<(Height, Vec<OwnedCoin>)>,
    /// A cache of the scripts that are costly to make.
    scripts: HashMap<Owner, ScriptBuf>,
    /// A cache of the witnesses that need no signature, which are equal in every spend.
    witnesses: HashMap<Owner, Witness>,
}

impl Traffic {
    /// The transactions of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Traffic {
            seed,
            rng: Rng::new(seed),
            owners: 0,
            coins: Vec::new(),
            immature: VecDeque::new(),
            scripts: HashMap::new(),
            witnesses: HashMap::new(),
        }
    }

    /// Makes the next transactions for a block of this height: they may spend the coinbases that are mature there.
    pub(crate) fn begin_block(&mut self, height: Height) {
        let is_mature = |created: Height| height.to_u32() - created.to_u32() >= COINBASE_MATURITY;
        while let Some((_, coins)) = self.immature.pop_front_if(|(created, _)| is_mature(*created)) {
            self.coins.extend(coins);
        }
    }

    /// The payout of the block of this height: to many owners before there are transactions, then to one of a few
    /// miners.
    pub(crate) fn payout(&mut self, height: Height) -> Payout {
        if height.to_u32() <= COINBASE_MATURITY {
            let owners: Vec<Owner> = (0..FAN_OUT).map(|_| self.fresh_owner()).collect();
            let value = subsidy(height, Network::Regtest) / FAN_OUT;
            let outputs = owners.iter().map(|owner| self.output(*owner, value.to_sat())).collect();
            Payout { reward: Reward::exactly(outputs), owners }
        } else {
            let miner = Owner::new(ScriptKind::P2wsh, u32::MAX - small(self.rng.below(MINERS)));
            Payout { reward: Reward::to(miner.script_pubkey()), owners: vec![miner] }
        }
    }

    /// Adds the coinbase that was made of a payout. It is spent from its maturity on.
    pub(crate) fn paid(&mut self, height: Height, txid: Txid, outputs: &[TxOut], payout: &Payout) {
        let coins = (0u32..).zip(outputs).zip(&payout.owners).map(|((vout, output), owner)| OwnedCoin {
            outpoint: OutPoint { txid, vout },
            value: output.value.to_sat(),
            owner: *owner,
        });
        self.immature.push_back((height, coins.collect()));
    }

    /// The next transaction, and its txid. `None` if it might not fit into the block, whose transactions weigh this
    /// much so far, or if there are too few coins.
    pub(crate) fn next_transaction(&mut self, weight: &mut Weight) -> Result<Option<(Transaction, Txid)>, ChainError> {
        let inputs = draw(&mut self.rng, &INPUTS);
        let outputs = draw(&mut self.rng, &OUTPUTS);
        let estimate = Weight::from_wu(INPUT_WEIGHT * inputs + OUTPUT_WEIGHT * outputs + OTHER_WEIGHT);
        if *weight + estimate > BLOCK_WEIGHT || self.coins.len() < usize::try_from(inputs).unwrap_or(usize::MAX) {
            return Ok(None);
        }
        let (tx, txid) = self.transaction(inputs, outputs)?;
        *weight += tx.weight();
        Ok(Some((tx, txid)))
    }

    fn transaction(&mut self, inputs: u64, outputs: u64) -> Result<(Transaction, Txid), ChainError> {
        let spent: Vec<OwnedCoin> = (0..inputs).filter_map(|_| self.take_coin()).collect();
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
            if coin.owner.kind == ScriptKind::WitnessV2 {
                tx.input[index].witness = any_witness(coin.outpoint);
            }
            if coin.owner.kind == ScriptKind::P2trScript {
                self.witnesses.insert(coin.owner, tx.input[index].witness.clone());
            }
        }
        let txid = tx.compute_txid();
        for ((vout, output), owner) in (0u32..).zip(&tx.output).zip(owners) {
            if owner.kind.is_spendable() {
                let outpoint = OutPoint { txid, vout };
                self.coins.push(OwnedCoin { outpoint, value: output.value.to_sat(), owner });
            }
        }
        Ok((tx, txid))
    }

    /// A coin to spend: one of the newest, a recent one, or any.
    fn take_coin(&mut self) -> Option<OwnedCoin> {
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

    /// An owner who was paid before. Each power of two of them is equally likely, so that the first owners are paid
    /// very often.
    fn known_owner(&mut self) -> Owner {
        let bits = u64::from(u32::BITS - self.owners.leading_zeros());
        let width = self.rng.between(1, bits.max(1));
        let index = self.rng.below(1 << width) % u64::from(self.owners.max(1));
        self.owner(small(index))
    }

    fn owner(&self, index: u32) -> Owner {
        let mut case = Rng::new(self.seed ^ u64::from(index) << 20).below(100);
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

/// A witness that no rule checks, of bytes that differ from transaction to transaction.
fn any_witness(outpoint: OutPoint) -> Witness {
    let bytes =
        outpoint.txid.as_byte_array().iter().copied().cycle().skip(usize::try_from(outpoint.vout).unwrap_or(0) % 32);
    let items: Vec<u8> = bytes.take(WITNESS_ITEMS * SIGNATURE_BYTES).collect();
    Witness::from_slice(&items.chunks(SIGNATURE_BYTES).collect::<Vec<_>>())
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

/// Converts a number that fits into 32 bits.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
