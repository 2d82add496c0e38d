//! Transactions that a client submits: what the index and the mempool know of them, and which conflicts they have.
//!
//! The node judges; this explains its verdict from a state of this server, which may be slightly older or newer than the
//! node's.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bitcoin::{OutPoint, Txid};

use super::transaction::wtxid_of;
use super::{Transaction, TransactionParts, View};
use crate::chain::{Feerate, vsize};
use crate::index::IndexError;
use crate::mempool::Entry;

/// What prevents the acceptance of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// The outputs that it spends and that do not exist, or that another transaction of the active chain spends; in the
    /// order of its inputs.
    pub missing: Vec<OutPoint>,
    /// The other transactions of the active chain and of the mempool that spend the same outputs, in the order of txids.
    pub conflicting: BTreeSet<Txid>,
}

impl View {
    /// Whether the active chain or the mempool contains a transaction with this txid.
    pub fn contains(&self, txid: &Txid) -> Result<bool, IndexError> {
        Ok(self.mempool().get(txid).is_some() || self.is_confirmed(txid)?)
    }

    /// Whether the active chain contains a transaction with this txid.
    pub fn is_confirmed(&self, txid: &Txid) -> Result<bool, IndexError> {
        Ok(self.latest_position(txid)?.is_some())
    }

    /// A transaction that a client submitted, with what the index and the mempool know of it. If the known one has the same
    /// bytes, it is that one; otherwise it has the submitted witnesses and `submitted_as`.
    pub fn submitted(&self, parts: bitcoin::Transaction, raw: Vec<u8>) -> Result<Transaction, IndexError> {
        let txid = parts.compute_txid();
        let submitted_as = Some(wtxid_of(&parts));
        match self.transaction(&txid)? {
            Some(known) if known.raw() == raw => return Ok(known),
            Some(known) => {
                let parts = Arc::new(TransactionParts::new(parts, raw));
                return Ok(Transaction { parts, submitted_as, ..known });
            }
            None => {}
        }
        Ok(Transaction {
            txid,
            bytes_read: raw.len(),
            parts: Arc::new(TransactionParts::new(parts, raw)),
            place: None,
            unconfirmed: None,
            departed: None,
            replaced_in: None,
            is_newest: false,
            is_foreign: true,
            submitted_as,
        })
    }

    /// The outputs that a transaction spends and that neither the active chain nor the mempool has, spent or not; in the
    /// order of its inputs. Stops at the byte budget of the answer.
    pub fn unknown_inputs(&self, parts: &bitcoin::Transaction) -> Result<Vec<OutPoint>, IndexError> {
        let mut unknown = Vec::new();
        for outpoint in outpoints(parts) {
            match self.has_output(&outpoint)? {
                Some(true) => {}
                Some(false) => unknown.push(outpoint),
                None => break,
            }
        }
        Ok(unknown)
    }

    /// What prevents the acceptance of a transaction. `package` has the txids of transactions that are submitted with it,
    /// whose outputs are assumed to exist. Stops at the byte budget of the answer.
    pub fn obstacles(&self, parts: &bitcoin::Transaction, package: &HashSet<Txid>) -> Result<Obstacles, IndexError> {
        let (own, mut found) = (parts.compute_txid(), Obstacles::default());
        for outpoint in outpoints(parts) {
            if let Some(by) = self.spender_on_chain(&outpoint)? {
                if by != own {
                    found.conflicting.insert(by);
                    found.missing.push(outpoint);
                }
                continue;
            }
            found.conflicting.extend(self.mempool().spender(&outpoint).map(|(by, _)| by).filter(|by| *by != own));
            if package.contains(&outpoint.txid) {
                continue;
            }
            match self.has_output(&outpoint)? {
                Some(true) => {}
                Some(false) => found.missing.push(outpoint),
                None => break,
            }
        }
        Ok(found)
    }

    /// The transactions that would leave the mempool if the node accepted this one: conflicts and their descendants, in the
    /// order of txids.
    #[must_use]
    pub fn would_replace(&self, parts: &bitcoin::Transaction) -> BTreeSet<Txid> {
        self.replaceable(parts).into_iter().map(|entry| entry.txid).collect()
    }

