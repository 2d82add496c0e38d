//! Admission of a transaction to the mempool, checked in the order of Core (`PreChecks` and `ReplacementChecks` of
//! `validation.cpp`), so that a transaction with several faults is refused for the same one.

use std::collections::{BTreeSet, HashSet};

use bitcoin::policy::MAX_STANDARD_TX_WEIGHT;
use bitcoin::{Amount, OutPoint, Transaction, Txid, Weight, Wtxid};

use super::super::utxo::total;
use super::super::{SimChain, SimCoin};
use super::locks::{is_final, relative_locks_are_over};
use super::policy::{Policy, fee_of, rate_of};
use super::rejection::{ChainLimit, Rejection};
use super::sim_mempool::SimMempool;
use crate::chain::Feerate;

/// The fewest bytes without witnesses (`MIN_STANDARD_TX_NONWITNESS_SIZE` of Core's `policy/policy.h`).
const MIN_NONWITNESS_SIZE: usize = 65;
/// The highest cost of signature operations (`MAX_STANDARD_TX_SIGOPS_COST` of Core's `policy/policy.h`).
const MAX_SIGOPS_COST: usize = 16_000;
/// The weight that a unit of that cost counts for (`DEFAULT_BYTES_PER_SIGOP`).
const WEIGHT_OF_SIGOP_COST: u64 = 20;
/// How many transactions a replacement may remove (`MAX_REPLACEMENT_CANDIDATES` of Core's `policy/rbf.h`).
const MAX_REPLACED: u64 = 100;
/// A transaction of at most this many vbytes with one unconfirmed parent may exceed its descendant limit by one, so
/// that either party of a contract can raise the fee (`EXTRA_DESCENDANT_TX_SIZE_LIMIT`).
const CARVE_OUT_VSIZE: u64 = 10_000;

/// The fee that a transaction must pay to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeeRule {
    /// The minimum of the policy, or more if it replaces others.
    Relay,
    /// None by itself, because a package pays for it; it replaces no other transaction.
    Package,
    /// None, because it was in a block.
    Returning,
}

/// A transaction that would be accepted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// Its fee.
    pub fee: Amount,
    /// Its weight.
    pub weight: Weight,
    /// Its virtual size in vbytes, as [`SimMempoolEntry::vsize`](super::SimMempoolEntry::vsize).
    pub vsize: u64,
    /// The cost of its signature operations.
    pub sigops: usize,
    /// The transactions that it would replace, in order of txids.
    pub replaced: BTreeSet<Txid>,
    pub(super) spends_coinbase: bool,
    pub(super) parents: BTreeSet<Txid>,
    pub(super) ancestors: BTreeSet<Txid>,
}

