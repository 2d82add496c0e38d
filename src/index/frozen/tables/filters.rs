//! `filters`: what is filtered (1) ‖ its first key (8) → a binary fuse filter of up to 65,536 keys: checksum of key and row (8) ‖
//! seed (8) ‖ length of a segment (4) ‖ segments but the last two, in places (4) ‖ a fingerprint of 8 bits for each place. The
//! keys in it are combined with the salt, so that no keys can be chosen of which no filter can be made.
//!
//! A filter says of a key that it is not there, or that it may be: the latter also of one in 256 that are not there. Each later
//! generation has filters of its cut hashes of txids, of the scripts in `history` and of the outputs in `late_spends`, so that a
//! look-up in all generations reads pages of few. The first generation has nearly everything, and none.
//!
//! Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters", 2022.

use bitcoin::hashes::{Hash, HashEngine, sha256};
use redb::TableDefinition;
use xorf::{BinaryFuse8, Descriptor, Filter};

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use super::super::super::hot::tables::spends::TxPoint;
use super::super::super::keys::{Salt, ScriptKey};
use super::super::builder::GenerationBuilder;
use super::super::facts::GenerationRange;
use super::super::table::StoredTable;
use super::super::versions::TableVersions;
use super::txid_prefixes::CutHash;
use crate::chain::wide;

pub(in crate::index) const NAME: &str = "filters";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; KEY], &[u8]> = TableDefinition::new(NAME);

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new(NAME, 1..=1);

const KEY: usize = 9;
/// The most keys of a filter. Making one takes some 30 bytes of memory for each.
const KEYS: usize = 1 << 16;
/// Bytes before the fingerprints.
const HEAD: usize = 8 + 8 + 4 + 4;

/// What filters are of. In the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::index) enum Filtered {
    /// Cut hashes of txids.
    Txids,
    /// Outputs of older generations that are spent.
    LateSpends,
    /// Scripts with a history.
    Scripts,
}

impl Filtered {
    const ALL: [Self; 3] = [Self::Txids, Self::LateSpends, Self::Scripts];

    fn code(self) -> u8 {
        match self {
            Self::Txids => 0,
            Self::LateSpends => 1,
            Self::Scripts => 2,
        }
    }
}

/// A key of a filter. Keys are made in the order of what they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::index) struct FilterKey(u64);

impl FilterKey {
    /// The key as filters have it.
    fn salted(self, Salt(salt): Salt) -> u64 {
        self.0 ^ number(&salt[..8])
    }
}

impl From<CutHash> for FilterKey {
    fn from(hash: CutHash) -> Self {
        Self(number(&hash.to_key()))
    }
}

impl From<ScriptKey> for FilterKey {
    /// Scripts that differ in what is left out alone share a key.
    fn from(ScriptKey(key): ScriptKey) -> Self {
        Self(number(&key[..8]))
    }
}

impl From<TxPoint> for FilterKey {
    fn from(outpoint: TxPoint) -> Self {
        Self(number(&outpoint))
    }
}

/// The number that at most 8 bytes are, the highest first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Makes the filters of one kind from keys that come in order.
pub(in crate::index) struct FilterPacker {
    of: Filtered,
    salt: Salt,
    /// `None` of the first generation.
    keys: Option<Vec<FilterKey>>,
    last: Option<FilterKey>,
}

impl FilterPacker {
    /// For a generation of these blocks.
    pub(in crate::index) fn new(of: Filtered, range: &GenerationRange, salt: Salt) -> Self {
        Self { of, salt, keys: (range.txnums.0.0 > 0).then(Vec::new), last: None }
    }

