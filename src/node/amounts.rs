//! The node writes amounts as JSON numbers in BTC with eight decimals. Parsed as floating point, large ones lose
//! satoshi; here they are parsed from their decimal text.

use bitcoin::{Amount, Denomination};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::chain::Feerate;

/// An amount as the node writes it. Works only with `serde_json`, which keeps the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExactAmount(pub(super) Amount);

impl<'de> Deserialize<'de> for ExactAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Amount::from_str_in(text.get(), Denomination::Bitcoin)
            .map(ExactAmount)
            .map_err(|error| D::Error::custom(format!("{} is no amount in BTC: {error}", text.get())))
    }
}

/// For `deserialize_with`: an amount in BTC.
pub(super) fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
    ExactAmount::deserialize(deserializer).map(|amount| amount.0)
}

/// For `deserialize_with`: a feerate in BTC per 1,000 vbytes, which is whole satoshi.
pub(super) fn feerate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Feerate, D::Error> {
    amount(deserializer).map(|per_kvb| Feerate::from_sat_per_kvb(per_kvb.to_sat()))
}

/// For `deserialize_with`: a feerate that may be missing.
pub(super) fn optional_feerate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Feerate>, D::Error> {
    feerate(deserializer).map(Some)
}

/// An amount as the node parses it: a string in BTC, which the node accepts in place of a number and which is exact.
pub(super) fn text(amount: Amount) -> String {
    amount.display_in(Denomination::Bitcoin).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_written_as_it_is_read() {
        for sat in [0, 1, 10_000, 12_345_678, 100_000_000, 2_099_999_997_690_001] {
            let written = text(Amount::from_sat(sat));
            assert_eq!(serde_json::from_str::<ExactAmount>(&written).unwrap().0.to_sat(), sat, "{written}");
        }
    }

    #[test]
    fn every_satoshi_of_a_decimal_amount_is_kept() {
        let read = |text: &str| serde_json::from_str::<ExactAmount>(text).map(|amount| amount.0.to_sat());
        assert_eq!(read("20999999.97690001").unwrap(), 2_099_999_997_690_001);
        assert_eq!(read("20999999.97690000").unwrap(), 2_099_999_997_690_000);
        assert_eq!(read("0.00000001").unwrap(), 1);
        assert_eq!(read("0.00000000").unwrap(), 0);
        assert_eq!(read("50").unwrap(), 5_000_000_000);
        for wrong in ["-1.0", "0.000000001", "\"1.0\"", "null", "1e3", "[1]", "999999999999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