impl SimMempool {
    /// Whether a transaction would be accepted now. Errors: the reason why it would be refused.
    pub(crate) fn assess(&self, chain: &SimChain, tx: &Transaction, rule: FeeRule) -> Result<Assessment, Rejection> {
        check_alone(tx)?;
        let (txid, wtxid, weight) = (tx.compute_txid(), tx.compute_wtxid(), tx.weight());
        if weight.to_wu() > u64::from(MAX_STANDARD_TX_WEIGHT) {
            return Err(Rejection::TooHeavy);
        }
        if tx.base_size() < MIN_NONWITNESS_SIZE {
            return Err(Rejection::TooSmall);
        }
        if !is_final(chain, tx) {
            return Err(Rejection::NonFinal);
        }
        if let Some(entry) = self.entries.get(&txid) {
            let same = entry.wtxid == wtxid;
            return Err(if same { Rejection::AlreadyInMempool } else { Rejection::SameButWitness });
        }
        let outpoints = || tx.input.iter().map(|input| input.previous_output);
        let conflicts: BTreeSet<Txid> =
            outpoints().filter_map(|outpoint| self.spends.get(&outpoint).copied()).collect();
        if rule == FeeRule::Package && !conflicts.is_empty() {
            return Err(Rejection::ReplacementInPackage);
        }

        let mut coins = Vec::with_capacity(tx.input.len());
        for outpoint in outpoints() {
            let Some(coin) = self.coin(chain, &outpoint) else {
                let known = (0..).zip(&tx.output).any(|(vout, _)| chain.coin(&OutPoint { txid, vout }).is_some());
                return Err(if known { Rejection::AlreadyInChain } else { Rejection::MissingInputs(outpoint) });
            };
            coins.push(coin);
        }
        if !relative_locks_are_over(chain, tx, &coins) {
            return Err(Rejection::NonBip68Final);
        }
        let fee = fee_paid(chain, tx, &coins)?;
        let of_outpoint = |outpoint: &OutPoint| {
            let spent = outpoints().position(|spent| spent == *outpoint);
            spent.map(|index| coins[index].output.clone())
        };
        let sigops = tx.total_sigop_cost(of_outpoint);
        if sigops > MAX_SIGOPS_COST {
            return Err(Rejection::TooManySigops(sigops));
        }
        let sigops_weight = u64::try_from(sigops).unwrap_or(u64::MAX).saturating_mul(WEIGHT_OF_SIGOP_COST);
        let vsize = weight.to_wu().max(sigops_weight).div_ceil(4);
        let required = fee_of(self.policy.min_relay, vsize);
        if rule == FeeRule::Relay && fee < required {
            return Err(Rejection::BelowMinRelay { fee, required });
        }

        let parents: BTreeSet<Txid> =
            outpoints().map(|outpoint| outpoint.txid).filter(|txid| self.entries.contains_key(txid)).collect();
        let ancestors = self.ancestors_within_limits(&parents, vsize, &conflicts)?;
        if let Some(conflict) = ancestors.intersection(&conflicts).next() {
            return Err(Rejection::SpendsConflict { txid, conflict: *conflict });
        }
        let spends_coinbase = coins.iter().any(|coin| coin.coinbase);
        let replaced = BTreeSet::new();
        let mut assessment =
            Assessment { txid, wtxid, fee, weight, vsize, sigops, replaced, spends_coinbase, parents, ancestors };
        if !conflicts.is_empty() {
            assessment.replaced = self.replaced_by(tx, &assessment, &conflicts)?;
        }
        if self.entries.len() - assessment.replaced.len() >= self.policy.max_transactions {
            return Err(Rejection::MempoolFull);
        }
        Ok(assessment)
    }

    /// The ancestors of a transaction with these parents. Errors: it would exceed a limit on chains of unconfirmed
    /// transactions (Core's `CalculateMemPoolAncestors`).
    fn ancestors_within_limits(
        &self,
        parents: &BTreeSet<Txid>,
        vsize: u64,
        conflicts: &BTreeSet<Txid>,
    ) -> Result<BTreeSet<Txid>, Rejection> {
        let mut limits = self.policy;
        // The replaced transaction does not count. For several conflicts Core does not make this correction.
        if let (1, Some(conflict)) = (conflicts.len(), conflicts.first().and_then(|txid| self.entries.get(txid))) {
            limits.descendant_count += 1;
            limits.descendant_vsize += conflict.descendants.vsize;
        }
        let found = self.ancestors_within(parents, vsize, &limits);
        let refused = match found {
            Ok(found) => return Ok(found),
            Err(refused) => Rejection::TooLongChain(refused),
        };
        if vsize > CARVE_OUT_VSIZE {
            return Err(refused);
        }
        limits.ancestor_count = 2;
        limits.descendant_count += 1;
        limits.descendant_vsize += CARVE_OUT_VSIZE;
        self.ancestors_within(parents, vsize, &limits).map_err(|_| refused)
    }

    fn ancestors_within(
        &self,
        parents: &BTreeSet<Txid>,
        vsize: u64,
        limits: &Policy,
    ) -> Result<BTreeSet<Txid>, ChainLimit> {
        if parents.len() + 1 > limits.ancestor_count {
            return Err(ChainLimit::Parents(limits.ancestor_count));
        }
        let mut waiting = parents.clone();
        let mut found = BTreeSet::new();
        let mut ancestor_vsize = vsize;
        while let Some(entry) = waiting.pop_first().and_then(|txid| self.entries.get(&txid)) {
            found.insert(entry.txid);
            ancestor_vsize += entry.vsize;
            if entry.descendants.vsize + vsize > limits.descendant_vsize {
                return Err(ChainLimit::DescendantSize(entry.txid, limits.descendant_vsize));
            }
            let most = u64::try_from(limits.descendant_count).unwrap_or(u64::MAX);
            if entry.descendants.count >= most {
                return Err(ChainLimit::Descendants(entry.txid, limits.descendant_count));
            }
            if ancestor_vsize > limits.ancestor_vsize {
                return Err(ChainLimit::AncestorSize(limits.ancestor_vsize));
            }
            waiting.extend(entry.parents.iter().filter(|txid| !found.contains(*txid)));
            if waiting.len() + found.len() + 1 > limits.ancestor_count {
                return Err(ChainLimit::Ancestors(limits.ancestor_count));
            }
        }
        Ok(found)
    }

