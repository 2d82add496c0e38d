//! Figures of a transaction that need all outputs that it spends, and the proofs that need a whole block.

use std::sync::Arc;

use async_graphql::Context;

use super::TransactionFeature;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::scalars::Hex;
use crate::api::types::block::{MerkleProofObject, WtxidProofObject};
use crate::chain::float::to_f64;
use crate::chain::{self, StructuralFeature, adjusted_vsize};
use crate::view::{FundedOutput, Transaction, View};

const SECONDS_A_DAY: f64 = 86_400.0;
const SAT_A_BITCOIN: f64 = 100_000_000.0;

/// All outputs that a transaction spends.
fn spent_outputs(
    ctx: &Context<'_>,
    view: &View,
    transaction: &Transaction,
) -> Result<Vec<Option<FundedOutput>>, ApiError> {
    let inputs = transaction.parts.input.len();
    costs::spend(ctx, inputs)?;
    view.spent_outputs(transaction, 0..inputs)
}

/// The sigop cost, `None` if a spent output is not known.
pub(crate) fn sigop_cost(ctx: &Context<'_>, view: &View, transaction: &Transaction) -> Result<Option<u64>, ApiError> {
    Ok(transaction.sigop_cost(&spent_outputs(ctx, view, transaction)?))
}

/// The virtual size by which policy judges a transaction, `None` if a spent output is not known.
pub(crate) fn vsize_with_sigops(
    ctx: &Context<'_>,
    view: &View,
    transaction: &Transaction,
) -> Result<Option<u64>, ApiError> {
    let cost = sigop_cost(ctx, view, transaction)?;
    Ok(cost.map(|cost| adjusted_vsize(transaction.weight(), cost)))
}

/// The features, `None` if a spent output is not known.
pub(crate) fn features(
    ctx: &Context<'_>,
    view: &View,
    transaction: &Transaction,
) -> Result<Option<Vec<TransactionFeature>>, ApiError> {
    costs::spend(ctx, transaction.parts.input.len())?;
    // witnesses are copied
    view.count(transaction.raw().len())?;
    Ok(known_features(view, transaction)?.map(|found| found.into_iter().map(TransactionFeature::from).collect()))
}

/// Whether a transaction has all of these features. One that spends an output that is not known has none that depends on it.
pub(crate) fn has_features(
    ctx: &Context<'_>,
    view: &View,
    transaction: &Transaction,
    wanted: &[TransactionFeature],
) -> Result<bool, ApiError> {
    let mut wanted = wanted.iter().copied().map(StructuralFeature::from);
    if !wanted.clone().all(|feature| feature.may_be_of(&transaction.parts)) {
        return Ok(false);
    }
    if !wanted.clone().any(StructuralFeature::needs_prevouts) {
        return Ok(true);
    }
    costs::spend(ctx, transaction.parts.input.len())?;
    let found = known_features(view, transaction)?;
    Ok(found.is_some_and(|found| wanted.all(|feature| found.contains(&feature))))
}

fn known_features(view: &View, transaction: &Transaction) -> Result<Option<Vec<StructuralFeature>>, ApiError> {
    let parts = &transaction.parts;
    if parts.is_coinbase() {
        return Ok(Some(chain::features(parts, &[])));
    }
    let prevouts = view.prevouts::<ApiError>(transaction, 0..parts.input.len())?;
    let prevouts: Option<Vec<_>> = prevouts.into_iter().collect();
    Ok(prevouts.map(|prevouts| chain::features(parts, &prevouts)))
}

/// Bitcoin times days, `None` unless the transaction is on the main chain.
pub(crate) fn coin_days(ctx: &Context<'_>, view: &View, transaction: &Transaction) -> Result<Option<f64>, ApiError> {
    if transaction.place.is_none() {
        return Ok(None);
    }
    let spent = spent_outputs(ctx, view, transaction)?;
    // the rows of the blocks that created them
    costs::spend(ctx, spent.len())?;
    Ok(view.coin_age(transaction, &spent)?.map(in_coin_days))
}

/// Satoshis times seconds, in bitcoin times days.
pub(crate) fn in_coin_days(coin_age: u128) -> f64 {
    to_f64(coin_age) / SAT_A_BITCOIN / SECONDS_A_DAY
}

/// The merkle proof of a transaction, `None` unless it is on the main chain.
pub(crate) fn merkle_proof(
    ctx: &Context<'_>,
    view: &View,
    transaction: &Transaction,
) -> Result<Option<MerkleProofObject>, ApiError> {
    let Some(place) = transaction.place else { return Ok(None) };
    let block = view.main_block(place.height)?;
    let transactions = block.row.transactions;
    let proof = view.merkle_proof(block, place.index, || count_txids(ctx, view, transactions))?;
    MerkleProofObject::new(&proof).map(Some)
}

/// The merkle proof in the serialisation of BIP37, `None` unless the transaction is on the main chain.
pub(crate) fn merkle_block(ctx: &Context<'_>, view: &View, transaction: &Transaction) -> Result<Option<Hex>, ApiError> {
    let Some(place) = transaction.place else { return Ok(None) };
    let block = view.main_block(place.height)?;
    view.merkle_block(&block, place.index, || count_txids(ctx, view, block.row.transactions)).map(Hex::new).map(Some)
}

/// The proof of the wtxid, `None` unless the transaction is on the main chain in a block that commits to witnesses.
pub(crate) fn wtxid_proof(
    ctx: &Context<'_>,
    view: &Arc<View>,
    transaction: &Transaction,
) -> Result<Option<WtxidProofObject>, ApiError> {
    let Some(place) = transaction.place else { return Ok(None) };
    let block = view.main_block(place.height)?;
    let size = block.row.size.try_into().unwrap_or(usize::MAX);
    let proof = view.wtxid_proof::<ApiError>(block, place.index, || {
        costs::spend(ctx, costs::WHOLE_BLOCK)?;
        Ok(view.count(size)?)
    })?;
    // the coinbase is in each proof
    view.count(proof.as_ref().map_or(0, |proof| proof.coinbase.len()))?;
    proof.map(WtxidProofObject::new).transpose()
}

/// Counts all txids of a block, which are read and hashed.
fn count_txids(ctx: &Context<'_>, view: &View, transactions: u32) -> Result<(), ApiError> {
    costs::spend(ctx, costs::PROOF)?;
    Ok(view.count(usize::try_from(transactions).unwrap_or(usize::MAX).saturating_mul(32))?)
}
