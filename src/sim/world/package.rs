//! Packages: transactions that are submitted together, so that a child can pay for its parents (Core's
//! `submitpackage`).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bitcoin::{Amount, Transaction, Txid, Weight};

use super::super::mempool::{FeeRule, rate_of};
use super::super::{Assessment, Rejection};
use super::event::WorldEvent;
use super::world::{Accepted, World};
use crate::chain::Feerate;

/// The most transactions of a package, and the most weight of all together (`MAX_PACKAGE_COUNT` and
/// `MAX_PACKAGE_WEIGHT` of Core's `policy/packages.h`).
const MAX_COUNT: usize = 25;
const MAX_WEIGHT: Weight = Weight::from_wu(404_000);

impl World {
    /// Submits a child and parents of it, the child last. Each is first accepted by itself if it pays enough; the
    /// others are accepted together, all or none of them, if their total fee is enough for their total size.
    ///
    /// The verdicts are in the order of the transactions; a transaction that is already in the mempool counts as
    /// accepted. A parent may pay less than the minimum, even nothing, as in Core since cluster mempool, and before for
    /// version 3 alone (BIP431).
    pub fn submit_package(
        &mut self,
        transactions: Vec<Transaction>,
    ) -> Result<Vec<Result<Accepted, Rejection>>, Rejection> {
        self.submit_package_within(transactions, None)
    }

    /// Submits a package as [`submit_package`](World::submit_package), where no transaction may pay a feerate above
    /// `highest`.
    pub fn submit_package_within(
        &mut self,
        transactions: Vec<Transaction>,
        highest: Option<Feerate>,
    ) -> Result<Vec<Result<Accepted, Rejection>>, Rejection> {
        let transactions: Vec<Arc<Transaction>> = transactions.into_iter().map(Arc::new).collect();
        check_topology(&transactions)?;
        let mut verdicts = Vec::new();
        let mut together: BTreeMap<usize, Arc<Transaction>> = BTreeMap::new();
        for (index, tx) in transactions.into_iter().enumerate() {
            let affordable = self.check(&tx).and_then(|found| is_affordable(&found, highest));
            let verdict = match affordable.and_then(|()| self.submit(Arc::clone(&tx))) {
                Err(Rejection::AlreadyInMempool) => Ok(Accepted { txid: tx.compute_txid(), replaced: BTreeSet::new() }),
                verdict => verdict,
            };
            if let Err(rejection) = &verdict
                && (rejection.is_for_fee()
                    || (!together.is_empty() && matches!(rejection, Rejection::MissingInputs(_))))
            {
                together.insert(index, tx);
            }
            verdicts.push(verdict);
        }
        // A single one has its final verdict already.
        if together.len() > 1 {
            for (index, verdict) in self.submit_together(&together, highest) {
                verdicts[index] = verdict;
            }
        }
        Ok(verdicts)
    }

