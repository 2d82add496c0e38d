//! The transactions of one hostile block, with odd values, versions and locks.

use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, absolute, transaction};

use super::{ChainError, Owner, Rng, ScriptKind, Spendable};
use crate::chain::Height;

/// The number of scripts of each kind: few, so that most are paid and spent many times.
pub(super) const SCRIPTS_OF_A_KIND: u32 = 5;
/// Values at the limits of rules: zero, the least, around the dust limits, more than 32 bits.
const ODD_VALUES: [u64; 8] = [0, 1, 293, 294, 545, 546, 0xffff_ffff, 0x1_0000_0000];
/// Odd versions. Consensus allows any.
const VERSIONS: [i32; 6] = [1, 2, 3, 0, -1, i32::MAX];
/// Final, replaceable, with lock time, without a relative lock, and with a relative lock that is always met.
const SEQUENCES: [u32; 5] = [0xffff_ffff, 0xffff_fffd, 0xffff_fffe, 0x8000_0001, 0];

/// The transactions so far, and the coins that the next one can spend.
pub(super) struct HostileBody {
    height: Height,
    coins: Vec<Spendable>,
    transactions: Vec<Transaction>,
}

impl HostileBody {
    pub(super) fn new(height: Height, coins: Vec<Spendable>) -> Self {
        HostileBody { height, coins, transactions: Vec::new() }
    }

    pub(super) fn into_transactions(self) -> Vec<Transaction> {
        self.transactions
    }

    /// Adds one transaction, or several that depend on each other; none if there is no coin to spend.
    pub(super) fn act(&mut self, rng: &mut Rng) -> Result<(), ChainError> {
        let paid = match rng.below(8) {
            // Some coins to some owners.
            0..3 => {
                let most = rng.between(1, 5);
                let spent = self.take(rng, most);
                let payees = any_owners(rng, 6);
                self.pay(rng, spent, &payees)?
            }
            // Many coins of one script, in part back to it in two outputs.
            3 => {
                let (owner, spent) = self.take_of_one_script(rng);
                let payees = [any_owner(rng), owner, any_owner(rng), owner];
                self.pay(rng, spent, &payees)?
            }
            // Many coins of one script to itself.
            4 => {
                let (owner, spent) = self.take_of_one_script(rng);
                self.pay(rng, spent, &[owner])?
            }
            // A chain of transactions, each of which spends all outputs of the one before.
            5 => {
                let mut coins = self.take(rng, 2);
                for _ in 0..rng.between(2, 5) {
                    let payees = any_owners(rng, 3);
                    coins = self.pay(rng, coins, &payees)?;
                }
                coins
            }
            // One output of every kind.
            6 => {
                let spent = self.take(rng, 1);
                let n = any_number(rng);
                self.pay(rng, spent, &ScriptKind::ALL.map(|kind| Owner::new(kind, n)))?
            }
            // A coin is burnt, but not too often.
            _ => {
                let spent = if rng.chance(20) { self.take(rng, 1) } else { Vec::new() };
                self.pay(rng, spent, &[Owner::new(ScriptKind::BareOpReturn, 0)])?
            }
        };
        self.coins.extend(paid);
        Ok(())
    }

    /// Adds a transaction that spends these coins and pays these owners, and returns those of its outputs that can be
    /// spent. Adds none when there is no coin.
    pub(super) fn pay(
        &mut self,
        rng: &mut Rng,
        spent: Vec<Spendable>,
        payees: &[Owner],
    ) -> Result<Vec<Spendable>, ChainError> {
        if spent.is_empty() {
            return Ok(spent);
        }
        let mut left: u64 = spent.iter().map(|coin| coin.output.value.to_sat()).sum();
        let mut output = Vec::new();
        for (index, owner) in payees.iter().enumerate() {
            let odd = rng.choose(&ODD_VALUES).copied().unwrap_or_default();
            let value = match rng.below(10) {
                0..2 => odd.min(left),
                _ if index + 1 < payees.len() => rng.below(left / 2 + 1),
                _ if rng.chance(30) => left,
                _ => left - rng.below(50_000).min(left / 2),
            };
            left -= value;
            output.push(owner.output(Amount::from_sat(value)));
        }
        let input = spent.iter().map(|coin| TxIn {
            previous_output: coin.outpoint,
            script_sig: ScriptBuf::new(),
            sequence: Sequence(rng.choose(&SEQUENCES).copied().unwrap_or_default()),
            witness: Witness::new(),
        });
        let input = input.collect();
        let mut tx = Transaction {
            version: transaction::Version(rng.choose(&VERSIONS).copied().unwrap_or_default()),
            lock_time: self.any_lock_time(rng),
            input,
            output,
        };
        let prevouts: Vec<TxOut> = spent.iter().map(|coin| coin.output.clone()).collect();
        for (index, coin) in spent.iter().enumerate() {
            coin.owner.unlock(&mut tx, index, &prevouts)?;
        }
        let txid = tx.compute_txid();
        let paid = (0..).zip(&tx.output).zip(payees).filter(|(_, owner)| owner.kind.is_spendable());
        let paid = paid.map(|((vout, output), owner)| Spendable {
            outpoint: OutPoint { txid, vout },
            output: output.clone(),
            owner: *owner,
        });
        let paid = paid.collect();
        self.transactions.push(tx);
        Ok(paid)
    }

    /// Up to `most` coins, at random.
    fn take(&mut self, rng: &mut Rng, most: u64) -> Vec<Spendable> {
        let mut taken = Vec::new();
        for _ in 0..most {
            let index = rng.index(self.coins.len());
            if index < self.coins.len() {
                taken.push(self.coins.swap_remove(index));
            }
        }
        taken
    }

    /// Up to eight coins of one owner.
    fn take_of_one_script(&mut self, rng: &mut Rng) -> (Owner, Vec<Spendable>) {
        let Some(owner) = rng.choose(&self.coins).map(|coin| coin.owner) else {
            return (any_owner(rng), Vec::new());
        };
        let (mut taken, mut others) = (Vec::new(), Vec::new());
        for coin in self.coins.drain(..) {
            if coin.owner == owner && taken.len() < 8 { taken.push(coin) } else { others.push(coin) }
        }
        self.coins = others;
        (owner, taken)
    }

    /// None, or a height or time that has passed for this block.
    fn any_lock_time(&self, rng: &mut Rng) -> absolute::LockTime {
        absolute::LockTime::from_consensus(match rng.below(3) {
            0 => 0,
            1 => self.height.to_u32().saturating_sub(1),
            _ => absolute::LOCK_TIME_THRESHOLD,
        })
    }
}

/// An owner of any kind.
pub(super) fn any_owner(rng: &mut Rng) -> Owner {
    let kind = rng.choose(&ScriptKind::ALL).copied().unwrap_or(ScriptKind::P2wsh);
    Owner::new(kind, any_number(rng))
}

fn any_owners(rng: &mut Rng, most: u64) -> Vec<Owner> {
    (0..rng.between(1, most)).map(|_| any_owner(rng)).collect()
}

fn any_number(rng: &mut Rng) -> u32 {
    u32::try_from(rng.below(u64::from(SCRIPTS_OF_A_KIND))).unwrap_or_default()
}
