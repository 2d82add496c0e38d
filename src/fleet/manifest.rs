//! A manifest: the objects of one cut of the chain, and what a joiner checks before it downloads them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bitcoin::hex::DisplayHex;
use bitcoin::{BlockHash, Network};
use serde::{Deserialize, Serialize};

use super::error::FleetError;
use super::names::{ContentHash, ManifestName, hex};
use crate::chain::{Height, network};
use crate::index::{IndexError, PackedFormat, Salt};

/// The format of manifests. Raised with every change that an older program must not pass over.
pub(super) const MANIFEST_FORMAT: u32 = 1;
/// More is no manifest.
pub(super) const MOST_BYTES: u64 = 16 << 20;

/// The published blocks up to one height. Has no `Debug`, because it has the salt.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`MANIFEST_FORMAT`].
    format: u32,
    /// The network, as the settings spell it.
    pub network: String,
    /// The hash of its genesis block.
    pub genesis: BlockHash,
    /// The height of the highest block.
    pub height: u32,
    /// Its hash.
    pub hash: BlockHash,
    /// Who published it, 16 hexadecimal digits.
    pub publisher: String,
    /// The salt of the index, 32 hexadecimal digits.
    salt: String,
    /// The outputs that are unspent after that block.
    pub utxo_count: u64,
    /// Their value in sat.
    pub utxo_value: u64,
    /// The generations, the oldest first.
    pub generations: Vec<PublishedGeneration>,
}

/// A generation in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedGeneration {
    /// The height of its lowest block.
    pub first: u32,
    /// The height of its highest block.
    pub last: u32,
    /// The hash of that block.
    pub hash: BlockHash,
    /// The number of transactions in the chain up to that block.
    pub transactions: u32,
    /// The name of its file without the build.
    pub stem: String,
    /// The size of its file.
    pub bytes: u64,
    /// The SHA-256 of its file, which names the object.
    object: String,
    /// The SHA-256 of the checksums of its blocks of 64 KiB, which names their object.
    checksums: String,
    /// The format of the file.
    pub file_format: u32,
    /// The version of each of its tables.
    pub tables: BTreeMap<String, u32>,
}

impl PublishedGeneration {
    pub(super) fn new(
        (first, last, hash, transactions): (u32, u32, BlockHash, u32),
        (stem, bytes): (String, u64),
        (object, checksums): (ContentHash, ContentHash),
        format: PackedFormat,
    ) -> Self {
        let (object, checksums) = (object.to_string(), checksums.to_string());
        let PackedFormat { file: file_format, tables } = format;
        Self { first, last, hash, transactions, stem, bytes, object, checksums, file_format, tables }
    }

    /// The content of its file.
    pub(super) fn object(&self) -> Option<ContentHash> {
        self.object.parse().ok()
    }

    /// The content of its checksums.
    pub(super) fn checksums(&self) -> Option<ContentHash> {
        self.checksums.parse().ok()
    }

    /// Whether its file has higher blocks, which a reorganisation disconnected: the file is named `<first>-<last>-<hash>`.
    fn is_shortened(&self) -> bool {
        let last = self.stem.split('-').nth(1).and_then(|last| last.parse::<u32>().ok());
        last.is_some_and(|last| last > self.last)
    }
}

impl Manifest {
    pub(super) fn new(
        network: Network,
        publisher: &str,
        salt: Salt,
        (utxo_count, utxo_value): (u64, u64),
        generations: Vec<PublishedGeneration>,
    ) -> Option<Self> {
        let last = generations.last()?;
        Some(Self {
            format: MANIFEST_FORMAT,
            network: network::name(network).to_owned(),
            genesis: network::genesis_hash(network),
            height: last.last,
            hash: last.hash,
            publisher: publisher.to_owned(),
            salt: salt.0.to_lower_hex_string(),
            utxo_count,
            utxo_value,
            generations,
        })
    }

