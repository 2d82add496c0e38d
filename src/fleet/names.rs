//! The names of objects in a store.
//!
//! ```text
//!   objects/<sha256 of the content>
//!   manifests/<height>-<block hash>-<publisher>-<sha256 of the content>.json
//!   retired/<the name of a manifest that was removed>
//!   manifests/probe, objects/probe: without secrets; whether anyone can read the store is tried with them
//! ```

use std::fmt;
use std::str::FromStr;

use bitcoin::BlockHash;
use bitcoin::hex::{DisplayHex, FromHex};
use sha2::{Digest, Sha256};

/// The folder of manifests.
pub(super) const MANIFESTS: &str = "manifests";
/// The folder of objects.
pub(super) const OBJECTS: &str = "objects";
/// The folder of retired manifests.
pub(super) const RETIRED: &str = "retired";
/// The name of the object that is read without a signature, in the folders of manifests and objects.
pub(super) const PROBE: &str = "probe";

const EXTENSION: &str = ".json";

/// A SHA-256, which names an object by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ContentHash(pub(super) [u8; 32]);

impl ContentHash {
    pub(super) fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    /// The name of the object with this content.
    pub(super) fn object(self) -> String {
        format!("{OBJECTS}/{self}")
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_hex())
    }
}

impl FromStr for ContentHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        hex::<32>(text).map(Self).ok_or_else(|| format!("{text:?} is not 64 lowercase hexadecimal digits"))
    }
}

/// Bytes from lowercase hexadecimal digits.
pub(super) fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes: [u8; N] = <Vec<u8>>::from_hex(text).ok()?.try_into().ok()?;
    // there is one name of each: uppercase digits are refused
    (bytes.to_lower_hex_string() == text).then_some(bytes)
}

/// The name of a manifest, without its folder. The order is that of heights.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestName {
    /// The height of the highest block.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// The publisher, 16 hexadecimal digits.
    pub publisher: String,
    pub(super) content: ContentHash,
}

impl ManifestName {
    /// The object.
    pub(super) fn object(&self) -> String {
        format!("{MANIFESTS}/{self}")
    }

    /// The object that says that it was removed.
    pub(super) fn tombstone(&self) -> String {
        format!("{RETIRED}/{self}")
    }
}

impl fmt::Display for ManifestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { height, hash, publisher, content } = self;
        write!(f, "{height}-{hash}-{publisher}-{content}{EXTENSION}")
    }
}

impl FromStr for ManifestName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.strip_suffix(EXTENSION).ok_or(())?.split('-');
        let mut next = || parts.next().ok_or(());
        let (height, hash, publisher, content) = (next()?, next()?, next()?, next()?);
        hex::<8>(publisher).ok_or(())?;
        let name = Self {
            height: height.parse().map_err(|_| ())?,
            hash: hash.parse().map_err(|_| ())?,
            publisher: publisher.to_owned(),
            content: content.parse().map_err(|_| ())?,
        };
        // one name for one manifest: no leading zeros, no capitals, nothing behind it
        if name.to_string() == text { Ok(name) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_name_survives_parsing_and_others_are_refused() {
        let hash = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";
        let content = ContentHash::of(b"content");
        let name = format!("840000-{hash}-00112233445566ff-{content}.json");
        let parsed: ManifestName = name.parse().unwrap();
        assert_eq!((parsed.height, parsed.to_string()), (840_000, name.clone()));
        assert_eq!(parsed.object(), format!("manifests/{name}"));
        for other in [
            String::new(),
            PROBE.to_owned(),
            name.replace(".json", ""),
            name.replace("840000", "0840000"),
            name.replace("840000", "4294967296"),
            name.replace("66ff", "66FF"),
            name.replace("-00112233445566ff", ""),
            name.replace(".json", "-1.json"),
            name.replace("0f91", "0g91"),
        ] {
            assert_eq!(other.parse::<ManifestName>(), Err(()), "{other}");
        }
    }
}
