//! The SHA-256 of a text, by which tokens and queries are known without being stored or sent.

use std::fmt;
use std::str::FromStr;

use hex_conservative::DisplayHex;
use sha2::{Digest, Sha256};

/// A hash; its text is 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sha256Hash([u8; 32]);

impl Sha256Hash {
    pub(crate) fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Whether they are equal, in a time that does not depend on where they differ.
    pub(crate) fn equals_in_constant_time(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

/// A text that is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHex;

impl FromStr for Sha256Hash {
    type Err = NotHex;

    fn from_str(text: &str) -> Result<Self, NotHex> {
        hex_conservative::decode_to_array(text).map(Self).map_err(|_| NotHex)
    }
}

impl fmt::Display for Sha256Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hex(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_the_standard_and_is_read_as_written() {
        // the first example of FIPS 180-2, appendix B.1
        let written = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256Hash::of("abc").to_string(), written);
        for text in [written.to_owned(), written.to_uppercase()] {
            assert_eq!(text.parse(), Ok(Sha256Hash::of("abc")));
        }
        assert!(!Sha256Hash::of("abc").equals_in_constant_time(&Sha256Hash::of("abd")));
        for text in
            [&written[1..], &format!("{written}0"), &format!("{}é", &written[2..]), &format!("{}+", &written[1..])]
        {
            assert_eq!(text.parse::<Sha256Hash>(), Err(NotHex), "{text}");
        }
    }
}
