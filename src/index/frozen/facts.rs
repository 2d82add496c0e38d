//! What stands in a file of packed tables about all of it: the network, the salt, its blocks, and of each table the version
//! and what it has.

use std::collections::BTreeMap;
use std::path::Path;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network};
use redb::{Builder, ReadTransaction, ReadableDatabase, TableError};

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::hot::tables::meta;
use super::super::hot::tip::Tip;
use super::super::keys::{Salt, TxNum};
use super::builder::Count;
use super::table::PackedFile;
use super::tables::all;
use super::tables::txid_prefixes::CutBits;
use super::versions::{TableVersions, unknown_table};
use crate::chain::{Height, network};

/// The format of files of packed tables, beside the versions of the tables. Raised when the facts themselves change.
const FORMAT_VERSION: u32 = 3;
const RANGE: &str = "range";
const CUT_BITS: &str = "cut_bits";
/// What the name of a table is behind, in the facts about it.
const COUNT: &str = "count.";
const VERSION: &str = "version.";

/// The blocks and transactions of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationRange {
    /// Its lowest block.
    pub first: Height,
    /// Its highest block.
    pub last: Tip,
    /// Its transactions.
    pub txnums: (TxNum, TxNum),
}

impl GenerationRange {
    /// How many transactions it has.
    #[must_use]
    pub fn transactions(&self) -> u32 {
        self.txnums.1.0.saturating_sub(self.txnums.0.0)
    }

    /// Whether a transaction is one of it.
    #[must_use]
    pub fn contains(&self, txnum: TxNum) -> bool {
        (self.txnums.0..self.txnums.1).contains(&txnum)
    }

    /// How many bits the cut hashes of its transactions have.
    pub(super) fn cut_bits(&self) -> CutBits {
        CutBits::of(self.transactions())
    }

    fn encode(&self) -> Vec<u8> {
        let mut fact = Encoder::default();
        fact.u32(self.first.to_u32()).u32(self.last.height.to_u32()).bytes(self.last.hash.as_byte_array());
        fact.u32(self.txnums.0.0).u32(self.txnums.1.0);
        fact.finish()
    }

    fn decode(fact: &[u8]) -> Result<Self, IndexError> {
        let mut fact = Decoder::new("meta", fact);
        let range = Self {
            first: fact.u32()?.into(),
            last: Tip { height: fact.u32()?.into(), hash: BlockHash::from_byte_array(fact.array()?) },
            txnums: (TxNum(fact.u32()?), TxNum(fact.u32()?)),
        };
        fact.finish()?;
        Ok(range)
    }
}

/// The facts of a generation.
pub(in crate::index) fn generation_facts(
    range: &GenerationRange,
    network: Network,
    salt: Salt,
    counts: &BTreeMap<String, Count>,
) -> Vec<(String, Vec<u8>)> {
    let has_filters = counts.contains_key(all::FILTERS.name);
    let tables = all::VERSIONS.iter().chain(has_filters.then_some(&all::FILTERS));
    let versions = tables.map(|table| (table.name, table.newest()));
    facts(range, (network, salt), range.cut_bits(), versions, counts)
}

/// The facts of a file with tables of these versions.
pub(super) fn facts<'v>(
    range: &GenerationRange,
    (network, salt): (Network, Salt),
    cut_bits: CutBits,
    versions: impl IntoIterator<Item = (&'v str, u32)>,
    counts: &BTreeMap<String, Count>,
) -> Vec<(String, Vec<u8>)> {
    let fact = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    let mut facts = vec![
        fact(meta::FORMAT, &FORMAT_VERSION.to_be_bytes()),
        fact(meta::NETWORK, network::name(network).as_bytes()),
        fact(meta::SALT, &salt.0),
        fact(RANGE, &range.encode()),
        fact(CUT_BITS, &cut_bits.to_u32().to_be_bytes()),
    ];
    facts.extend(
        versions.into_iter().map(|(table, version)| (format!("{VERSION}{table}"), version.to_be_bytes().to_vec())),
    );
    facts.extend(counts.iter().map(|(table, count)| {
        let mut fact = Encoder::default();
        fact.u64(count.rows).u64(count.bytes);
        (format!("{COUNT}{table}"), fact.finish())
    }));
    facts
}

/// The format of a file of packed tables, and the version of each of its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFormat {
    /// The format of the file itself.
    pub file: u32,
    /// The version of each table, by its name.
    pub tables: BTreeMap<String, u32>,
}

impl PackedFormat {
    /// The format that this program writes.
    #[must_use]
    pub fn newest() -> Self {
        let tables = all::VERSIONS.iter().map(|table| (table.name.to_owned(), table.newest())).collect();
        Self { file: FORMAT_VERSION, tables }
    }

    /// Checks that this program reads generations of this format. `name` is that of the file, for the error.
    ///
    /// Errors: [`IndexError::WrongVersion`], `TableVersion`, `Foreign` if a table is missing.
    pub fn check(&self, name: &Path) -> Result<(), IndexError> {
        if self.file != FORMAT_VERSION {
            let (path, found) = (name.to_path_buf(), self.file);
            return Err(IndexError::WrongVersion { path, found, expected: FORMAT_VERSION });
        }
        check_versions(&self.tables, name, &all::VERSIONS, &[all::FILTERS])
    }
}

/// What a generation says of itself, read without knowing whose it is.
#[derive(Clone)]
pub struct GenerationIdentity {
    /// The salt of its index.
    pub salt: Salt,
    /// Its blocks and transactions.
    pub range: GenerationRange,
    /// Its format.
    pub format: PackedFormat,
}

