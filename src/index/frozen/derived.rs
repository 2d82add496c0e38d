//! Tables of generations in files of their own: optional tables, and, once a version of a table changes, those that are
//! built again. They can be made again from the blocks, so a file that is missing is not an error.

use std::fmt;
use std::path::Path;

use bitcoin::{Network, Wtxid};

use super::super::codec::{Decoder, Encoder};
use super::super::damage::catch_damage;
use super::super::error::IndexError;
use super::super::keys::{Salt, TxNum};
use super::super::optional::OptionalTable;
use super::super::table_rows::TableRows;
use super::builder::Count;
use super::facts::{FileFacts, GenerationRange};
use super::retirable::RetirableFile;
use super::table::{FrozenTable, PackedFile};
use super::tables::txid_prefixes::{self, CutBits};
use super::tables::{address_prefixes, op_returns, wtxids};
use super::versions::unknown_table;

const EXTENSION: &str = ".redb";

/// The name of a file with one table of a generation: `<generation>.<table>-<version>.redb`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::index) struct DerivedName {
    /// The name of the generation's file without its extension.
    stem: String,
    pub(in crate::index) table: String,
    pub(in crate::index) version: u32,
}

impl DerivedName {
    /// A table in its newest version, of the generation with this file.
    pub(in crate::index) fn newest(table: OptionalTable, generation: &str) -> Self {
        let stem = generation.strip_suffix(EXTENSION).unwrap_or(generation).to_owned();
        Self { stem, table: table.name().to_owned(), version: table.versions().newest() }
    }

    /// Whether it is of this table.
    pub(in crate::index) fn is_of(&self, table: OptionalTable) -> bool {
        self.table == table.name()
    }

    pub(in crate::index) fn with_version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// `None` if the file is none of these, such as that of a generation, whose name has no dot but that of its extension.
    pub(in crate::index) fn parse(file: &str) -> Option<Self> {
        let (stem, table) = file.strip_suffix(EXTENSION)?.split_once('.')?;
        let (table, version) = table.rsplit_once('-')?;
        Some(Self { stem: stem.to_owned(), table: table.to_owned(), version: version.parse().ok()? })
    }

    pub(in crate::index) fn file(&self) -> String {
        format!("{self}{EXTENSION}")
    }

    /// The file of the generation.
    pub(in crate::index) fn generation(&self) -> String {
        format!("{}{EXTENSION}", self.stem)
    }

    /// Errors: [`IndexError::TableVersion`] if this program does not read the table in this version and no older one.
    pub(in crate::index) fn check(&self, directory: &Path) -> Result<(), IndexError> {
        let path = directory.join(self.file());
        match OptionalTable::named(&self.table) {
            Some(table) if self.version < *table.versions().readable.start() => Ok(()),
            Some(table) => table.versions().check(&path, self.version),
            None => Err(unknown_table(&path, &self.table, self.version)),
        }
    }

    /// The row of these files in `meta`.
    pub(in crate::index) fn encode_all<'n>(names: impl IntoIterator<Item = &'n Self>) -> Vec<u8> {
        let mut row = Encoder::default();
        for name in names {
            row.blob(name.file().as_bytes());
        }
        row.finish()
    }

    pub(in crate::index) fn decode_all(row: &[u8]) -> Result<Vec<Self>, IndexError> {
        let (mut row, mut names) = (Decoder::new("meta", row), Vec::new());
        while !row.is_empty() {
            let name = std::str::from_utf8(row.blob()?).ok().and_then(Self::parse);
            names.push(name.ok_or_else(|| row.corrupt("names a file that is none of a table"))?);
        }
        Ok(names)
    }
}

/// Without the extension.
impl fmt::Display for DerivedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stem, table, version } = self;
        write!(f, "{stem}.{table}-{version}")
    }
}

/// A packed table in a file of its own.
pub(in crate::index) enum PackedTable {
    Wtxids(FrozenTable<&'static [u8; 6], &'static [u8]>),
    AddressPrefixes(FrozenTable<&'static [u8; 12], &'static [u8]>),
    OpReturns(FrozenTable<&'static [u8; 10], &'static [u8]>),
}

impl PackedTable {
    fn open(table: OptionalTable, opened: &PackedFile) -> Result<Self, IndexError> {
        Ok(match table {
            OptionalTable::Wtxids => Self::Wtxids(opened.table(wtxids::TABLE)?),
            OptionalTable::OpReturns => Self::OpReturns(opened.table(op_returns::TABLE)?),
            OptionalTable::AddressPrefixes => Self::AddressPrefixes(opened.table(address_prefixes::TABLE)?),
        })
    }

    fn len(&self) -> Result<u64, IndexError> {
        Ok(match self {
            Self::Wtxids(table) => table.len()?,
            Self::AddressPrefixes(table) => table.len()?,
            Self::OpReturns(table) => table.len()?,
        })
    }
}