    /// Adds a key, which may come several times.
    ///
    /// Errors: as [`GenerationBuilder::append`].
    pub(in crate::index) fn push(
        &mut self,
        key: impl Into<FilterKey>,
        builder: &mut GenerationBuilder,
    ) -> Result<(), IndexError> {
        let Some(keys) = &mut self.keys else { return Ok(()) };
        let key = key.into();
        if self.last.replace(key) == Some(key) {
            return Ok(());
        }
        if keys.len() == KEYS {
            write(self.of, self.salt, keys, builder)?;
            keys.clear();
        }
        keys.push(key);
        Ok(())
    }

    /// Writes the last filter.
    ///
    /// Errors: as [`GenerationBuilder::append`].
    pub(in crate::index) fn finish(self, builder: &mut GenerationBuilder) -> Result<(), IndexError> {
        write(self.of, self.salt, &self.keys.unwrap_or_default(), builder)
    }
}

/// Writes a filter of keys that ascend: two of half of them each, if none can be made of all.
fn write(of: Filtered, salt: Salt, keys: &[FilterKey], builder: &mut GenerationBuilder) -> Result<(), IndexError> {
    let Some(first) = keys.first() else { return Ok(()) };
    let salted: Vec<_> = keys.iter().map(|key| key.salted(salt)).collect();
    match BinaryFuse8::try_from(&salted) {
        // a key that it hides would be money that is lost
        Ok(filter) if salted.iter().all(|key| filter.contains(key)) => {
            let key = row_key(of, *first);
            builder.append(TABLE, &[(key, encode(&key, &filter))], Vec::as_slice)
        }
        _ if keys.len() > 1 => {
            let (low, high) = keys.split_at(keys.len() / 2);
            write(of, salt, low, builder)?;
            write(of, salt, high, builder)
        }
        _ => Err(IndexError::corrupt(NAME, format!("no filter can be made of {first:?}"))),
    }
}

fn row_key(of: Filtered, FilterKey(first): FilterKey) -> [u8; KEY] {
    let mut key = [of.code(); KEY];
    key[1..].copy_from_slice(&first.to_be_bytes());
    key
}

fn encode(key: &[u8; KEY], BinaryFuse8 { descriptor, fingerprints }: &BinaryFuse8) -> Vec<u8> {
    let mut body = Encoder::default();
    body.u64(descriptor.seed).u32(descriptor.segment_length).u32(descriptor.segment_count_length).bytes(fingerprints);
    let body = body.finish();
    [&checksum(key, &body), &body[..]].concat()
}

/// The filter of a row whose checksum matches.
///
/// Errors: [`IndexError::Corrupt`] if it does not: a damaged filter would hide what is there.
fn decode(key: &[u8; KEY], row: &[u8]) -> Result<BinaryFuse8, IndexError> {
    let damaged = || IndexError::corrupt(NAME, "a row is damaged");
    let (sum, body) = row.split_first_chunk().ok_or_else(damaged)?;
    if checksum(key, body) != *sum {
        return Err(damaged());
    }
    let mut fields = Decoder::new(NAME, body);
    let (seed, segment_length, segment_count_length) = (fields.u64()?, fields.u32()?, fields.u32()?);
    let fingerprints: Box<[u8]> = row.get(HEAD..).ok_or_else(damaged)?.into();
    let places = u64::from(segment_count_length) + 2 * u64::from(segment_length);
    let is_sound = segment_length.is_power_of_two()
        && segment_count_length > 0
        && segment_count_length.is_multiple_of(segment_length)
        && wide(fingerprints.len()) == places;
    let descriptor =
        Descriptor { seed, segment_length, segment_length_mask: segment_length.wrapping_sub(1), segment_count_length };
    is_sound.then_some(BinaryFuse8 { descriptor, fingerprints }).ok_or_else(damaged)
}

fn checksum(key: &[u8; KEY], body: &[u8]) -> [u8; 8] {
    let mut engine = sha256::Hash::engine();
    engine.input(key);
    engine.input(body);
    let mut sum = [0; 8];
    sum.copy_from_slice(&sha256::Hash::from_engine(engine).to_byte_array()[..8]);
    sum
}

