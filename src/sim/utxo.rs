//! The unspent outputs as seen from one block, moved forward and back by the changes that each block makes.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

use bitcoin::{Amount, OutPoint, Transaction, TxOut, Txid};

use super::ChainError;
use crate::chain::Height;
use crate::chain::script::never_spendable;

/// Blocks after a coinbase's own before its outputs can be spent (`COINBASE_MATURITY` of Core's
/// `consensus/consensus.h`).
pub(crate) const COINBASE_MATURITY: u32 = 100;

/// An unspent output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coin {
    /// The output.
    pub output: TxOut,
    /// The height of the block that made it.
    pub height: Height,
    /// Whether a coinbase made it.
    pub coinbase: bool,
}

impl Coin {
    /// Whether a block at this height may spend it.
    #[must_use]
    pub fn is_mature_at(&self, height: Height) -> bool {
        !self.coinbase || height.to_u32().saturating_sub(self.height.to_u32()) >= COINBASE_MATURITY
    }
}

/// One change of the unspent outputs. A block's changes in order lead from its parent's unspent outputs to its own;
/// inverted and in reverse order they lead back.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Added(OutPoint, Coin),
    Removed(OutPoint, Coin),
}

/// What to do with a transaction that is in the chain already and has unspent outputs left there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Refuse,
    Overwrite,
}

/// Unspent outputs by outpoint. The hasher has fixed keys, so that nothing depends on the operating system.
pub type Coins = HashMap<OutPoint, Coin, BuildHasherDefault<DefaultHasher>>;

/// The unspent outputs after some block.
#[derive(Clone, Debug, Default)]
pub(crate) struct UtxoSet {
    coins: Coins,
}

impl UtxoSet {
    pub(crate) fn coins(&self) -> &Coins {
        &self.coins
    }

    pub(crate) fn sorted(&self) -> BTreeMap<OutPoint, Coin> {
        self.coins.iter().map(|(outpoint, coin)| (*outpoint, coin.clone())).collect()
    }

    /// Takes what `tx` spends and adds what it pays, noting each change, and returns its fee. After an error the
    /// changes noted so far have to be reverted.
    pub(crate) fn apply(
        &mut self,
        tx: &Transaction,
        txid: Txid,
        height: Height,
        changes: &mut Vec<Change>,
    ) -> Result<Amount, ChainError> {
        if tx.input.is_empty() || tx.output.is_empty() {
            return Err(ChainError::EmptyTransaction(txid));
        }
        let mut spent = Amount::ZERO;
        for input in &tx.input {
            let outpoint = input.previous_output;
            let coin = self.coins.remove(&outpoint).ok_or(ChainError::MissingCoin { txid, outpoint })?;
            let (mature, created, value) = (coin.is_mature_at(height), coin.height, coin.output.value);
            changes.push(Change::Removed(outpoint, coin));
            if !mature {
                return Err(ChainError::Immature { txid, outpoint, height, created });
            }
            // Unspent values add up to less than 21 million coins.
            spent += value;
        }
        let paid = total(&tx.output);
        let fee = spent.checked_sub(paid).ok_or(ChainError::Overspent { txid, spent, paid })?;
        self.add_outputs(tx, txid, height, Duplicates::Refuse, changes)?;
        Ok(fee)
    }

    /// Adds the outputs of a transaction whose inputs are dealt with, noting each change.
    pub(crate) fn add_outputs(
        &mut self,
        tx: &Transaction,
        txid: Txid,
        height: Height,
        duplicates: Duplicates,
        changes: &mut Vec<Change>,
    ) -> Result<(), ChainError> {
        let coinbase = tx.is_coinbase();
        for (vout, output) in (0u32..).zip(&tx.output) {
            if never_spendable(&output.script_pubkey) {
                continue;
            }
            let outpoint = OutPoint { txid, vout };
            let coin = Coin { output: output.clone(), height, coinbase };
            if let Some(overwritten) = self.coins.insert(outpoint, coin.clone()) {
                changes.push(Change::Removed(outpoint, overwritten));
                changes.push(Change::Added(outpoint, coin));
                if duplicates == Duplicates::Refuse {
                    return Err(ChainError::Duplicate(txid));
                }
            } else {
                changes.push(Change::Added(outpoint, coin));
            }
        }
        Ok(())
    }

    /// Makes the changes of a block again, on top of its parent's unspent outputs.
    pub(crate) fn redo(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Added(outpoint, coin) => self.coins.insert(*outpoint, coin.clone()),
                Change::Removed(outpoint, _) => self.coins.remove(outpoint),
            };
        }
    }

    /// Takes the changes of a block back.
    pub(crate) fn undo(&mut self, changes: &[Change]) {
        for change in changes.iter().rev() {
            match change {
                Change::Added(outpoint, _) => self.coins.remove(outpoint),
                Change::Removed(outpoint, coin) => self.coins.insert(*outpoint, coin.clone()),
            };
        }
    }
}

/// The sum of the values of these outputs; the highest amount there is when it overflows.
pub(crate) fn total(outputs: &[TxOut]) -> Amount {
    Amount::from_sat(outputs.iter().fold(0, |sum: u64, output| sum.saturating_add(output.value.to_sat())))
}
