//! An exact feerate, and the order by it.
//!
//! [`chain::Feerate`](crate::chain::Feerate) is rounded down to whole satoshis per 1,000 vbytes, which is what the API
//! and the index contain. The order of transactions depends on the exact fraction.

use std::cmp::Ordering;

use bitcoin::{Amount, Weight};

use crate::chain::Feerate;
use crate::chain::float::to_f64;

/// A fee divided by a weight, stored as both numbers. Two are equal if their quotients are.
#[derive(Clone, Copy, Debug)]
pub struct FeeFraction {
    fee: u64,
    weight: u64,
}

impl FeeFraction {
    /// No fee.
    pub const ZERO: FeeFraction = FeeFraction { fee: 0, weight: 1 };

    /// The feerate of `fee` sat for `weight` weight units. A weight of zero counts as one.
    #[must_use]
    pub const fn new(fee: u64, weight: u64) -> Self {
        Self { fee, weight: if weight == 0 { 1 } else { weight } }
    }

    /// The fee, in sat.
    #[must_use]
    pub const fn fee(self) -> u64 {
        self.fee
    }

    /// The weight, in weight units.
    #[must_use]
    pub const fn weight(self) -> u64 {
        self.weight
    }

    /// Rounds down to whole satoshis per 1,000 vbytes.
    #[must_use]
    pub fn to_feerate(self) -> Feerate {
        Feerate::of(Amount::from_sat(self.fee), Weight::from_wu(self.weight))
    }

    /// Satoshis per virtual byte (four weight units), for display and JSON.
    #[must_use]
    pub fn to_sat_per_vb(self) -> f64 {
        to_f64(u128::from(self.fee) * 4) / to_f64(self.weight)
    }
}

impl From<Feerate> for FeeFraction {
    fn from(rate: Feerate) -> Self {
        Self::new(rate.to_sat_per_kvb(), 4_000)
    }
}

impl Ord for FeeFraction {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (u128::from(self.fee), u128::from(other.fee));
        (left * u128::from(other.weight)).cmp(&(right * u128::from(self.weight)))
    }
}

impl PartialOrd for FeeFraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FeeFraction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FeeFraction {}

/// A position in an order of the mempool: the highest first, and among equals the earliest arrival.
///
/// It is unique and means the same in every snapshot, so a page can start after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank<T> {
    /// The value that decides the order.
    pub by: T,
    /// The number of the transaction's arrival.
    pub sequence: u64,
}

impl<T: Ord> Ord for Rank<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.by.cmp(&self.by).then_with(|| self.sequence.cmp(&other.sequence))
    }
}

impl<T: Ord> PartialOrd for Rank<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fractions_are_compared_by_their_quotient() {
        for (left, right, order) in [
            ((1, 2), (2, 4), Ordering::Equal),
            ((0, 7), (0, 9), Ordering::Equal),
            // the same in whole satoshis per 1,000 vbytes
            ((1_000_001, 4_000_000), (1_000_000, 4_000_000), Ordering::Greater),
            // the same as a double
            ((u64::MAX, u64::MAX - 1), (u64::MAX - 1, u64::MAX - 2), Ordering::Less),
            ((5, 0), (5, 1), Ordering::Equal),
        ] {
            assert_eq!(FeeFraction::new(left.0, left.1).cmp(&FeeFraction::new(right.0, right.1)), order, "{left:?}");
        }
    }

    #[test]
    fn a_fraction_is_shown_per_virtual_byte() {
        let rate = FeeFraction::new(141, 561);
        assert!((rate.to_sat_per_vb() - 564.0 / 561.0).abs() < 1e-12);
        assert_eq!(rate.to_feerate().to_sat_per_kvb(), 1_005);
        assert_eq!(FeeFraction::from(Feerate::from_sat_per_kvb(1_500)), FeeFraction::new(3, 8));
    }

    #[test]
    fn ranks_put_the_highest_and_then_the_oldest_first() {
        let mut ranks = [(1, 1), (9, 5), (9, 2), (4, 3)].map(|(by, sequence)| Rank { by, sequence });
        ranks.sort();
        assert_eq!(ranks.map(|rank| (rank.by, rank.sequence)), [(9, 2), (9, 5), (4, 3), (1, 1)]);
    }

    proptest! {
        #[test]
        fn what_is_rounded_down_keeps_the_order(a in 0_u64..1 << 51, b in 1_u64..1 << 30, c in 0_u64..1 << 51, d in 1_u64..1 << 30) {
            let (one, other) = (FeeFraction::new(a, b), FeeFraction::new(c, d));
            let rounded = one.to_feerate().cmp(&other.to_feerate());
            prop_assert!(rounded == Ordering::Equal || rounded == one.cmp(&other));
        }
    }
}