/// The filters of a generation, in memory.
pub(in crate::index) struct Filters {
    salt: Salt,
    /// Of each kind its filters with their first keys, which ascend.
    kinds: [Vec<(FilterKey, BinaryFuse8)>; Filtered::ALL.len()],
}

impl Filters {
    /// Reads all of them, of which so many were counted when they were made.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if one is damaged or missing.
    pub(in crate::index) fn read(
        table: &impl StoredTable<&'static [u8; KEY], &'static [u8]>,
        counted: u64,
        salt: Salt,
    ) -> Result<Self, IndexError> {
        let (mut kinds, mut rows, mut before) = ([const { Vec::new() }; Filtered::ALL.len()], 0_u64, None);
        for row in table.range::<&[u8; KEY]>(..)? {
            let (key, row) = row?;
            let key = *key.value();
            if before.replace(key).is_some_and(|before| before >= key) {
                return Err(IndexError::corrupt(NAME, "rows are not in order"));
            }
            let [code, first @ ..] = key;
            let filters: Option<&mut Vec<_>> = kinds.get_mut(usize::from(code));
            let filters = filters.ok_or_else(|| IndexError::corrupt(NAME, format!("kind {code} is not known")))?;
            filters.push((FilterKey(u64::from_be_bytes(first)), decode(&key, row.value())?));
            rows += 1;
        }
        if rows == counted {
            Ok(Self { salt, kinds })
        } else {
            Err(IndexError::corrupt(NAME, format!("there are {rows} rows instead of {counted}")))
        }
    }

    /// Whether a key may be there. False only if it is not.
    pub(in crate::index) fn may_have(&self, of: Filtered, key: impl Into<FilterKey>) -> bool {
        let (filters, key) = (&self.kinds[usize::from(of.code())], key.into());
        let at = filters.partition_point(|(first, _)| *first <= key);
        at.checked_sub(1).is_some_and(|at| filters[at].1.contains(&key.salted(self.salt)))
    }
}

#[cfg(test)]
mod tests {
    use redb::{Database, ReadableDatabase};

    use super::super::super::super::hot::tip::Tip;
    use super::super::super::super::keys::TxNum;
    use super::*;
    use crate::chain::Height;

    const SALT: Salt = Salt([7; 16]);

    fn range(first: u32) -> GenerationRange {
        let last = Tip { height: Height::from(9), hash: bitcoin::BlockHash::all_zeros() };
        GenerationRange { first: Height::GENESIS, last, txnums: (TxNum(first), TxNum(first + 1)) }
    }

    /// A number that looks random.
    fn random(seed: u8, at: usize) -> u64 {
        number(&sha256::Hash::hash(&[&[seed][..], &at.to_be_bytes()].concat()).to_byte_array()[..8])
    }