    /// All transactions that a replacement removes: its conflicts and their descendants. No transaction needs to signal
    /// replaceability.
    fn replaced_by(
        &self,
        tx: &Transaction,
        new: &Assessment,
        conflicts: &BTreeSet<Txid>,
    ) -> Result<BTreeSet<Txid>, Rejection> {
        let txid = new.txid;
        let direct = || conflicts.iter().filter_map(|txid| self.entries.get(txid));
        let rate: Feerate = rate_of(new.fee, new.vsize);
        for conflict in direct() {
            let old = rate_of(conflict.fee, conflict.vsize);
            if rate <= old {
                return Err(Rejection::FeerateNotHigher { txid, new: rate, old });
            }
        }
        let count = direct().map(|conflict| conflict.descendants.count).sum();
        if count > MAX_REPLACED {
            return Err(Rejection::TooManyReplacements { txid, count });
        }
        let spent_before: HashSet<Txid> =
            direct().flat_map(super::SimMempoolEntry::spends).map(|outpoint| outpoint.txid).collect();
        let added = tx.input.iter().map(|input| input.previous_output.txid);
        let added = added.enumerate().find(|(_, txid)| new.parents.contains(txid) && !spent_before.contains(txid));
        if let Some((input, _)) = added {
            return Err(Rejection::AddsUnconfirmed { txid, input });
        }
        let replaced: BTreeSet<Txid> =
            conflicts.iter().flat_map(|txid| self.descendants(txid)).chain(conflicts.iter().copied()).collect();
        let fees: Amount = replaced.iter().filter_map(|txid| self.entries.get(txid)).map(|entry| entry.fee).sum();
        let Some(additional) = new.fee.checked_sub(fees) else {
            return Err(Rejection::FeeBelowReplaced { txid, fee: new.fee, replaced: fees });
        };
        let required = fee_of(self.policy.incremental, new.vsize);
        if additional < required {
            return Err(Rejection::FeeBelowIncrement { txid, additional, required });
        }
        Ok(replaced)
    }

    /// Whether this fee for this many vbytes meets the minimum of the policy.
    pub(crate) fn is_paid_for(&self, fee: Amount, vsize: u64) -> Result<(), Rejection> {
        let required = fee_of(self.policy.min_relay, vsize);
        if fee < required { Err(Rejection::BelowMinRelay { fee, required }) } else { Ok(()) }
    }
}

/// The rules that do not depend on the spent outputs (Core's `CheckTransaction`); a coinbase is refused.
fn check_alone(tx: &Transaction) -> Result<(), Rejection> {
    if tx.input.is_empty() {
        return Err(Rejection::NoInputs);
    }
    if tx.output.is_empty() {
        return Err(Rejection::NoOutputs);
    }
    let base_weight = u64::try_from(tx.base_size()).unwrap_or(u64::MAX).saturating_mul(4);
    if base_weight > Weight::MAX_BLOCK.to_wu() {
        return Err(Rejection::Oversized);
    }
    if tx.output.iter().any(|output| output.value > Amount::MAX_MONEY) {
        return Err(Rejection::OutputTooLarge);
    }
    if total(&tx.output) > Amount::MAX_MONEY {
        return Err(Rejection::OutputsTooLarge);
    }
    let mut spent = HashSet::new();
    if !tx.input.iter().all(|input| spent.insert(input.previous_output)) {
        return Err(Rejection::DuplicateInputs);
    }
    if tx.is_coinbase() {
        return Err(Rejection::Coinbase);
    }
    if tx.input.iter().any(|input| input.previous_output.is_null()) {
        return Err(Rejection::NullInput);
    }
    Ok(())
}

/// The fee of a transaction that spends these coins in the next block (Core's `CheckTxInputs`).
fn fee_paid(chain: &SimChain, tx: &Transaction, coins: &[SimCoin]) -> Result<Amount, Rejection> {
    let next = chain.height().next();
    if let Some(coin) = coins.iter().find(|coin| !coin.is_mature_at(next)) {
        let depth = next.to_u32().saturating_sub(coin.height.to_u32());
        return Err(Rejection::Immature { depth, created: coin.height });
    }
    // Unspent values add up to less than 21 million coins.
    let spent: Amount = coins.iter().map(|coin| coin.output.value).sum();
    let paid = total(&tx.output);
    spent.checked_sub(paid).ok_or(Rejection::Overspent { spent, paid })
}
