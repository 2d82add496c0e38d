//! The UTXO set after one block. The changes of a block move it forward and back.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

use bitcoin::{Amount, OutPoint, Transaction, TxOut, Txid};

use super::ChainError;
use crate::chain::Height;
use crate::chain::script::never_spendable;

/// Blocks after a coinbase's own before its outputs can be spent (`COINBASE_MATURITY` of Core's
/// `consensus/consensus.h`).
pub(crate) const COINBASE_MATURITY: u32 = 100;

/// An output with its origin, as an entry of the UTXO set (Core's `Coin` of `coins.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimCoin {
    /// The output.
    pub output: TxOut,
    /// The height of the block that made it.
    pub height: Height,
    /// Whether a coinbase made it.
    pub coinbase: bool,
}

impl SimCoin {
    /// Whether a block at this height may spend it.
    #[must_use]
    pub fn is_mature_at(&self, height: Height) -> bool {
        !self.coinbase || height.to_u32().saturating_sub(self.height.to_u32()) >= COINBASE_MATURITY
    }
}

/// One change of the UTXO set. A block's changes in order lead from its parent's set to its own; inverted and in
/// reverse order they lead back.
#[derive(Clone, Debug)]
pub(crate) enum UtxoChange {
    Added(OutPoint, SimCoin),
    Removed(OutPoint, SimCoin),
}

/// How to treat a transaction that is already in the chain with unspent outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Refuse,
    Overwrite,
}

/// Unspent outputs by outpoint. The hasher has fixed keys, so that nothing depends on the operating system.
pub type CoinMap = HashMap<OutPoint, SimCoin, BuildHasherDefault<DefaultHasher>>;

/// The unspent outputs after a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimUtxoSet {
    coins: CoinMap,
}

impl SimUtxoSet {
    pub(crate) fn coins(&self) -> &CoinMap {
        &self.coins
    }

    pub(crate) fn sorted(&self) -> BTreeMap<OutPoint, SimCoin> {
        self.coins.iter().map(|(outpoint, coin)| (*outpoint, coin.clone())).collect()
    }

    /// Removes the outputs that `tx` spends, adds its own, appends each change to `changes`, and returns the fee. After
    /// an error the caller reverts the changes appended so far.
    pub(crate) fn apply(
        &mut self,
        tx: &Transaction,
        txid: Txid,
        height: Height,
        changes: &mut Vec<UtxoChange>,
    ) -> Result<Amount, ChainError> {
        if tx.input.is_empty() || tx.output.is_empty() {
            return Err(ChainError::EmptyTransaction(txid));
        }
        let mut spent = Amount::ZERO;
        for input in &tx.input {
            let outpoint = input.previous_output;
            let coin = self.coins.remove(&outpoint).ok_or(ChainError::MissingCoin { txid, outpoint })?;
            let (mature, created, value) = (coin.is_mature_at(height), coin.height, coin.output.value);
            changes.push(UtxoChange::Removed(outpoint, coin));
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

    /// Adds the outputs of a transaction whose inputs are already removed, and appends each change to `changes`.
    pub(crate) fn add_outputs(
        &mut self,
        tx: &Transaction,
        txid: Txid,
        height: Height,
        duplicates: Duplicates,
        changes: &mut Vec<UtxoChange>,
    ) -> Result<(), ChainError> {
        let coinbase = tx.is_coinbase();
        for (vout, output) in (0u32..).zip(&tx.output) {
            if never_spendable(&output.script_pubkey) {
                continue;
            }
            let outpoint = OutPoint { txid, vout };
            let coin = SimCoin { output: output.clone(), height, coinbase };
            if let Some(overwritten) = self.coins.insert(outpoint, coin.clone()) {
                changes.push(UtxoChange::Removed(outpoint, overwritten));
                changes.push(UtxoChange::Added(outpoint, coin));
                if duplicates == Duplicates::Refuse {
                    return Err(ChainError::Duplicate(txid));
                }
            } else {
                changes.push(UtxoChange::Added(outpoint, coin));
            }
        }
        Ok(())
    }

    /// Applies the changes of a block to its parent's unspent outputs.
    pub(crate) fn redo(&mut self, changes: &[UtxoChange]) {
        for change in changes {
            match change {
                UtxoChange::Added(outpoint, coin) => self.coins.insert(*outpoint, coin.clone()),
                UtxoChange::Removed(outpoint, _) => self.coins.remove(outpoint),
            };
        }
    }

    /// Reverts the changes of a block.
    pub(crate) fn undo(&mut self, changes: &[UtxoChange]) {
        for change in changes.iter().rev() {
            match change {
                UtxoChange::Added(outpoint, _) => self.coins.remove(outpoint),
                UtxoChange::Removed(outpoint, coin) => self.coins.insert(*outpoint, coin.clone()),
            };
        }
    }
}

/// The sum of the values of these outputs; saturates.
pub(crate) fn total(outputs: &[TxOut]) -> Amount {
    Amount::from_sat(outputs.iter().fold(0, |sum: u64, output| sum.saturating_add(output.value.to_sat())))
}
