//! A transaction of the mempool with its fee, sizes and relatives.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{Amount, OutPoint, Transaction, Txid, Weight, Wtxid};

use crate::chain::Height;

/// Count, size and fees of several transactions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageSums {
    /// The number of transactions.
    pub count: u64,
    /// The sum of their virtual sizes, in vbytes.
    pub vsize: u64,
    /// The sum of their fees.
    pub fee: Amount,
}

impl PackageSums {
    pub(super) const NONE: PackageSums = PackageSums { count: 0, vsize: 0, fee: Amount::ZERO };

    // Fees come from coins that exist, so their sum is below 21 million coins.
    pub(super) fn add(&mut self, other: PackageSums) {
        self.count += other.count;
        self.vsize += other.vsize;
        self.fee += other.fee;
    }

    pub(super) fn take(&mut self, other: PackageSums) {
        self.count -= other.count;
        self.vsize -= other.vsize;
        self.fee -= other.fee;
    }
}

/// A transaction of the mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimMempoolEntry {
    /// The transaction.
    pub tx: Arc<Transaction>,
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// Its fee.
    pub fee: Amount,
    /// Its weight.
    pub weight: Weight,
    /// Its virtual size in vbytes, larger than a quarter of the weight if its signature operations cost more than that
    /// (`GetVirtualTransactionSize` of Core's `policy/policy.cpp`).
    pub vsize: u64,
    /// The cost of its signature operations (BIP141).
    pub sigops: usize,
    /// The number of transactions that entered the mempool before it.
    pub arrival: u64,
    /// The time of its entry, in seconds since 1970.
    pub time: u32,
    /// The height of the tip at its entry.
    pub height: Height,
    /// Whether it spends an output of a coinbase, which a reorganisation can make immature.
    pub spends_coinbase: bool,
    /// The transactions of the mempool whose outputs it spends.
    pub parents: BTreeSet<Txid>,
    /// The transactions of the mempool that spend its outputs.
    pub children: BTreeSet<Txid>,
    /// Its ancestors in the mempool, itself included.
    pub ancestors: PackageSums,
    /// Its descendants in the mempool, itself included.
    pub descendants: PackageSums,
}

impl SimMempoolEntry {
    /// The sums of the transaction alone.
    #[must_use]
    pub fn sums(&self) -> PackageSums {
        PackageSums { count: 1, vsize: self.vsize, fee: self.fee }
    }

    /// The outpoints that it spends.
    pub fn spends(&self) -> impl Iterator<Item = OutPoint> + '_ {
        self.tx.input.iter().map(|input| input.previous_output)
    }
}
