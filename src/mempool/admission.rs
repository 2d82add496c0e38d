//! Validates a transaction before it is added: what the mempool has must stay consistent.

use std::collections::HashSet;

use bitcoin::{OutPoint, Txid};

use super::entry::{Arrival, Cause, Entry, outpoint};
use super::prevouts::{PrevoutRef, PrevoutSource};
use super::state::MempoolState;
use crate::chain::raw::{RawError, RawTransaction};
use crate::chain::{policy_weight, wide};

/// Why a transaction cannot be added. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// It is in the mempool.
    #[error("it is in the mempool")]
    Present,
    /// Another one spends the same output. If it replaces that one, remove that one first.
    #[error("{spender} in the mempool spends {outpoint}, too")]
    Conflict {
        /// The output.
        outpoint: OutPoint,
        /// The transaction of the mempool that spends it.
        spender: Txid,
    },
    /// Its prevout is declared unconfirmed, and the mempool has no such output.
    #[error("it spends {outpoint}, which is not an output of a transaction in the mempool")]
    MissingParent {
        /// The output.
        outpoint: OutPoint,
    },
    /// It spends an output twice.
    #[error("it spends {outpoint} twice")]
    DuplicateInput {
        /// The output.
        outpoint: OutPoint,
    },
    /// It is a coinbase, which can only be in a block.
    #[error("it is a coinbase")]
    Coinbase,
    /// Its bytes are not a transaction.
    #[error("its bytes are not a transaction: {0}")]
    Malformed(#[from] RawError),
    /// The number of prevouts is not the number of inputs.
    #[error("it has {inputs} inputs and {prevouts} prevouts")]
    PrevoutCount {
        /// How many inputs it has.
        inputs: usize,
        /// How many prevouts were given.
        prevouts: usize,
    },
    /// Its outputs exceed its inputs.
    #[error("it spends {spent} sat and pays out {paid} sat")]
    NegativeFee {
        /// The sum of its inputs in sat.
        spent: u64,
        /// The sum of its outputs in sat.
        paid: u64,
    },
    /// The sum of its inputs or outputs exceeds 64 bits.
    #[error("the sum of its amounts exceeds 64 bits")]
    TooLarge,
}

/// Validates an arrival and builds its entry, without its number.
pub(super) fn checked(state: &MempoolState, arrival: Arrival) -> Result<Entry, AddError> {
    let Arrival { txid, wtxid, raw, mut prevouts, first_seen, height, cause } = arrival;
    if state.get(&txid).is_some() {
        return Err(AddError::Present);
    }
    let transaction = RawTransaction::parse_whole(&raw)?;
    if transaction.input_count() != prevouts.len() {
        return Err(AddError::PrevoutCount { inputs: transaction.input_count(), prevouts: prevouts.len() });
    }
    if transaction.is_coinbase() {
        return Err(AddError::Coinbase);
    }
    let mut seen = HashSet::with_capacity(prevouts.len());
    let mut spent = 0_u64;
    for (input, prevout) in transaction.inputs().zip(&mut prevouts) {
        let outpoint = outpoint(&input);
        if !seen.insert(outpoint) {
            return Err(AddError::DuplicateInput { outpoint });
        }
        if let Some((spender, _)) = state.spender(&outpoint) {
            return Err(AddError::Conflict { outpoint, spender: spender.txid });
        }
        match state.get(&outpoint.txid) {
            Some(parent) if outpoint.vout < parent.output_count => prevout.source = PrevoutSource::Unconfirmed,
            None if prevout.source != PrevoutSource::Unconfirmed => {}
            _ => return Err(AddError::MissingParent { outpoint }),
        }
        spent = spent.checked_add(prevout.value).ok_or(AddError::TooLarge)?;
    }
    let paid = transaction.outputs().try_fold(0_u64, |sum, output| sum.checked_add(output.value));
    let paid = paid.ok_or(AddError::TooLarge)?;
    let fee = spent.checked_sub(paid).ok_or(AddError::NegativeFee { spent, paid })?;
    let weight = wide(transaction.weight());
    let policy_weight = policy_weight(&transaction, || {
        Ok::<_, AddError>(prevouts.iter().map(|prevout| PrevoutRef::from(prevout).to_output()).collect())
    })?;
    let output_count = u32::try_from(transaction.output_count()).map_err(|_| AddError::TooLarge)?;
    Ok(Entry {
        txid,
        wtxid,
        raw,
        prevouts: prevouts.iter().collect(),
        fee,
        weight,
        policy_weight,
        output_value: paid,
        output_count,
        height,
        first_seen,
        sequence: 0,
        returned_from: if let Cause::Returned { block } = cause { Some(Box::new(block)) } else { None },
        loaded: cause == Cause::Loaded,
    })
}
