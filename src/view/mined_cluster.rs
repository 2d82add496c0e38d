//! The cluster of a confirmed transaction: those of its block that it spends or that spend it, and so on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::block::Block;
use super::{BudgetExceeded, Transaction, View};
use crate::index::{IndexError, TxNum};
use crate::mempool::MinedTransaction;

/// A transaction of a cluster, and the positions of those that it spends.
struct ClusterMember {
    transaction: Arc<Transaction>,
    parents: BTreeSet<TxNum>,
}

/// The most transactions of a cluster that is searched from one of them. A larger one is found faster in the whole block.
const MOST_MEMBERS: usize = 16;
/// The most inputs and outputs of its transactions, each of which is looked up.
pub const MOST_PARTS: usize = 100;

/// Where a transaction is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MinedCluster {
    /// The transactions of the cluster in block order, and the place of this one.
    Found(Vec<MinedTransaction>, usize),
    /// The cluster has too many transactions, inputs and outputs to be searched one by one.
    Large,
}

impl View {
    /// The cluster of a transaction in its block. `None` for a coinbase, and for what is not on the active chain. `count` is called
    /// for each transaction before its relatives are looked up, with the number of its inputs and outputs, and its bytes.
    ///
    /// Errors: those of the index, those of `count`, and the byte budget.
    pub fn mined_cluster<E>(
        &self,
        transaction: &Arc<Transaction>,
        mut count: impl FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<Option<MinedCluster>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let Some(place) = transaction.place.filter(|place| place.fee.is_some()) else { return Ok(None) };
        let within = paying(&self.main_block(place.height)?)?;
        let mut found: BTreeMap<TxNum, ClusterMember> = BTreeMap::new();
        // each once, however many lead to it
        let (mut known, mut waiting) = (BTreeSet::from([place.txnum]), vec![place.txnum]);
        let mut parts = 0_usize;
        while let Some(txnum) = waiting.pop() {
            let member =
                if txnum == place.txnum { Arc::clone(transaction) } else { Arc::new(self.transaction_at(txnum)?) };
            let own_parts = member.parts.input.len().saturating_add(member.parts.output.len());
            parts = parts.saturating_add(own_parts);
            if parts > MOST_PARTS {
                return Ok(Some(MinedCluster::Large));
            }
            count(own_parts, member.raw().len())?;
            let (parents, children) = self.relatives(txnum, &member, &within)?;
            waiting.extend(parents.iter().chain(&children).filter(|relative| known.insert(**relative)));
            if known.len() > MOST_MEMBERS {
                return Ok(Some(MinedCluster::Large));
            }
            found.insert(txnum, ClusterMember { transaction: member, parents });
        }
        let places: BTreeMap<TxNum, usize> = found.keys().copied().zip(0..).collect();
        let own = places.get(&place.txnum).copied().unwrap_or_default();
        let member = |member: ClusterMember| {
            let ClusterMember { transaction, parents } = member;
            let fee = transaction.place.and_then(|place| place.fee);
            let fee =
                fee.ok_or_else(|| IndexError::corrupt("transactions", format!("{} has no fee", transaction.txid)))?;
            let parents = parents.iter().filter_map(|parent| places.get(parent).copied()).collect();
            let policy_weight = self.policy_weight::<E>(&transaction)?;
            Ok(MinedTransaction { txid: transaction.txid, fee, policy_weight, parents })
        };
        let cluster: Result<Vec<_>, E> = found.into_values().map(member).collect();
        Ok(Some(MinedCluster::Found(cluster?, own)))
    }

    /// The transactions at these positions that a transaction spends, and those that spend it.
    fn relatives(
        &self,
        txnum: TxNum,
        transaction: &Transaction,
        within: &Range<TxNum>,
    ) -> Result<(BTreeSet<TxNum>, BTreeSet<TxNum>), IndexError> {
        // as `block_contents` finds them, by the txids of the block
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
