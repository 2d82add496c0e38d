use std::fmt;
use std::str::FromStr;

/// Satoshis of a bitcoin, and units of a price.
const UNITS: u64 = 100_000_000;
/// Digits behind the point.
const DIGITS: usize = 8;

/// The price of a bitcoin, in hundred-millionths of a currency. Exact: no rate is a binary fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price(u64);

/// A text that is no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no price: give a decimal number above 0 with at most 8 digits behind the point, below 100,000,000,000"
)]
pub struct InvalidPrice(String);

impl Price {
    /// The value of an amount in sat, in decimal, rounded to the nearest hundred-millionth of the currency.
    #[must_use]
    pub fn value_of(self, sat: i128) -> String {
        let product = sat.unsigned_abs().saturating_mul(u128::from(self.0));
        let units = product.saturating_add(u128::from(UNITS / 2)) / u128::from(UNITS);
        let sign = if sat < 0 && units > 0 { "-" } else { "" };
        format!("{sign}{}", decimal(units))
    }
}

/// With at least two digits behind the point, as is usual for prices.
fn decimal(units: u128) -> String {
    let (whole, part) = (units / u128::from(UNITS), units % u128::from(UNITS));
    let part = format!("{part:08}");
    let shown = part.trim_end_matches('0').len().max(2);
    format!("{whole}.{}", &part[..shown])
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.0.into()))
    }
}

impl FromStr for Price {
    type Err = InvalidPrice;

    fn from_str(text: &str) -> Result<Self, InvalidPrice> {
        let parse = || {
            let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
            let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            if !is_number(whole) || !is_number(part) || whole.len() > 11 || part.len() > DIGITS {
                return None;
            }
            let part: u64 = format!("{part:0<8}").parse().ok()?;
            whole.parse::<u64>().ok()?.checked_mul(UNITS)?.checked_add(part).filter(|units| *units > 0)
        };
        parse().map(Self).ok_or_else(|| InvalidPrice(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact_decimal_numbers() {
        for (text, shown) in [
            ("1", "1.00"),
            ("0.00000001", "0.00000001"),
            ("63000.5", "63000.50"),
            ("99999999999.99999999", "99999999999.99999999"),
            ("007.125", "7.125"),
        ] {
            assert_eq!(text.parse::<Price>().unwrap().to_string(), shown);
        }
        for text in ["", "0", "0.0", "-1", "+1", "1.", ".5", "1,5", "1e5", "0.000000001", "100000000000", "١", "1.5.5"]
        {
            assert_eq!(text.parse::<Price>(), Err(InvalidPrice(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn values_are_rounded_to_the_nearest_hundred_millionth() {
        let value = |price: &str, sat| price.parse::<Price>().unwrap().value_of(sat);
        assert_eq!(value("50000", 100_000_000), "50000.00");
        assert_eq!(value("50000", -1), "-0.0005");
        assert_eq!(value("0.5", 1), "0.00000001");
        assert_eq!(value("0.49999999", 1), "0.00");
        assert_eq!(value("0.49999999", -1), "0.00");
        assert_eq!(value("50000", 0), "0.00");
        // all coins at the highest price
        assert_eq!(value("99999999999", 2_100_000_000_000_000), "2099999999979000000.00");
    }
}
