use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::price::{InvalidPrice, Price};

/// The most bytes of a file: hourly rates of 20 currencies for as long as there are bitcoins take half of it.
const MOST_BYTES: u64 = 256 << 20;

/// The rate of a currency from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Seconds since 1970, UTC.
    pub time: u32,
    /// The price of a bitcoin.
    pub price: Price,
}

/// Rates by currency, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateTable(BTreeMap<String, Vec<Rate>>);

/// A file that is no table of rates.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTable {
    /// It cannot be read.
    #[error("cannot read {path}: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A currency has two prices at one time.
    #[error("{currency} has two prices at {time}, in seconds since 1970")]
    Ambiguous {
        /// The currency.
        currency: String,
        /// The time.
        time: u32,
    },
    /// A line is no rate.
    #[error("line {line} is no rate such as `2026-01-31T12:00:00Z,EUR,63000.5`: {reason}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

impl RateTable {
    /// Reads a file of lines `time,currency,price`. The time is in seconds since 1970 or as in RFC 3339; empty lines, lines
    /// that begin with `#` and a first line `time,currency,price` are skipped.
    ///
    /// Errors: it cannot be read, is larger than 256 MiB, or a line is none of these.
    pub fn read(path: &Path) -> Result<Self, InvalidTable> {
        let unreadable = |error| InvalidTable::Unreadable { path: path.to_owned(), error };
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > MOST_BYTES {
            return Err(unreadable(std::io::Error::other(format!("it has {bytes} bytes, more than {MOST_BYTES}"))));
        }
        std::fs::read_to_string(path).map_err(unreadable)?.parse()
    }

    /// The currencies in alphabetical order.
    pub fn currencies(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The newest rate of a currency until this time.
    #[must_use]
    pub fn at(&self, currency: &str, time: u32) -> Option<Rate> {
        let rates = self.0.get(currency)?;
        let end = rates.partition_point(|rate| rate.time <= time);
        rates[..end].last().copied()
    }
}

impl FromStr for RateTable {
    type Err = InvalidTable;

    fn from_str(text: &str) -> Result<Self, InvalidTable> {
        let mut table = BTreeMap::<String, Vec<Rate>>::new();
        // spreadsheets begin UTF-8 with a byte order mark
        for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let is_head = number == 1 && line == "time,currency,price";
            if line.trim().is_empty() || line.starts_with('#') || is_head {
                continue;
            }
            let (currency, rate) = parse(line).map_err(|reason| InvalidTable::Line { line: number, reason })?;
            table.entry(currency.to_owned()).or_default().push(rate);
        }
        for (currency, rates) in &mut table {
            rates.sort_by_key(|rate| rate.time);
            if let Some(two) = rates.windows(2).find(|two| two[0].time == two[1].time && two[0].price != two[1].price) {
                return Err(InvalidTable::Ambiguous { currency: currency.clone(), time: two[0].time });
            }
        }
        Ok(Self(table))
    }
}

fn parse(line: &str) -> Result<(&str, Rate), String> {
    let parts: Vec<_> = line.split(',').map(str::trim).collect();
    let [time, currency, price] = parts[..] else {
        return Err(format!(
            "it has {} of the three parts time, currency and price, with commas between them",
            parts.len()
        ));
    };
    let is_code = currency.len() == 3 && currency.bytes().all(|letter| letter.is_ascii_uppercase());
    if !is_code {
        return Err(format!("{currency:?} is no currency code of three capital letters (ISO 4217)"));
    }
    let seconds = time.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_second).or_else(|_| time.parse());
    let time = seconds.ok().and_then(|seconds| u32::try_from(seconds).ok());
    let time = time.ok_or_else(|| format!("{:?} is no time from 1970 to 2106", parts[0]))?;
    let price = price.parse().map_err(|error: InvalidPrice| error.to_string())?;
    Ok((currency, Rate { time, price }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_rates_in_any_order_and_form_of_time() {
        let text = "time,currency,price\n# from a market\n1970-01-01T00:05:00Z, EUR, 60.5\n\n200,EUR,50\n200,USD,55\n";
        let table: RateTable = text.parse().unwrap();
        assert_eq!(format!("\u{feff}{text}").parse::<RateTable>().unwrap(), table, "as spreadsheets write it");
        assert_eq!(table.currencies().collect::<Vec<_>>(), ["EUR", "USD"]);
        let at = |currency, time| table.at(currency, time).map(|rate| (rate.time, rate.price.to_string()));
        assert_eq!(at("EUR", 199), None);
        assert_eq!(at("EUR", 299), Some((200, "50.00".into())));
        assert_eq!(at("EUR", u32::MAX), Some((300, "60.50".into())));
        assert_eq!(at("USD", 300), Some((200, "55.00".into())));
        assert_eq!(at("usd", 300), None);
    }

    #[test]
    fn two_prices_at_one_time_are_refused_and_a_repeated_one_is_not() {
        assert!("1,EUR,2\n1,EUR,2".parse::<RateTable>().is_ok());
        let refused = "1,EUR,2\n5,EUR,2\n1,USD,3\n5,EUR,4".parse::<RateTable>().unwrap_err().to_string();
        assert_eq!(refused, "EUR has two prices at 5, in seconds since 1970");
    }

    #[test]
    fn a_line_that_is_no_rate_is_named_with_the_reason() {
        for (text, line, reason) in [
            ("1,EUR", 1, "it has 2 of the three parts time, currency and price, with commas between them"),
            ("1,EUR,1\nsoon,EUR,1", 2, "\"soon\" is no time from 1970 to 2106"),
            ("-1,EUR,1", 1, "\"-1\" is no time"),
            ("1,Euro,1", 1, "\"Euro\" is no currency code"),
            ("1,eur,1", 1, "\"eur\" is no currency code"),
            ("1,EUR,free", 1, "\"free\" is no price"),
            ("#\ntime,currency,price", 2, "\"currency\" is no currency code"),
        ] {
            let Err(InvalidTable::Line { line: found, reason: why }) = text.parse::<RateTable>() else {
                panic!("{text}")
            };
            assert_eq!(found, line, "{text}");
            assert!(why.contains(reason), "{text}: {why}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = RateTable::read(Path::new("/nowhere/rates.csv")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/rates.csv: "), "{error}");
    }
}
