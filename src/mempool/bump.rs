//! What it takes to replace a transaction that waits.
//!
//! The rules are those of Bitcoin Core (`policy/rbf.h`, `doc/policy/mempool-replacements.md`): a replacement pays at
//! least what all transactions paid that leave for it, and for its own size on top; and no more than 100 may leave. The
//! sender of a replacement knows better what else there is: which of its inputs are new, and how large it is.

use bitcoin::Txid;

use super::feerate::FeeFraction;
use super::graph::Relatives;
use super::snapshot::MempoolSnapshot;
use crate::chain::Feerate;

/// The most transactions that one may replace, with all that stands on them (`MAX_REPLACEMENT_CANDIDATES`).
const MAX_REPLACED: u64 = 100;
/// Weight units of 1,000 vbytes.
const KVB: u64 = 4_000;

impl MempoolSnapshot {
    /// Whether nodes that replace by fee take a transaction in the place of this one. They no longer ask whether it
    /// signals that (BIP125), but with too much standing on it they refuse. False for one that is not here.
    #[must_use]
    pub fn is_replaceable(&self, txid: &Txid) -> bool {
        self.get(txid).is_some() && self.descendants(txid).sums.count < MAX_REPLACED
    }

    /// The least fee, in sat, with which a transaction of the same size can replace this one and pay at least `rate`;
    /// with `ancestors`, so much that what it stands on and would not be mined at that rate gets it, too. `None` if it
    /// cannot be replaced.
    #[must_use]
    pub fn replacement_fee(&self, txid: &Txid, rate: Feerate, ancestors: bool) -> Option<u64> {
        let entry = self.get(txid).filter(|_| self.is_replaceable(txid))?;
        let node = self.node();
        let read = |rate| Feerate::from_sat_per_vb(rate).unwrap_or_default();
        let (least, step) = (read(node.min_fee_rate), read(node.incremental_fee_rate));

        let (mut weight, mut paid) = (entry.weight, 0_u64);
        if ancestors {
            let Relatives { entries, .. } = self.ancestors(txid);
            let behind =
                |txid: &Txid| self.effective_feerate(txid).is_some_and(|found| found < FeeFraction::from(rate));
            for ancestor in entries.iter().filter(|ancestor| behind(&ancestor.txid)) {
                weight = weight.saturating_add(ancestor.weight);
                paid = paid.saturating_add(ancestor.fee);
            }
        }
        let for_rate = fee_for(rate, weight).saturating_sub(paid).max(fee_for(rate.max(least), entry.weight));
        let leaving = entry.fee.saturating_add(self.descendants(txid).sums.fee);
        Some(for_rate.max(leaving.saturating_add(fee_for(step, entry.vsize().saturating_mul(4)))))
    }
}

/// What this weight costs at this feerate, in sat, rounded up.
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
