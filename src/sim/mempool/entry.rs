//! A transaction of the mempool and what is known of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{Amount, OutPoint, Transaction, Txid, Weight, Wtxid};

use crate::chain::Height;

/// Transactions counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    /// How many they are.
    pub count: u64,
    /// Their virtual sizes.
    pub vsize: u64,
    /// Their fees.
    pub fee: Amount,
}

impl Sums {
    pub(super) const NONE: Sums = Sums { count: 0, vsize: 0, fee: Amount::ZERO };

    // What is added up here was unspent once, so all fees together are below 21 million coins.
    pub(super) fn add(&mut self, other: Sums) {
        self.count += other.count;
        self.vsize += other.vsize;
        self.fee += other.fee;
    }

    pub(super) fn take(&mut self, other: Sums) {
        self.count -= other.count;
        self.vsize -= other.vsize;
        self.fee -= other.fee;
    }
}

/// A transaction of the mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The transaction.
    pub tx: Arc<Transaction>,
    /// Its id.
    pub txid: Txid,
    /// Its id with witnesses.
    pub wtxid: Wtxid,
    /// What it pays.
    pub fee: Amount,
    /// Its weight.
    pub weight: Weight,
    /// Its virtual size in vbytes, larger than a quarter of the weight if its signature operations cost more than that
    /// (`GetVirtualTransactionSize` of Core's `policy/policy.cpp`).
    pub vsize: u64,
    /// The cost of its signature operations (BIP141).
    pub sigops: usize,
    /// How many transactions had entered the mempool before it did.
    pub arrival: u64,
    /// When it entered, in seconds since 1970.
    pub time: u32,
    /// The height of the tip when it entered.
    pub height: Height,
    /// Whether it spends an output of a coinbase, which a reorganisation can make immature.
    pub spends_coinbase: bool,
    /// The transactions of the mempool that it spends outputs of.
    pub parents: BTreeSet<Txid>,
    /// The transactions of the mempool that spend its outputs.
    pub children: BTreeSet<Txid>,
    /// All that it stands on in the mempool, itself included.
    pub ancestors: Sums,
    /// All that stands on it in the mempool, itself included.
    pub descendants: Sums,
}

impl Entry {
    /// The transaction alone.
    #[must_use]
    pub fn sums(&self) -> Sums {
        Sums { count: 1, vsize: self.vsize, fee: self.fee }
    }

    /// What it spends.
    pub fn spends(&self) -> impl Iterator<Item = OutPoint> + '_ {
        self.tx.input.iter().map(|input| input.previous_output)
    }
}