    /// An estimate of the lowest fee, in sat, at which the node's mempool accepts a transaction: the minimum for its size
    /// and, if it replaces others, their total fees plus the incremental fee of its size (BIP125, rules 3 and 4), at a
    /// feerate above that of each direct conflict. `None` before the node reported its minimum.
    #[must_use]
    pub fn min_fee(&self, parts: &bitcoin::Transaction) -> Option<u64> {
        let size = vsize(parts.weight());
        let node = self.mempool().node();
        let of_size = |sat_per_vb: f64| {
            let rate = u128::from(Feerate::from_sat_per_vb(sat_per_vb)?.to_sat_per_kvb());
            u64::try_from((rate * u128::from(size)).div_ceil(1_000)).ok()
        };
        let for_size = of_size(node.min_fee_rate.max(node.min_relay_fee_rate)).filter(|fee| *fee > 0)?;
        let replaced = self.replaceable(parts);
        if replaced.is_empty() {
            return Some(for_size);
        }
        let fees = replaced.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.fee));
        let more_than_all = fees.saturating_add(of_size(node.incremental_fee_rate)?);
        let above_each = outpoints(parts).filter_map(|outpoint| {
            let (by, _) = self.mempool().spender(&outpoint)?;
            let conflicting = self.mempool().get(&by)?;
            let same_rate =
                u128::from(conflicting.fee) * u128::from(size) / u128::from(conflicting.policy_vsize().max(1));
            u64::try_from(same_rate + 1).ok()
        });
        above_each.chain([for_size, more_than_all]).max()
    }

    fn replaceable(&self, parts: &bitcoin::Transaction) -> Vec<Arc<Entry>> {
        let (own, mempool, mut seen, mut found) = (parts.compute_txid(), self.mempool(), HashSet::new(), Vec::new());
        let direct = outpoints(parts).filter_map(|outpoint| mempool.spender(&outpoint)).map(|(by, _)| by);
        for by in direct.filter(|by| *by != own) {
            let entries = mempool.get(&by).cloned().into_iter().chain(mempool.descendants(&by).entries);
            found.extend(entries.filter(|entry| seen.insert(entry.txid)));
        }
        found
    }

    /// Whether an output exists in the active chain or in the mempool, spent or not; `None` if the byte budget of the answer
    /// is spent.
    fn has_output(&self, outpoint: &OutPoint) -> Result<Option<bool>, IndexError> {
        if let Some(parent) = self.mempool().get(&outpoint.txid) {
            return Ok(Some(outpoint.vout < parent.output_count));
        }
        let Some(txnum) = self.latest_position(&outpoint.txid)? else { return Ok(Some(false)) };
        if self.count(0).is_err() {
            return Ok(None);
        }
        let funding = self.transaction_at(txnum)?;
        // an exceeded budget is noticed at the next read
        let _ = self.count(funding.bytes_read);
        Ok(Some(funding.output(outpoint.vout).is_some()))
    }

    /// The transaction of the active chain that spends an output.
    pub(super) fn spender_on_chain(&self, outpoint: &OutPoint) -> Result<Option<Txid>, IndexError> {
        let Some(funding) = self.latest_position(&outpoint.txid)? else { return Ok(None) };
        let Some(spender) = self.head.chain.spender(funding, outpoint.vout)? else { return Ok(None) };
        self.txid_at(spender.txnum).map(Some)
    }
}

/// The outpoints that a transaction spends, in the order of its inputs; none for a coinbase. A null one of any other transaction is
/// one that no transaction has (`bad-txns-prevout-null` of Bitcoin Core).
fn outpoints(parts: &bitcoin::Transaction) -> impl Iterator<Item = OutPoint> {
    let is_coinbase = parts.is_coinbase();
    parts.input.iter().map(|input| input.previous_output).filter(move |_| !is_coinbase)
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;
    use bitcoin::{TxIn, absolute, transaction};

    use super::*;

    #[test]
    fn a_null_outpoint_is_spent_by_all_but_a_coinbase() {
        let spends = |spent: &[OutPoint]| {
            let input = spent.iter().map(|spent| TxIn { previous_output: *spent, ..TxIn::default() }).collect();
            let (version, lock_time) = (transaction::Version::TWO, absolute::LockTime::ZERO);
            outpoints(&bitcoin::Transaction { version, lock_time, input, output: Vec::new() }).collect::<Vec<_>>()
        };
        let (known, null) = (OutPoint { txid: Txid::from_byte_array([7; 32]), vout: 0 }, OutPoint::null());
        assert!(spends(&[null]).is_empty());
        assert_eq!([spends(&[known, null]), spends(&[null, null])], [[known, null], [null, null]]);
    }
}
