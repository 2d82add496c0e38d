//! The node writes amounts as JSON numbers in BTC with eight decimals. Read as floating point, large ones lose
//! satoshi; here they are read from their decimal text.

use bitcoin::{Amount, Denomination};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An amount as the node writes it. Only for `serde_json`, which keeps the text.
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

#[cfg(test)]
mod tests {
    use super::*;

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
