//! Transactions that are submitted together, so that a child can pay for its parents (Core's `submitpackage`).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bitcoin::{Amount, Transaction, Txid};

use super::super::mempool::FeeRule;
use super::{Accepted, Happening, Rejection, World};

impl World {
    /// Takes a child and parents of it, the child last. Each is first taken by itself if it pays enough; those that do
    /// not are taken together, all or none of them, when their fees together are enough for their size together.
    ///
    /// The verdicts are in the order of the transactions, a transaction that the mempool has already being accepted. As
    /// Core has it since it has clusters, and before for version 3 alone (BIP431): a parent may pay less than the
    /// minimum, even nothing.
    pub fn submit_package(
        &mut self,
        transactions: Vec<Transaction>,
    ) -> Result<Vec<Result<Accepted, Rejection>>, Rejection> {
        let transactions: Vec<Arc<Transaction>> = transactions.into_iter().map(Arc::new).collect();
        check_topology(&transactions)?;
        let mut verdicts = Vec::new();
        let mut together: BTreeMap<usize, Arc<Transaction>> = BTreeMap::new();
        for (index, tx) in transactions.into_iter().enumerate() {
            let verdict = match self.submit(Arc::clone(&tx)) {
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
        // One alone was judged already, and is refused for good.
        if together.len() > 1 {
            for (index, verdict) in self.submit_together(together) {
                verdicts[index] = verdict;
            }
        }
        Ok(verdicts)
    }

    /// Takes all of these or none.
    fn submit_together(
        &mut self,
        transactions: BTreeMap<usize, Arc<Transaction>>,
    ) -> BTreeMap<usize, Result<Accepted, Rejection>> {
        let mut inserted: BTreeMap<usize, Txid> = BTreeMap::new();
        let (mut fee, mut vsize) = (Amount::ZERO, 0);
        let mut refused = None;
        for (index, tx) in &transactions {
            match self.mempool.assess(&self.chain, tx, FeeRule::Package) {
                Ok(assessed) => {
                    fee += assessed.fee;
                    vsize += assessed.vsize;
                    inserted.insert(*index, assessed.txid);
                    self.insert(Arc::clone(tx), assessed, self.chain.height());
                }
                Err(rejection) => refused = refused.or(Some((*index, rejection))),
            }
        }
        // Too little is blamed on the child.
        let last = transactions.keys().copied().last().unwrap_or_default();
        let refused = refused.or(self.mempool.is_paid_for(fee, vsize).err().map(|rejection| (last, rejection)));
        if let Some((refused, rejection)) = refused {
            self.mempool.remove_all(&inserted.into_values().collect());
            let verdict = |index| if index == refused { rejection.clone() } else { Rejection::PackageFailed };
            return transactions.into_keys().map(|index| (index, Err(verdict(index)))).collect();
        }
        for txid in inserted.values() {
            self.log.note(Happening::Arrived { txid: *txid });
        }
        inserted.into_iter().map(|(index, txid)| (index, Ok(Accepted { txid, replaced: BTreeSet::new() }))).collect()
    }
}

/// All but the last are parents of the last, and none twice (`IsChildWithParents` of Core's `policy/packages.cpp`).
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