impl GenerationIdentity {
    /// Reads it from a file that is complete and closed.
    ///
    /// Errors: [`IndexError::Foreign`] if it is no generation, `WrongVersion`, `WrongNetwork`, storage errors.
    pub fn read(path: &Path, network: Network) -> Result<Self, IndexError> {
        let opened = Builder::new().set_cache_size(1 << 20).open_read_only(path);
        let database = opened.map_err(|error| IndexError::opening(path, error))?;
        let facts = FileFacts::read(path, &database.begin_read()?, network, None)?;
        let format = PackedFormat { file: FORMAT_VERSION, tables: facts.versions };
        Ok(Self { salt: facts.salt, range: facts.range, format })
    }
}

/// The facts of an open file.
pub(super) struct FileFacts {
    salt: Salt,
    pub(super) range: GenerationRange,
    pub(super) cut_bits: CutBits,
    pub(super) counts: Vec<(String, Count)>,
    versions: BTreeMap<String, u32>,
}

impl FileFacts {
    /// Opens a file of packed tables for reading, of which at most `cache_bytes` of pages are kept in memory. Repairs a
    /// complete file that was not closed.
    ///
    /// Errors: [`IndexError::Foreign`] if it is none, `WrongVersion`, `WrongNetwork`, `WrongSalt` if it is of another
    /// kind, storage errors.
    pub(super) fn open(
        path: &Path,
        network: Network,
        salt: Salt,
        cache_bytes: usize,
    ) -> Result<(Self, PackedFile), IndexError> {
        let file = PackedFile::open(path, cache_bytes)?;
        Ok((Self::of(&file, path, network, salt)?, file))
    }

    /// Those of an open file.
    ///
    /// Errors: as [`FileFacts::open`].
    pub(super) fn of(file: &PackedFile, path: &Path, network: Network, salt: Salt) -> Result<Self, IndexError> {
        Self::read(path, file.transaction(), network, Some(salt))
    }

    /// `salt` is the one that it must have, `None` for any.
    fn read(
        path: &Path,
        transaction: &ReadTransaction,
        network: Network,
        salt: Option<Salt>,
    ) -> Result<Self, IndexError> {
        let foreign = || IndexError::Foreign { path: path.to_path_buf() };
        let facts = transaction.open_table(meta::TABLE).map_err(|error| match error {
            TableError::Storage(error) => error.into(),
            _ => foreign(),
        })?;
        let fact =
            |name: &str| -> Result<Vec<u8>, IndexError> { Ok(facts.get(name)?.ok_or_else(foreign)?.value().to_vec()) };
        let number = |name: &str| -> Result<u32, IndexError> {
            Ok(u32::from_be_bytes(fact(name)?.try_into().map_err(|_| foreign())?))
        };
        let (file, expected) = (|| path.to_path_buf(), network::name(network));
        let found = number(meta::FORMAT)?;
        if found != FORMAT_VERSION {
            return Err(IndexError::WrongVersion { path: file(), found, expected: FORMAT_VERSION });
        }
        let found = fact(meta::NETWORK)?;
        if found != expected.as_bytes() {
            let found = String::from_utf8_lossy(&found).into_owned();
            return Err(IndexError::WrongNetwork { path: file(), found, expected: expected.into() });
        }
        let found = Salt(fact(meta::SALT)?.try_into().map_err(|_| foreign())?);
        if salt.is_some_and(|wanted| wanted != found) {
            return Err(IndexError::WrongSalt { path: file() });
        }
        let range = GenerationRange::decode(&fact(RANGE)?)?;
        let cut_bits = CutBits::new(number(CUT_BITS)?).ok_or_else(foreign)?;
        let mut counts = Vec::new();
        for row in facts.range(COUNT..)? {
            let (name, value) = row?;
            let Some(table) = name.value().strip_prefix(COUNT) else { break };
            let mut value = Decoder::new("meta", value.value());
            counts.push((table.to_owned(), Count { rows: value.u64()?, bytes: value.u64()? }));
        }
        let mut versions = BTreeMap::new();
        for row in facts.range(VERSION..)? {
            let (name, value) = row?;
            let Some(table) = name.value().strip_prefix(VERSION) else { break };
            versions.insert(table.to_owned(), Decoder::new("meta", value.value()).u32()?);
        }
        Ok(Self { salt: found, range, cut_bits, counts, versions })
    }

    /// Checks that the file has these tables, perhaps those that it `may_have`, and no others, each in a version that is read.
    ///
    /// Errors: [`IndexError::TableVersion`], `Foreign` if one is missing.
    pub(super) fn check_versions(
        &self,
        path: &Path,
        tables: &[TableVersions],
        may_have: &[TableVersions],
    ) -> Result<(), IndexError> {
        check_versions(&self.versions, path, tables, may_have)
    }

    /// The version of a table.
    pub(super) fn version(&self, table: &str) -> Option<u32> {
        self.versions.get(table).copied()
    }
}

/// Checks that a file has these tables, perhaps those that it `may_have`, and no others, each in a version that is read.
fn check_versions(
    versions: &BTreeMap<String, u32>,
    path: &Path,
    tables: &[TableVersions],
    may_have: &[TableVersions],
) -> Result<(), IndexError> {
    for (name, found) in versions {
        match tables.iter().chain(may_have).find(|table| table.name == name) {
            Some(table) => table.check(path, *found)?,
            None => return Err(unknown_table(path, name, *found)),
        }
    }
    if tables.iter().all(|table| versions.contains_key(table.name)) {
        Ok(())
    } else {
        Err(IndexError::Foreign { path: path.to_path_buf() })
    }
}