    /// The bytes of the files of its generations.
    pub(super) fn bytes(&self) -> u64 {
        self.generations.iter().map(|generation| generation.bytes).sum()
    }

    /// Its bytes, and its name. Equal manifests have equal names.
    pub(super) fn encode(&self) -> Result<(ManifestName, Vec<u8>), FleetError> {
        let malformed = |reason: String| FleetError::Malformed { object: "the new manifest".to_owned(), reason };
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|error| malformed(error.to_string()))?;
        bytes.push(b'\n');
        let Self { height, hash, publisher, .. } = self;
        let content = ContentHash::of(&bytes);
        Ok((ManifestName { height: *height, hash: *hash, publisher: publisher.clone(), content }, bytes))
    }

    /// Reads the manifest of this name.
    ///
    /// Errors: [`FleetError::NewerManifest`], `Malformed`, `Changed`.
    pub(super) fn decode(name: &ManifestName, bytes: &[u8]) -> Result<Self, FleetError> {
        #[derive(Deserialize)]
        struct FormatOnly {
            format: u32,
        }
        let object = name.object();
        if ContentHash::of(bytes) != name.content {
            return Err(FleetError::Changed { object, offset: 0 });
        }
        let malformed = |reason: String| FleetError::Malformed { object: object.clone(), reason };
        let FormatOnly { format } = serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        if format != MANIFEST_FORMAT {
            return Err(FleetError::NewerManifest { object, found: format, expected: MANIFEST_FORMAT });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        manifest.check(name).map_err(malformed)?;
        Ok(manifest)
    }

    /// Checks what it says against its name and itself.
    fn check(&self, name: &ManifestName) -> Result<(), String> {
        if (self.height, self.hash, &self.publisher) != (name.height, name.hash, &name.publisher) {
            return Err("its block or its publisher is not that of its name".to_owned());
        }
        if hex::<16>(&self.salt).is_none() {
            return Err("its salt is not 32 hexadecimal digits".to_owned());
        }
        let (mut height, mut transactions) = (0, 0);
        for generation in &self.generations {
            let PublishedGeneration { first, last, stem, .. } = generation;
            if *first != height || last < first || generation.transactions <= transactions {
                return Err(format!("the generation of blocks {first} to {last} does not follow the one before it"));
            }
            if generation.object().is_none() || generation.checksums().is_none() || generation.bytes == 0 {
                return Err(format!("the object of blocks {first} to {last} is not named by its SHA-256"));
            }
            // it becomes a part of a path
            if stem.is_empty() || !stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return Err(format!("{stem:?} is not the name of a generation"));
            }
            (height, transactions) = (last.saturating_add(1), generation.transactions);
        }
        match self.generations.last() {
            Some(last) if (last.last, last.hash) == (self.height, self.hash) => Ok(()),
            _ => Err("its generations do not end with its block".to_owned()),
        }
    }

    /// Checks that it is of this network, and that this program reads its generations.
    ///
    /// Errors: [`FleetError::WrongNetwork`]; [`FleetError::Index`] with the version that is not read, or of a generation that a
    /// reorganisation shortened.
    pub(super) fn check_use(&self, name: &ManifestName, network: Network) -> Result<(), FleetError> {
        let expected = network::name(network);
        if self.network != expected || self.genesis != network::genesis_hash(network) {
            let (object, expected) = (name.object(), expected.to_owned());
            let found = format!("{} (genesis {})", self.network, self.genesis);
            return Err(FleetError::WrongNetwork { object, found, expected });
        }
        for generation in &self.generations {
            let format = PackedFormat { file: generation.file_format, tables: generation.tables.clone() };
            format.check(Path::new(&name.object()))?;
            if generation.is_shortened() {
                let (path, last) = (PathBuf::from(name.object()), Height::from(generation.last));
                return Err(IndexError::Shortened { path, last }.into());
            }
        }
        Ok(())
    }

    /// The salt of the index.
    pub(super) fn salt(&self) -> Option<Salt> {
        hex(&self.salt).map(Salt)
    }

    /// The objects that it names.
    pub(super) fn objects(&self) -> impl Iterator<Item = ContentHash> {
        self.generations.iter().flat_map(|generation| [generation.object(), generation.checksums()]).flatten()
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    fn manifest() -> Manifest {
        let format = PackedFormat::newest();
        let part = |first, last, transactions| {
            let (hash, content) = (BlockHash::from_byte_array([7; 32]), ContentHash([9; 32]));
            let name = (format!("{first}-{last}-ab"), 100);
            PublishedGeneration::new((first, last, hash, transactions), name, (content, content), format.clone())
        };
        let generations = vec![part(0, 9, 20), part(10, 12, 30)];
        Manifest::new(Network::Regtest, "00112233445566ff", Salt([1; 16]), (5, 6), generations).unwrap()
    }

    fn refusal(change: impl FnOnce(&mut Manifest)) -> String {
        let mut manifest = manifest();
        change(&mut manifest);
        let (name, bytes) = manifest.encode().unwrap();
        match Manifest::decode(&name, &bytes).and_then(|manifest| manifest.check_use(&name, Network::Regtest)) {
            Ok(()) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_manifest_survives_its_encoding_under_one_name() {
        let manifest = manifest();
        let (name, bytes) = manifest.encode().unwrap();
        assert!(Manifest::decode(&name, &bytes).unwrap() == manifest);
        assert_eq!(manifest.encode().unwrap(), (name.clone(), bytes.clone()));
        assert_eq!(
            (name.height, manifest.salt().map(|salt| salt.0), manifest.objects().count()),
            (12, Some([1; 16]), 4)
        );
        let changed = [&bytes[..], b" "].concat();
        assert!(matches!(Manifest::decode(&name, &changed), Err(FleetError::Changed { .. })));
    }

    #[test]
    fn manifests_that_contradict_themselves_are_refused() {
        type Change = fn(&mut Manifest);

        let cases: [(Change, &str); 8] = [
            (|manifest| manifest.format = 2, "has manifest format 2, but this version of btcgraph reads format 1"),
            (|manifest| manifest.network = "mainnet".to_owned(), "is of network mainnet (genesis 0f9188f1"),
            (|manifest| manifest.salt.truncate(30), "its salt is not 32 hexadecimal digits"),
            (|manifest| manifest.generations[1].first = 9, "blocks 9 to 12 does not follow the one before it"),
            (|manifest| manifest.generations[1].transactions = 20, "does not follow the one before it"),
            (|manifest| manifest.generations[0].object.truncate(8), "is not named by its SHA-256"),
            (|manifest| manifest.generations[0].stem = "../x".to_owned(), "is not the name of a generation"),
            (|manifest| manifest.generations.truncate(1), "its generations do not end with its block"),
        ];
        for (change, expected) in cases {
            let error = refusal(change);
            assert!(error.contains(expected), "{error}");
        }
        let error = refusal(|manifest| {
            manifest.generations[0].tables.remove("txids");
        });
        assert!(error.contains("but not an index of btcgraph"), "{error}");
        assert_eq!(refusal(|_| {}), "none");
    }

    #[test]
    fn tables_and_generations_that_are_not_read_are_named() {
        let error = refusal(|manifest| {
            manifest.generations[1].tables.insert("txids".to_owned(), 9);
        });
        assert!(error.contains("has version 9 of table `txids`"), "{error}");
        // what an earlier program wrote after a reorganisation
        let error = refusal(|manifest| manifest.generations[0].stem = "0-12-ab".to_owned());
        assert!(error.contains("disconnected the blocks above height 9 of a generation"), "{error}");
        let error = refusal(|manifest| manifest.generations[0].file_format = 99);
        assert!(error.contains("has index format 99"), "{error}");
    }
}
