//! Virtual size and feerate: what a transaction pays for its size.
//!
//! This is the arithmetic alone, which must be the same everywhere. Estimates and histograms are in the mempool module.

use std::fmt;

use bitcoin::{Amount, Weight};

use super::float::to_f64;

/// A feerate in satoshis per 1,000 virtual bytes, as Core counts (`CFeeRate`, `policy/feerate.h`).
///
/// A whole number, so that it can be stored, compared and sorted exactly; to show it, use
/// [`to_sat_per_vb`](Feerate::to_sat_per_vb).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Feerate(u64);

/// All coins there can be, in sat, for one virtual byte.
const MOST_SAT_PER_VB: f64 = 2.1e15;

impl Feerate {
    /// Nothing is paid.
    pub const ZERO: Feerate = Feerate(0);

    /// The feerate of a transaction, or of several together, rounded down: `fee × 4000 / weight`.
    ///
    /// The divisor is the weight itself, not the rounded-up virtual size, so that two transactions compare as a miner
    /// orders them. Zero for a weight of zero; the highest representable feerate if the result is beyond it.
    #[must_use]
    pub fn of(fee: Amount, weight: Weight) -> Feerate {
        let per_weight = (u128::from(fee.to_sat()) * 4_000).checked_div(u128::from(weight.to_wu()));
        Feerate(u64::try_from(per_weight.unwrap_or(0)).unwrap_or(u64::MAX))
    }

    /// The feerate of this many satoshis per 1,000 virtual bytes.
    #[must_use]
    pub const fn from_sat_per_kvb(sat: u64) -> Feerate {
        Feerate(sat)
    }

    /// The feerate of this many satoshis per virtual byte, to the nearest satoshi per 1,000. `None` for what is below
    /// zero, or more than all coins there can be for one virtual byte.
    #[must_use]
    pub fn from_sat_per_vb(sat: f64) -> Option<Feerate> {
        // no conversion from a double to an integer is lossless; the digits without a fraction parse as one
        let digits = (0.0..=MOST_SAT_PER_VB).contains(&sat).then(|| format!("{:.0}", sat * 1_000.0))?;
        digits.parse().ok().map(Feerate)
    }

    /// Satoshis per 1,000 virtual bytes.
    #[must_use]
    pub const fn to_sat_per_kvb(self) -> u64 {
        self.0
    }

    /// Satoshis per virtual byte, for people and JSON. Rounded only above 2^53 sat/kvB, which no fee reaches.
    #[must_use]
    pub fn to_sat_per_vb(self) -> f64 {
        to_f64(self.0) / 1_000.0
    }
}

impl fmt::Display for Feerate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} sat/vB", self.0 / 1_000, self.0 % 1_000)
    }
}

/// The virtual size in vbytes: a quarter of the weight, rounded up (BIP141).
#[must_use]
pub const fn vsize(weight: Weight) -> u64 {
    weight.to_wu().div_ceil(4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feerate(fee: u64, weight: u64) -> Feerate {
        Feerate::of(Amount::from_sat(fee), Weight::from_wu(weight))
    }

    #[test]
    fn the_feerate_is_the_fee_by_the_weight_rounded_down() {
        for (fee, weight, sat_per_kvb) in [
            (0, 400, 0),
            (100, 400, 1_000),
            (141, 561, 1_005), // 1,005.35: by the virtual size of 141 it would be 1,000
            (1, 4_000_001, 0),
            (1, 4_000, 1),
            (7, 0, 0),
            (0, 0, 0),
            (u64::MAX, 4_000, u64::MAX),
            (u64::MAX, 3_999, u64::MAX),
            (u64::MAX, 1, u64::MAX),
            (u64::MAX, u64::MAX, 4_000),
        ] {
            assert_eq!(feerate(fee, weight).to_sat_per_kvb(), sat_per_kvb, "{fee} sat for {weight}");
        }
    }

    #[test]
    fn a_feerate_is_shown_per_virtual_byte() {
        for (sat_per_kvb, per_vb, text) in [
            (0, 0.0, "0.000 sat/vB"),
            (100, 0.1, "0.100 sat/vB"),
            (1_005, 1.005, "1.005 sat/vB"),
            (12_345_678_901, 12_345_678.901, "12345678.901 sat/vB"),
            (900_719_925_474_099, 900_719_925_474.099, "900719925474.099 sat/vB"),
        ] {
            let rate = Feerate::from_sat_per_kvb(sat_per_kvb);
            assert!((rate.to_sat_per_vb() - per_vb).abs() <= f64::EPSILON * per_vb, "{sat_per_kvb}");
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn a_feerate_is_read_to_the_thousandth() {
        for (per_vb, sat_per_kvb) in [
            (0.0, Some(0)),
            (0.1, Some(100)),
            (1.0, Some(1_000)),
            (1.000_4, Some(1_000)),
            (4.035, Some(4_035)),
            (123_456_789.012, Some(123_456_789_012)),
            (2.1e15, Some(2_100_000_000_000_000_000)),
            (2.2e15, None),
            (-0.001, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(Feerate::from_sat_per_vb(per_vb).map(Feerate::to_sat_per_kvb), sat_per_kvb, "{per_vb}");
        }
    }

    #[test]
    fn the_virtual_size_is_rounded_up() {
        for (weight, vbytes) in [(0, 0), (1, 1), (4, 1), (5, 2), (561, 141), (4_000_000, 1_000_000)] {
            assert_eq!(vsize(Weight::from_wu(weight)), vbytes);
        }
        assert_eq!(vsize(Weight::from_wu(u64::MAX)), u64::MAX / 4 + 1);
    }

    proptest! {
        #[test]
        fn a_feerate_bounds_the_fee_it_was_made_from(
            fee in 0_u64..=2_100_000_000_000_000, weight in 1_u64..=4_000_000,
        ) {
            let rate = u128::from(feerate(fee, weight).to_sat_per_kvb());
            let (fee, weight) = (u128::from(fee), u128::from(weight));
            prop_assert!(rate * weight <= fee * 4_000);
            prop_assert!((rate + 1) * weight > fee * 4_000);
        }

        #[test]
        fn a_higher_feerate_is_never_shown_as_a_lower_one(one in any::<u64>(), other in any::<u64>()) {
            let shown = |rate| Feerate::from_sat_per_kvb(rate).to_sat_per_vb();
            prop_assert!(shown(one.min(other)) <= shown(one.max(other)));
        }
    }
}