    /// The rows of filters of these keys of a generation with this first transaction.
    fn packed(first: u32, keys: &[(Filtered, Vec<u64>)]) -> Vec<([u8; KEY], Vec<u8>)> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("filters");
        let mut builder = GenerationBuilder::create(&path).unwrap();
        for (of, keys) in keys {
            let mut packer = FilterPacker::new(*of, &range(first), SALT);
            for key in keys {
                // each comes as often as a row has it
                packer.push(FilterKey(*key), &mut builder).unwrap();
                packer.push(FilterKey(*key), &mut builder).unwrap();
            }
            packer.finish(&mut builder).unwrap();
        }
        builder.finish(&[]).unwrap();
        drop(builder);
        let database = Database::open(&path).unwrap();
        let Ok(table) = database.begin_read().unwrap().open_table(TABLE) else { return Vec::new() };
        let rows = table.range::<&[u8; KEY]>(..).unwrap();
        rows.map(|row| row.map(|(key, row)| (*key.value(), row.value().to_vec())).unwrap()).collect()
    }

    fn read(rows: &[([u8; KEY], Vec<u8>)]) -> Result<Filters, IndexError> {
        Filters::read(&super::super::tests::table_of(TABLE, rows), wide(rows.len()), SALT)
    }

    #[test]
    fn all_keys_may_be_there_and_few_others() {
        let sorted = |seed: u8, count: usize| {
            let mut keys: Vec<_> = (0..count).map(|at| random(seed, at)).collect();
            keys.sort_unstable();
            keys
        };
        // one filter and its last key in the next, several, and keys that follow each other
        let txids = sorted(1, KEYS + 1);
        let (late, scripts) = ((1_000..1_300).collect::<Vec<_>>(), sorted(2, 3 * KEYS - 5));
        let kinds = [(Filtered::Txids, txids), (Filtered::LateSpends, late), (Filtered::Scripts, scripts)];
        let rows = packed(5, &kinds);
        assert_eq!(rows.iter().map(|(key, _)| key[0]).collect::<Vec<_>>(), [0, 0, 1, 2, 2, 2]);
        let filters = read(&rows).unwrap();
        for (of, keys) in &kinds {
            assert!(keys.iter().all(|key| filters.may_have(*of, FilterKey(*key))), "{of:?}");
        }
        let found = (0..40_000).filter(|at| filters.may_have(Filtered::Scripts, FilterKey(random(3, *at)))).count();
        assert!((60..320).contains(&found), "{found} of 40,000");
        let bytes: usize = rows.iter().filter(|(key, _)| key[0] == 2).map(|(_, row)| row.len()).sum();
        assert!(8 * bytes < 10 * 3 * KEYS, "{bytes}");
    }

    #[test]
    fn few_keys_have_filters_too() {
        for count in 0..70 {
            let keys: Vec<_> = (0..count).map(|at| at * at).collect();
            let filters = read(&packed(1, &[(Filtered::LateSpends, keys.clone())])).unwrap();
            assert!(keys.iter().all(|key| filters.may_have(Filtered::LateSpends, FilterKey(*key))), "{count}");
            assert!(!filters.may_have(Filtered::Txids, FilterKey(0)));
        }
    }

    #[test]
    fn the_first_generation_has_none() {
        assert_eq!(packed(0, &[(Filtered::Txids, vec![1, 2, 3])]), []);
    }

    #[test]
    fn a_damaged_filter_is_not_used() {
        let rows = packed(1, &[(Filtered::Scripts, (0..300).collect())]);
        let [(key, row)] = &rows[..] else { panic!("{} rows", rows.len()) };
        for at in 0..row.len() {
            let mut damaged = row.clone();
            damaged[at] ^= 4;
            assert!(read(&[(*key, damaged)]).is_err(), "byte {at}");
            assert!(read(&[(*key, row[..at].to_vec())]).is_err(), "{at} bytes");
        }
        // a key that was read wrong, a row that is missing
        let mut higher = *key;
        higher[8] ^= 1;
        assert!(read(&[(higher, row.clone())]).is_err());
        let table = super::super::tests::table_of(TABLE, &rows);
        assert!(Filters::read(&table, 1, SALT).is_ok() && Filters::read(&table, 2, SALT).is_err());
        // sizes that would lead out of the filter, with a checksum that is right
        for (segment, segments) in [(0, 256), (3, 256), (64, 0), (64, 65), (64, 1 << 30), (u32::MAX, u32::MAX)] {
            let mut body = row[8..].to_vec();
            body[8..12].copy_from_slice(&u32::to_be_bytes(segment));
            body[12..16].copy_from_slice(&u32::to_be_bytes(segments));
            let whole = [&checksum(key, &body), &body[..]].concat();
            assert!(decode(key, &whole).is_err(), "{segment} {segments}");
        }
        let mut unknown = *key;
        unknown[0] = 3;
        let whole = [&checksum(&unknown, &row[8..]), &row[8..]].concat();
        assert!(read(&[(unknown, whole)]).is_err());
    }
}
