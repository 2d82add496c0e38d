//! The kinds of values that settings have beside numbers and text: sizes in memory, secrets, names from a short list.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes, whose text form has a unit (`256KiB`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(u64);

/// Largest first, so that a size is printed with the largest exact unit. Binary units come before
/// decimal ones of the same rank.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

impl ByteSize {
    /// A size of `bytes` bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        ByteSize(bytes)
    }

    /// The size in bytes.
    #[must_use]
    pub const fn to_bytes(self) -> u64 {
        self.0
    }

    /// The size in bytes as a length in memory, at most `usize::MAX`.
    #[must_use]
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a size: write a whole number and a unit, one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, as in \"1GiB\""
)]
pub struct NotASize(String);

impl FromStr for ByteSize {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let refused = || NotASize(text.to_owned());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start();
        let (_, bytes) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(refused)?;
        let number: u64 = number.parse().map_err(|_| refused())?;
        number.checked_mul(*bytes).map(ByteSize).ok_or_else(refused)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().find(|(_, bytes)| self.0 != 0 && self.0.is_multiple_of(*bytes));
        let (unit, bytes) = exact.unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

impl TryFrom<String> for ByteSize {
    type Error = NotASize;

    fn try_from(text: String) -> Result<Self, NotASize> {
        text.parse()
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

/// Text that must not be shown: it is masked wherever it is printed, logged or serialised.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Secret(String);

/// What is shown instead of a secret.
pub const MASK: &str = "********";

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}

impl Secret {
    /// The secret itself, only for the code that checks it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether none is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn masked(&self) -> &'static str {
        if self.is_empty() { "" } else { MASK }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.masked().fmt(f)
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.masked())
    }
}

/// The salt of the index's script keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Salt {
    /// Each new index draws its own.
    #[default]
    Random,
    /// The same for every index, so that the same chain gives the same bytes.
    Fixed([u8; 16]),
}

/// Text that is no salt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a salt is 16 bytes in hex (32 digits), or empty for a random one")]
pub struct NotASalt;

impl TryFrom<String> for Salt {
    type Error = NotASalt;

    fn try_from(text: String) -> Result<Self, NotASalt> {
        if text.is_empty() {
            return Ok(Salt::Random);
        }
        bitcoin::hex::FromHex::from_hex(&text).map(Salt::Fixed).map_err(|_| NotASalt)
    }
}

impl From<Salt> for String {
    fn from(salt: Salt) -> Self {
        match salt {
            Salt::Random => String::new(),
            Salt::Fixed(bytes) => bitcoin::hex::DisplayHex::to_lower_hex_string(&bytes[..]),
        }
    }
}

/// Where the bytes of transactions in frozen blocks are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum RawTransactions {
    /// Chosen by btcgraph.
    Auto,
    /// In the index.
    Index,
    /// In the node alone.
    Node,
}

impl TryFrom<String> for RawTransactions {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            "auto" => Ok(RawTransactions::Auto),
            "index" => Ok(RawTransactions::Index),
            "node" => Ok(RawTransactions::Node),
            _ => Err("must be one of auto, index, node"),
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl TryFrom<String> for LogFormat {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            "human" => Ok(LogFormat::Human),
            "json" => Ok(LogFormat::Json),
            _ => Err("must be one of human, json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, bytes) in [
            ("0B", 0),
            ("512B", 512),
            ("1kB", 1000),
            ("256KiB", 256 << 10),
            ("1GiB", 1 << 30),
            ("1 GiB", 1 << 30),
            ("2gb", 2_000_000_000),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn a_wrong_size_is_refused_with_an_example() {
        for text in ["", "1", "GiB", "1G", "1.5GiB", "-1B", "1GiBs", "16777216TiB", "99999999999999999999B", "1 2B"] {
            let refusal = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(refusal.contains("as in \"1GiB\""), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn a_size_is_read_as_it_was_written(bytes: u64, shift in 0_u32..64) {
            let size = ByteSize(bytes >> shift << (shift / 2));
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }

    #[test]
    fn sizes_are_written_with_the_largest_unit_that_is_exact() {
        let written = [0, 1, 1000, 1024, 1 << 30, 3_000_000, (1 << 30) + 1].map(|bytes| ByteSize(bytes).to_string());
        assert_eq!(written, ["0B", "1B", "1kB", "1KiB", "1GiB", "3MB", "1073741825B"]);
    }

    #[test]
    fn a_secret_is_shown_nowhere() {
        let secret = Secret::from("hunter2");
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(format!("{secret:?}"), format!("{MASK:?}"));
        assert_eq!(serde_json::to_string(&secret).unwrap(), format!("{MASK:?}"));
        assert_eq!(format!("{:?}", Secret::default()), "\"\"");
    }

    #[test]
    fn a_salt_is_sixteen_bytes_or_random() {
        let salt = |text: &str| Salt::try_from(text.to_owned());
        assert_eq!(salt(""), Ok(Salt::Random));
        let hex = "000102030405060708090a0b0c0d0e0f";
        assert_eq!(salt(hex).map(String::from), Ok(hex.to_owned()));
        for text in ["0", "00", "zz0102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f00"] {
            assert_eq!(salt(text), Err(NotASalt), "{text}");
        }
    }
}
