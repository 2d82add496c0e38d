//! The fee of a replacement of an unconfirmed transaction.
//!
//! The rules are those of Bitcoin Core (`policy/rbf.h`, `doc/policy/mempool-replacements.md`): a replacement pays at
//! least the fees of all transactions that it evicts, plus the incremental fee of its own size; and it evicts at most 100.
//! Its inputs and final size are up to the sender and not considered.

use bitcoin::Txid;

use super::feerate::FeeFraction;
use super::graph::Relatives;
use super::snapshot::MempoolSnapshot;
use crate::chain::Feerate;

/// The most transactions that one may replace, with their descendants (`MAX_REPLACEMENT_CANDIDATES`).
const MAX_REPLACED: u64 = 100;
/// Weight units of 1,000 vbytes.
const KVB: u64 = 4_000;

impl MempoolSnapshot {
    /// Whether nodes with full RBF accept a replacement of this transaction. They do not require its signal (BIP125) but
    /// refuse to evict too many descendants. False for a transaction outside the mempool.
    #[must_use]
    pub fn is_replaceable(&self, txid: &Txid) -> bool {
        self.get(txid).is_some() && self.descendants(txid).sums.count < MAX_REPLACED
    }

    /// The lowest fee, in sat, at which a transaction of the same size can replace this one and pay at least `rate`. With
    /// `ancestors` it also raises those ancestors to `rate` that would not be mined at it. `None` if it cannot be replaced.
    #[must_use]
    pub fn replacement_fee(&self, txid: &Txid, rate: Feerate, ancestors: bool) -> Option<u64> {
        let entry = self.get(txid).filter(|_| self.is_replaceable(txid))?;
        let node = self.node();
        let read = |rate| Feerate::from_sat_per_vb(rate).unwrap_or_default();
        let (least, step) = (read(node.min_fee_rate), read(node.incremental_fee_rate));

        let (mut weight, mut paid) = (entry.policy_weight, 0_u64);
        if ancestors {
            let Relatives { entries, .. } = self.ancestors(txid);
            let behind =
                |txid: &Txid| self.effective_feerate(txid).is_some_and(|found| found < FeeFraction::from(rate));
            for ancestor in entries.iter().filter(|ancestor| behind(&ancestor.txid)) {
                weight = weight.saturating_add(ancestor.policy_weight);
                paid = paid.saturating_add(ancestor.fee);
            }
        }
        let for_rate = fee_for(rate, weight).saturating_sub(paid).max(fee_for(rate.max(least), entry.policy_weight));
        let leaving = entry.fee.saturating_add(self.descendants(txid).sums.fee);
        Some(for_rate.max(leaving.saturating_add(fee_for(step, entry.policy_vsize().saturating_mul(4)))))
    }
}

/// The fee of this weight at this feerate, in sat, rounded up.
fn fee_for(rate: Feerate, weight: u64) -> u64 {
    let fee = (u128::from(rate.to_sat_per_kvb()) * u128::from(weight)).div_ceil(u128::from(KVB));
    u64::try_from(fee).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fee_is_rounded_up_to_whole_satoshis() {
        for (sat_per_kvb, weight, fee) in
            [(1_000, 400, 100), (1_000, 401, 101), (1, 4_000, 1), (1, 1, 1), (0, 9, 0), (u64::MAX, u64::MAX, u64::MAX)]
        {
            assert_eq!(fee_for(Feerate::from_sat_per_kvb(sat_per_kvb), weight), fee, "{sat_per_kvb} for {weight}");
        }
    }
}
