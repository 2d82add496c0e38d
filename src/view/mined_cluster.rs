//! The cluster of a confirmed transaction: those of its block that it spends or that spend it, and so on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::block::Block;
use super::{Transaction, View, corrupt};
use crate::index::{IndexError, TxNum};
use crate::mempool::PayingTransaction;

/// A transaction of a cluster, and the positions of those that it spends.
struct ClusterMember {
    transaction: Arc<Transaction>,
    parents: BTreeSet<TxNum>,
}

impl View {
    /// The cluster of a transaction in its block, in block order, and its place there. `None` for a coinbase, and for what is not on
    /// the active chain. `count` is called with each member before its relatives are looked up.
    ///
    /// Errors: those of the index, and those of `count`.
    pub fn mined_cluster<E: From<IndexError>>(
        &self,
        transaction: &Arc<Transaction>,
        mut count: impl FnMut(&Transaction) -> Result<(), E>,
    ) -> Result<Option<(Vec<PayingTransaction>, usize)>, E> {
        let Some(place) = transaction.place.filter(|place| place.fee.is_some()) else { return Ok(None) };
        let block = self.main_block(place.height)?;
        let within = paying(&block)?;
        let mut found: BTreeMap<TxNum, ClusterMember> = BTreeMap::new();
        let mut waiting = vec![(place.txnum, Arc::clone(transaction))];
        while let Some((txnum, transaction)) = waiting.pop() {
            if found.contains_key(&txnum) {
                continue;
            }
            count(&transaction)?;
            let (parents, children) = self.relatives(txnum, &transaction, &within)?;
            for relative in parents.iter().chain(&children).filter(|relative| !found.contains_key(relative)) {
                waiting.push((*relative, Arc::new(self.transaction_at(*relative)?)));
            }
            found.insert(txnum, ClusterMember { transaction, parents });
        }
        let places: BTreeMap<TxNum, usize> = found.keys().copied().zip(0..).collect();
        let own = places.get(&place.txnum).copied().unwrap_or_default();
        let member = |member: ClusterMember| {
            let ClusterMember { transaction, parents } = member;
            let fee = transaction.place.and_then(|place| place.fee);
            let fee = fee.ok_or_else(|| corrupt("transactions", format!("{} has no fee", transaction.txid)))?;
            let parents = parents.iter().filter_map(|parent| places.get(parent).copied()).collect();
            Ok(PayingTransaction { txid: transaction.txid, fee, weight: transaction.weight().to_wu(), parents })
        };
        let cluster: Result<Vec<_>, IndexError> = found.into_values().map(member).collect();
        Ok(Some((cluster?, own)))
    }

    /// The transactions at these positions that a transaction spends, and those that spend it.
    fn relatives(
        &self,
        txnum: TxNum,
        transaction: &Transaction,
        within: &Range<TxNum>,
    ) -> Result<(BTreeSet<TxNum>, BTreeSet<TxNum>), IndexError> {
        let (mut parents, mut children) = (BTreeSet::new(), BTreeSet::new());
        let spent: BTreeSet<_> = transaction.parts.input.iter().map(|input| input.previous_output.txid).collect();
        for txid in spent {
            // the copy that it spends is the newest in front of it (BIP30)
            let copy = self.positions(&txid)?.into_iter().rfind(|copy| *copy < txnum);
            parents.extend(copy.filter(|copy| within.contains(copy)));
        }
        for (_, vout) in transaction.parts.output.iter().zip(0..) {
            let spender = self.head.chain.spender(txnum, vout)?.map(|spender| spender.txnum);
            children.extend(spender.filter(|spender| within.contains(spender)));
        }
        Ok((parents, children))
    }
}

/// The positions of the transactions of a block behind its coinbase.
fn paying(block: &Block) -> Result<Range<TxNum>, IndexError> {
    Ok(TxNum(block.first_txnum()?.0.saturating_add(1))..block.end_txnum()?)
}