/// An optional table of a generation, open for reading.
pub(in crate::index) struct DerivedFile {
    packed: PackedTable,
    pub(in crate::index) name: DerivedName,
    table: OptionalTable,
    pub(super) range: GenerationRange,
    cut_bits: CutBits,
    counts: Vec<(String, Count)>,
    salt: Salt,
    /// Last, because fields are dropped in this order: the file is closed before it is removed.
    file: RetirableFile,
}

impl DerivedFile {
    /// Opens a file, of which at most `cache_bytes` of pages are kept in memory.
    ///
    /// Errors: as [`Generation::open`](super::Generation::open); [`IndexError::Damaged`].
    pub(in crate::index) fn open(
        directory: &Path,
        name: &DerivedName,
        network: Network,
        salt: Salt,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        // it can be made again, so damage to it is not damage to the index
        catch_damage(|| Self::read(directory, name, network, salt, cache_bytes))
    }

    fn read(
        directory: &Path,
        name: &DerivedName,
        network: Network,
        salt: Salt,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        let path = directory.join(name.file());
        let (facts, opened) = FileFacts::open(&path, network, salt, cache_bytes)?;
        let table = OptionalTable::named(&name.table);
        let table = table.ok_or_else(|| unknown_table(&path, &name.table, name.version))?;
        facts.check_versions(&path, &[table.versions()], &[])?;
        if facts.version(table.name()) != Some(name.version) {
            return Err(IndexError::Foreign { path });
        }
        let FileFacts { range, cut_bits, counts, .. } = facts;
        let file = RetirableFile::new(&path);
        let (packed, name) = (PackedTable::open(table, &opened)?, name.clone());
        Ok(Self { packed, name, table, range, cut_bits, counts, salt, file })
    }

    /// Whether it has the transactions whose wtxid is their txid.
    pub(in crate::index) fn has_transactions_without_witness(&self) -> bool {
        wtxids::has_transactions_without_witness(self.name.version)
    }

    /// The table that it has.
    pub(in crate::index) fn optional(&self) -> OptionalTable {
        self.table
    }

    /// Has the file removed once its last reader drops it.
    pub(in crate::index) fn retire(&self) {
        self.file.retire();
    }

    /// The transactions that may have this wtxid, oldest first; none unless it is `wtxids`.
    pub(in crate::index) fn wtxid_candidates(&self, wtxid: &Wtxid) -> Result<Vec<TxNum>, IndexError> {
        match &self.packed {
            PackedTable::Wtxids(table) => {
                txid_prefixes::read(wtxids::NAME, table, self.cut_bits.cut(self.salt.wtxid_prefix(wtxid)))
            }
            PackedTable::AddressPrefixes(_) | PackedTable::OpReturns(_) => Ok(Vec::new()),
        }
    }

    /// How many bits of a keyed hash it has.
    pub(in crate::index) fn cut_bits(&self) -> CutBits {
        self.cut_bits
    }

    pub(in crate::index) fn packed(&self) -> &PackedTable {
        &self.packed
    }

    /// The number of its rows, and the number that was counted when it was built.
    pub(in crate::index) fn count(&self) -> Result<(u64, u64), IndexError> {
        Ok((self.packed.len()?, self.rows().map(|table| table.rows).sum()))
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = TableRows> {
        self.counts.iter().map(|(name, count)| TableRows {
            name: name.clone(),
            rows: count.rows,
            bytes: Some(count.bytes),
        })
    }

    /// The bytes of its file, `None` if the file system does not report them.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.file.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_survive_encoding_and_are_none_of_generations() {
        let names = [
            DerivedName::newest(OptionalTable::Wtxids, "0-99-ab-00000001.redb"),
            DerivedName::newest(OptionalTable::Wtxids, "100-120-cd-7.redb").with_version(1),
        ];
        assert_eq!(names[0].file(), "0-99-ab-00000001.wtxids-2.redb");
        assert_eq!(names[0].generation(), "0-99-ab-00000001.redb");
        assert_eq!(DerivedName::decode_all(&DerivedName::encode_all(&names)).unwrap(), names);
        for other in ["0-99-ab-00000001.redb", "stray.redb", "a.wtxids-x.redb", "a.wtxids.redb", "a.wtxids-1"] {
            assert_eq!(DerivedName::parse(other), None, "{other}");
        }
        assert!(DerivedName::decode_all(&[3, b'a', b'b']).is_err());
        assert!(DerivedName::decode_all(&[1, 0xff]).is_err());
    }

    #[test]
    fn newer_and_unknown_tables_are_refused() {
        let refusal = |file: &str| {
            let name = DerivedName::parse(file).unwrap();
            name.check(Path::new("/frozen")).map_err(|error| error.to_string())
        };
        assert_eq!(["a.wtxids-0.redb", "a.wtxids-1.redb", "a.wtxids-2.redb"].map(refusal), [Ok(()), Ok(()), Ok(())]);
        let error = refusal("a.wtxids-3.redb").unwrap_err();
        assert!(error.contains("/frozen/a.wtxids-3.redb has version 3 of table `wtxids`"), "{error}");
        assert!(error.contains("reads versions 1 to 2"), "{error}");
        assert!(refusal("a.sats-1.redb").unwrap_err().contains("does not know that table"));
    }
}
