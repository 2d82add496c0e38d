//! The unconfirmed transactions, and how they are found.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

use bitcoin::{Amount, OutPoint, TxOut, Txid, Weight};

use super::entry::SimMempoolEntry;
use super::locks::{is_final, relative_locks_are_over};
use super::policy::Policy;
use crate::sim::{SimChain, SimCoin};

/// A map whose hasher has fixed keys, so that its order does not depend on the operating system.
pub(super) type FixedHashMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// The unconfirmed transactions. No two of them spend the same output, and each of their inputs is unspent at the tip
/// or an output of another of them.
#[derive(Clone, Debug, Default)]
pub struct SimMempool {
    pub(super) policy: Policy,
    pub(super) entries: FixedHashMap<Txid, SimMempoolEntry>,
    pub(super) spends: FixedHashMap<OutPoint, Txid>,
    pub(super) by_arrival: BTreeMap<u64, Txid>,
    pub(super) arrivals: u64,
    pub(super) totals: SimMempoolTotals,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SimMempoolTotals {
    pub(super) vsize: u64,
    pub(super) weight: u64,
    pub(super) fee: Amount,
}

impl SimMempool {
    /// An empty mempool.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        SimMempool { policy, ..SimMempool::default() }
    }

    /// The policy for admission.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The number of transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no transactions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The virtual size of all transactions, in vbytes.
    #[must_use]
    pub fn vsize(&self) -> u64 {
        self.totals.vsize
    }

    /// The weight of all transactions.
    #[must_use]
    pub fn weight(&self) -> Weight {
        Weight::from_wu(self.totals.weight)
    }

    /// The fees of all transactions.
    #[must_use]
    pub fn fees(&self) -> Amount {
        self.totals.fee
    }

    /// Whether a transaction is in the mempool.
    #[must_use]
    pub fn contains(&self, txid: &Txid) -> bool {
        self.entries.contains_key(txid)
    }

    /// A transaction.
    #[must_use]
    pub fn get(&self, txid: &Txid) -> Option<&SimMempoolEntry> {
        self.entries.get(txid)
    }

    /// All transactions in the order of their arrival. A transaction that returned from a block comes after those that
    /// spend its outputs.
    #[must_use]
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &SimMempoolEntry> {
        self.by_arrival.values().filter_map(|txid| self.entries.get(txid))
    }

    /// The transaction that spends an output.
    #[must_use]
    pub fn spender(&self, outpoint: &OutPoint) -> Option<&SimMempoolEntry> {
        self.entries.get(self.spends.get(outpoint)?)
    }

    /// An output of a transaction of the mempool, whether another spends it or not.
    #[must_use]
    pub fn output(&self, outpoint: &OutPoint) -> Option<&TxOut> {
        let vout = usize::try_from(outpoint.vout).ok()?;
        self.entries.get(&outpoint.txid)?.tx.output.get(vout)
    }

    /// The ancestors of a transaction, without itself.
    #[must_use]
    pub fn ancestors(&self, txid: &Txid) -> BTreeSet<Txid> {
        self.reach(txid, |entry| &entry.parents)
    }

    /// The descendants of a transaction, without itself.
    #[must_use]
    pub fn descendants(&self, txid: &Txid) -> BTreeSet<Txid> {
        self.reach(txid, |entry| &entry.children)
    }

    fn reach(&self, txid: &Txid, next: impl Fn(&SimMempoolEntry) -> &BTreeSet<Txid>) -> BTreeSet<Txid> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![*txid];
        while let Some(entry) = waiting.pop().and_then(|txid| self.entries.get(&txid)) {
            waiting.extend(next(entry).iter().filter(|txid| found.insert(**txid)));
        }
        found
    }

    /// The coin of an outpoint for a transaction that enters now: an output of the mempool, as if of the next block, or
    /// one that is unspent in the chain.
    pub(super) fn coin(&self, chain: &SimChain, outpoint: &OutPoint) -> Option<SimCoin> {
        match self.output(outpoint) {
            Some(output) => Some(SimCoin { output: output.clone(), height: chain.height().next(), coinbase: false }),
            None => chain.coin(outpoint).cloned(),
        }
    }

    /// Whether an entry is still valid for the next block, after a reorganisation.
    pub(crate) fn is_still_valid(&self, chain: &SimChain, entry: &SimMempoolEntry) -> bool {
        let coins: Option<Vec<SimCoin>> = entry.spends().map(|outpoint| self.coin(chain, &outpoint)).collect();
        let next = chain.height().next();
        is_final(chain, &entry.tx)
            && coins.is_some_and(|coins| {
                coins.iter().all(|coin| coin.is_mature_at(next)) && relative_locks_are_over(chain, &entry.tx, &coins)
            })
    }
}
