//! The unconfirmed transactions that a simulated node holds.
//!
//! ```text
//!   a transaction ──► accept   the verdict of a node, by its policy and its locks     policy, locks, rejection
//!                        │ Assessment
//!                     links    joins it to parents and children, keeps all sums right  entry
//!                        │
//!                     select   the transactions of the next block
//! ```
//!
//! Nothing here looks into scripts or asks whether outputs are of a standard type: whatever the consensus rules of
//! values, maturity and locks allow is taken when it pays enough. What happens to the mempool and why is decided by the
//! [`World`](super::World), which alone changes it.

mod accept;
mod entry;
mod links;
mod locks;
mod policy;
mod rejection;
mod select;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

use bitcoin::{Amount, OutPoint, TxOut, Txid, Weight};

pub use self::accept::Assessment;
pub(crate) use self::accept::FeeRule;
pub use self::entry::{Entry, Sums};
use self::locks::{is_final, relative_locks_are_over};
pub use self::policy::Policy;
use self::policy::fee_of;
pub(crate) use self::policy::rate_of;
pub use self::rejection::{ChainLimit, Rejection};
use super::{Coin, SimChain};

/// A map whose hasher has fixed keys, so that nothing depends on the operating system.
type Fixed<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// The transactions that wait for a block. No two of them spend the same output, and each input of them is unspent
/// at the tip or paid by another of them.
#[derive(Clone, Debug, Default)]
pub struct Mempool {
    policy: Policy,
    entries: Fixed<Txid, Entry>,
    spends: Fixed<OutPoint, Txid>,
    by_arrival: BTreeMap<u64, Txid>,
    arrivals: u64,
    totals: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    vsize: u64,
    weight: u64,
    fee: Amount,
}

impl Mempool {
    /// An empty mempool.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Mempool { policy, ..Mempool::default() }
    }

    /// What it takes.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How many transactions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
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

    /// Whether a transaction is here.
    #[must_use]
    pub fn contains(&self, txid: &Txid) -> bool {
        self.entries.contains_key(txid)
    }

    /// A transaction.
    #[must_use]
    pub fn get(&self, txid: &Txid) -> Option<&Entry> {
        self.entries.get(txid)
    }

    /// All transactions in the order in which they came. A transaction that returned from a block comes after what
    /// spends its outputs.
    #[must_use]
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.by_arrival.values().filter_map(|txid| self.entries.get(txid))
    }

    /// The transaction that spends an output.
    #[must_use]
    pub fn spender(&self, outpoint: &OutPoint) -> Option<&Entry> {
        self.entries.get(self.spends.get(outpoint)?)
    }

    /// An output that a transaction here pays, spent here or not.
    #[must_use]
    pub fn output(&self, outpoint: &OutPoint) -> Option<&TxOut> {
        let vout = usize::try_from(outpoint.vout).ok()?;
        self.entries.get(&outpoint.txid)?.tx.output.get(vout)
    }

    /// All that a transaction stands on here, without itself.
    #[must_use]
    pub fn ancestors(&self, txid: &Txid) -> BTreeSet<Txid> {
        self.reach(txid, |entry| &entry.parents)
    }

    /// All that stands on a transaction here, without itself.
    #[must_use]
    pub fn descendants(&self, txid: &Txid) -> BTreeSet<Txid> {
        self.reach(txid, |entry| &entry.children)
    }

    fn reach(&self, txid: &Txid, next: impl Fn(&Entry) -> &BTreeSet<Txid>) -> BTreeSet<Txid> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![*txid];
        while let Some(entry) = waiting.pop().and_then(|txid| self.entries.get(&txid)) {
            waiting.extend(next(entry).iter().filter(|txid| found.insert(**txid)));
        }
        found
    }

    /// The coin that an outpoint is for a transaction that enters now: paid here, as if by the next block, or unspent
    /// in the chain.
    fn coin(&self, chain: &SimChain, outpoint: &OutPoint) -> Option<Coin> {
        match self.output(outpoint) {
            Some(output) => Some(Coin { output: output.clone(), height: chain.height().next(), coinbase: false }),
            None => chain.coin(outpoint).cloned(),
        }
    }

    /// Whether the next block could hold an entry, after the chain was reorganised.
    pub(crate) fn still_holds(&self, chain: &SimChain, entry: &Entry) -> bool {
        let coins: Option<Vec<Coin>> = entry.spends().map(|outpoint| self.coin(chain, &outpoint)).collect();
        let next = chain.height().next();
        is_final(chain, &entry.tx)
            && coins.is_some_and(|coins| {
                coins.iter().all(|coin| coin.is_mature_at(next)) && relative_locks_are_over(chain, &entry.tx, &coins)
            })
    }
}
