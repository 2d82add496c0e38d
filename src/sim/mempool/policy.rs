//! Relay policy: minimum fees, and limits on chains of unconfirmed transactions.

use bitcoin::Amount;

use crate::chain::Feerate;

/// The settings that decide which transactions a mempool accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The least feerate of a transaction (`-minrelaytxfee`).
    pub min_relay: Feerate,
    /// The feerate that a replacement must pay for its own size on top of the replaced fees (`-incrementalrelayfee`).
    pub incremental: Feerate,
    /// The most unconfirmed ancestors, the transaction included (`-limitancestorcount`).
    pub ancestor_count: usize,
    /// The most virtual bytes of these (`-limitancestorsize`, there in thousands).
    pub ancestor_vsize: u64,
    /// The most descendants of any transaction, itself included (`-limitdescendantcount`).
    pub descendant_count: usize,
    /// The most virtual bytes of these (`-limitdescendantsize`, there in thousands).
    pub descendant_vsize: u64,
    /// The most transactions in all. A node counts bytes of memory instead (`-maxmempool`).
    pub max_transactions: usize,
}

impl Default for Policy {
    /// The defaults of Core before cluster mempool: 1 sat/vB, 25 transactions and 101,000 vB; and more transactions in
    /// all than mainnet ever had.
    fn default() -> Self {
        Policy {
            min_relay: Feerate::from_sat_per_kvb(1_000),
            incremental: Feerate::from_sat_per_kvb(1_000),
            ancestor_count: 25,
            ancestor_vsize: 101_000,
            descendant_count: 25,
            descendant_vsize: 101_000,
            max_transactions: 1_000_000,
        }
    }
}

/// The fee for this many virtual bytes, rounded up (`CFeeRate::GetFee`, Core's `policy/feerate.cpp`).
pub(super) fn fee_of(rate: Feerate, vsize: u64) -> Amount {
    let fee = (u128::from(rate.to_sat_per_kvb()) * u128::from(vsize)).div_ceil(1_000);
    Amount::from_sat(u64::try_from(fee).unwrap_or(u64::MAX))
}

/// The feerate of a fee for this many virtual bytes, rounded down (`CFeeRate`, Core's `policy/feerate.cpp`). Policy
/// compares by virtual size, not by weight.
pub(crate) fn rate_of(fee: Amount, vsize: u64) -> Feerate {
    let rate = (u128::from(fee.to_sat()) * 1_000).checked_div(u128::from(vsize)).unwrap_or(0);
    Feerate::from_sat_per_kvb(u64::try_from(rate).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fee_is_rounded_up_and_a_feerate_down() {
        let fee = |rate, vsize| fee_of(Feerate::from_sat_per_kvb(rate), vsize).to_sat();
        assert_eq!([fee(1_000, 141), fee(100, 141), fee(100, 140), fee(0, 141)], [141, 15, 14, 0]);
        let rate = |fee, vsize| rate_of(Amount::from_sat(fee), vsize).to_sat_per_kvb();
        assert_eq!([rate(141, 141), rate(142, 141), rate(1, 0)], [1_000, 1_007, 0]);
    }
}