    /// Whether these transactions, each of which may spend those before it, would be accepted together, as Core's
    /// `testmempoolaccept` of several: all have a verdict, or the first refused one has one and the others have none.
    /// None of them may replace a transaction of the mempool. Errors: the reason why they are no package.
    pub fn check_package(
        &mut self,
        transactions: &[Transaction],
    ) -> Result<Vec<Option<Result<Assessment, Rejection>>>, &'static str> {
        check_form(transactions)?;
        let mut assessed = Vec::new();
        let mut refused = None;
        for tx in transactions {
            match self.check(tx) {
                Ok(found) if found.replaced.is_empty() => {
                    self.insert(Arc::new(tx.clone()), found.clone(), self.chain.height());
                    assessed.push(found);
                }
                Ok(_) => refused = Some(Rejection::ReplacementInPackage),
                Err(rejection) => refused = Some(rejection),
            }
            if refused.is_some() {
                break;
            }
        }
        // they were inserted only for the transactions that spend them
        self.mempool.remove_all(&assessed.iter().map(|found| found.txid).collect());
        Ok(match refused {
            None => assessed.into_iter().map(|found| Some(Ok(found))).collect(),
            Some(rejection) => {
                let mut verdicts: Vec<_> = transactions.iter().map(|_| None).collect();
                if let Some(verdict) = verdicts.get_mut(assessed.len()) {
                    *verdict = Some(Err(rejection));
                }
                verdicts
            }
        })
    }

    /// Accepts all of these or none. If none, only the one that causes the refusal gets a new verdict.
    fn submit_together(
        &mut self,
        transactions: &BTreeMap<usize, Arc<Transaction>>,
        highest: Option<Feerate>,
    ) -> BTreeMap<usize, Result<Accepted, Rejection>> {
        let mut inserted: BTreeMap<usize, Txid> = BTreeMap::new();
        let (mut fee, mut vsize) = (Amount::ZERO, 0);
        let mut refused = None;
        for (index, tx) in transactions {
            let assessed = self.mempool.assess(&self.chain, tx, FeeRule::Package);
            match assessed.and_then(|found| is_affordable(&found, highest).map(|()| found)) {
                Ok(assessed) => {
                    fee += assessed.fee;
                    vsize += assessed.vsize;
                    inserted.insert(*index, assessed.txid);
                    self.insert(Arc::clone(tx), assessed, self.chain.height());
                }
                Err(rejection) => refused = refused.or(Some((*index, rejection))),
            }
        }
        // A total fee that is too low is attributed to the child.
        let last = transactions.keys().copied().last().unwrap_or_default();
        let refused = refused.or(self.mempool.is_paid_for(fee, vsize).err().map(|rejection| (last, rejection)));
        if let Some((refused, rejection)) = refused {
            self.mempool.remove_all(&inserted.into_values().collect());
            return BTreeMap::from([(refused, Err(rejection))]);
        }
        for txid in inserted.values() {
            self.log.push(WorldEvent::Arrived { txid: *txid });
        }
        inserted.into_iter().map(|(index, txid)| (index, Ok(Accepted { txid, replaced: BTreeSet::new() }))).collect()
    }
}

fn is_affordable(found: &Assessment, highest: Option<Feerate>) -> Result<(), Rejection> {
    let rate = rate_of(found.fee, found.vsize);
    if highest.is_some_and(|highest| rate > highest) { Err(Rejection::AboveMaxFeerate) } else { Ok(()) }
}

/// Checks that several transactions form a package (`IsWellFormedPackage` of Core's `policy/packages.cpp`).
fn check_form(transactions: &[Transaction]) -> Result<(), &'static str> {
    if transactions.len() > MAX_COUNT {
        return Err("package-too-many-transactions");
    }
    if transactions.len() > 1 && transactions.iter().map(Transaction::weight).sum::<Weight>() > MAX_WEIGHT {
        return Err("package-too-large");
    }
    let mut later: HashSet<Txid> = transactions.iter().map(Transaction::compute_txid).collect();
    if later.len() != transactions.len() {
        return Err("package-contains-duplicates");
    }
    for tx in transactions {
        if tx.input.iter().any(|input| later.contains(&input.previous_output.txid)) {
            return Err("package-not-sorted");
        }
        later.remove(&tx.compute_txid());
    }
    let mut spent = HashSet::new();
    // a transaction that spends an output twice is refused by itself
    let of = |tx: &Transaction| tx.input.iter().map(|input| input.previous_output).collect::<HashSet<_>>();
    if transactions.iter().flat_map(of).all(|outpoint| spent.insert(outpoint)) {
        Ok(())
    } else {
        Err("conflict-in-package")
    }
}

/// Checks that all but the last are distinct parents of the last (`IsChildWithParents` of Core's
/// `policy/packages.cpp`).
fn check_topology(transactions: &[Arc<Transaction>]) -> Result<(), Rejection> {
    let Some((child, parents)) = transactions.split_last() else { return Err(Rejection::NotChildWithParents) };
    let spent: HashSet<Txid> = child.input.iter().map(|input| input.previous_output.txid).collect();
    let mut seen = HashSet::new();
    let is_parent = |tx: &Arc<Transaction>| {
        let txid = tx.compute_txid();
        spent.contains(&txid) && seen.insert(txid)
    };
    if parents.iter().all(is_parent) { Ok(()) } else { Err(Rejection::NotChildWithParents) }
}
