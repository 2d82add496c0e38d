//! Numbers in the format of a node. Amounts: in BTC with eight decimals, formatted from satoshis without a
//! floating-point number. Difficulties: with sixteen digits.

use bitcoin::Amount;
use serde::ser::{Error, Serialize, Serializer};
use serde_json::value::RawValue;

/// Satoshi in a bitcoin.
const COIN: u64 = 100_000_000;

/// An amount that serialises in the format of a node. Only for `serde_json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim::node) struct Btc(pub(in crate::sim::node) Amount);

impl Btc {
    fn text(self) -> String {
        let sat = self.0.to_sat();
        format!("{}.{:08}", sat / COIN, sat % COIN)
    }
}

impl Serialize for Btc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.text()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// A difficulty that serialises in the format of a node. Those of regtest are so small that they always have an
/// exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sim::node) struct Difficulty(pub(in crate::sim::node) f64);

impl Serialize for Difficulty {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(format!("{:.15e}", self.0)).map_err(S::Error::custom)?.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_satoshi_is_written_and_always_eight_decimals() {
        let written = |sat| serde_json::to_string(&Btc(Amount::from_sat(sat))).unwrap();
        assert_eq!(written(2_099_999_997_690_001), "20999999.97690001");
        assert_eq!(written(5_000_000_000), "50.00000000");
        assert_eq!(written(1), "0.00000001");
        assert_eq!(written(0), "0.00000000");
    }
}
