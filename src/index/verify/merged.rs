//! The rows that count, of the live tables and of the generations, in the order of their keys.

use std::ops::Range;

use redb::{ReadOnlyTable, Value};

use super::super::error::IndexError;
use super::super::frozen::{InForce, PackedEntries};
use super::super::hot::tables::{block_hashes, history, p2pk, payouts, spends, unspent};
use super::super::keys::TxNum;
use super::super::snapshot::Snapshot;
use super::report::{Differences, hex};
use crate::chain::Height;

/// Rows in the order of their keys.
pub(super) type SortedRows<'a, K, V> = Box<dyn Iterator<Item = Result<(K, V), IndexError>> + 'a>;

/// The live rows of a table from a key on.
pub(super) fn live<const KEY: usize, V: Value + 'static, T: 'static>(
    table: &ReadOnlyTable<&'static [u8; KEY], V>,
    from: [u8; KEY],
    value: impl for<'v> Fn(V::SelfType<'v>) -> T + 'static,
) -> Result<SortedRows<'static, [u8; KEY], T>, IndexError> {
    Ok(Box::new(table.range::<&[u8; KEY]>(&from..)?.map(move |row| {
        let (key, row) = row?;
        Ok((*key.value(), value(row.value())))
    })))
}

/// The part of a generation that counts, as transactions or as heights.
#[derive(Clone)]
pub(super) struct Extent {
    /// All that the generation has.
    own: Range<u32>,
    /// Where it ends in this index.
    end: u32,
}

impl Extent {
    pub(super) fn of_txnums(in_force: &InForce) -> Self {
        let (first, end) = in_force.generation.range().txnums;
        Self { own: first.0..end.0, end: in_force.end.0 }
    }

    pub(super) fn of_heights(in_force: &InForce) -> Self {
        let range = in_force.generation.range();
        let own = range.first.to_u32()..range.last.height.to_u32().saturating_add(1);
        Self { own, end: in_force.last.height.to_u32().saturating_add(1) }
    }

    pub(super) fn first(&self) -> u32 {
        self.own.start
    }

    /// Whether something at this place counts. `None` if the generation cannot have it.
    pub(super) fn counts(&self, at: u32) -> Option<bool> {
        self.own.contains(&at).then_some(at < self.end)
    }
}

/// The entries of a generation that count. One that the generation cannot have is an error, and so is one that does not
/// lie behind the entry before it: a lookup would miss it.
pub(super) fn in_force<'a, K: AsRef<[u8]> + Ord + Copy + 'a, V: 'a>(
    table: &'static str,
    entries: impl Iterator<Item = Result<(K, V), IndexError>> + 'a,
    extent: Extent,
    place: impl Fn(&K, &V) -> u32 + 'a,
) -> SortedRows<'a, K, V> {
    let mut before = None;
    Box::new(entries.filter_map(move |entry| {
        let (key, value) = match entry {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        let wrong = |what: &str| Some(Err(IndexError::corrupt(table, format!("row {} {what}", hex(key.as_ref())))));
        if before.is_some_and(|before| before >= key) {
            return wrong("of a generation does not lie behind the row before it");
        }
        before = Some(key);
        match extent.counts(place(&key, &value)) {
            Some(true) => Some(Ok((key, value))),
            Some(false) => None,
            None => wrong("must not exist in its generation"),
        }
    }))
}

/// Sorted rows of several sources in the order of their keys; of equal keys first that of the first source.
pub(super) struct MergedRows<'a, K, V> {
    sources: Vec<SortedSource<'a, K, V>>,
}

struct SortedSource<'a, K, V> {
    front: Option<Result<(K, V), IndexError>>,
    rest: SortedRows<'a, K, V>,
}

impl<'a, K: Ord, V> MergedRows<'a, K, V> {
    pub(super) fn new(sources: impl IntoIterator<Item = SortedRows<'a, K, V>>) -> Self {
        let source = |mut rest: SortedRows<'a, K, V>| SortedSource { front: rest.next(), rest };
        Self { sources: sources.into_iter().map(source).collect() }
    }
}

impl<K: Ord, V> Iterator for MergedRows<'_, K, V> {
    type Item = Result<(K, V), IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut lowest: Option<(usize, &K)> = None;
        for (at, source) in self.sources.iter().enumerate() {
            match &source.front {
                Some(Ok((key, _))) if lowest.is_none_or(|(_, lowest)| key < lowest) => lowest = Some((at, key)),
                Some(Err(_)) => {
                    let source = &mut self.sources[at];
                    return std::mem::replace(&mut source.front, source.rest.next());
                }
                _ => {}
            }
        }
        let at = lowest?.0;
        let source = &mut self.sources[at];
        std::mem::replace(&mut source.front, source.rest.next())
    }
}

/// Only the first row of each key.
pub(super) fn first_of_each_key<'a, K: Eq + Copy + 'a, V: 'a>(
    rows: impl Iterator<Item = Result<(K, V), IndexError>> + 'a,
) -> SortedRows<'a, K, V> {
    let mut before = None;
    Box::new(rows.filter(move |row| match row {
        Ok((key, _)) => before.replace(*key) != Some(*key),
        Err(_) => true,
    }))
}

/// Entries that are taken in the order of their keys; those that are passed over are superfluous.
pub(super) struct InOrder<'a, K, V> {
    table: &'static str,
    front: Option<(K, V)>,
    rest: SortedRows<'a, K, V>,
}

impl<'a, K: AsRef<[u8]> + Ord, V> InOrder<'a, K, V> {
    pub(super) fn new(table: &'static str, rows: impl Iterator<Item = Result<(K, V), IndexError>> + 'a) -> Self {
        Self { table, front: None, rest: Box::new(rows) }
    }

    /// The entry of this key, which is above all keys that were taken before.
    ///
    /// Errors: storage errors. A damaged entry is a difference.
    pub(super) fn take(&mut self, key: &K, differences: &mut Differences) -> Result<Option<V>, IndexError> {
        while let Some((found, value)) = self.front(differences)? {
            if found > *key {
                self.front = Some((found, value));
                break;
            }
            if found == *key {
                return Ok(Some(value));
            }
            differences.superfluous(self.table, found.as_ref());
        }
        Ok(None)
    }

    /// Reports what is left.
    ///
    /// Errors: as [`InOrder::take`].
    pub(super) fn finish(mut self, differences: &mut Differences) -> Result<(), IndexError> {
        while let Some((key, _)) = self.front(differences)? {
            differences.superfluous(self.table, key.as_ref());
        }
        Ok(())
    }

    fn front(&mut self, differences: &mut Differences) -> Result<Option<(K, V)>, IndexError> {
        if let Some(front) = self.front.take() {
            return Ok(Some(front));
        }
        for row in self.rest.by_ref() {
            if let Some(row) = differences.record(row)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

/// The transaction or height at the end of a key.
fn last_u32(key: &[u8]) -> u32 {
    key.last_chunk().map_or(u32::MAX, |number| u32::from_be_bytes(*number))
}

/// The transaction or height at the beginning of a key or value.
pub(super) fn first_u32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(u32::MAX, |number| u32::from_be_bytes(*number))
}

/// The tables that generations have in the form of live rows or nearly so. Each is what readers see as one table.
impl Snapshot {
    fn sources<'s, K, V>(
        &'s self,
        scan: impl Fn(&InForce) -> Result<SortedRows<'s, K, V>, IndexError>,
    ) -> Result<Vec<SortedRows<'s, K, V>>, IndexError> {
        self.generations.iter().map(scan).collect()
    }

    /// The first live height.
    pub(super) fn first_live_height(&self) -> Height {
        self.generations.last().map_or(Height::GENESIS, |last| last.height.next())
    }

    pub(super) fn all_block_starts(&self) -> Result<SortedRows<'_, [u8; 4], [u8; 8]>, IndexError> {
        let frozen = self.sources(|of| {
            let entries = of.generation.scan_block_starts()?;
            Ok(in_force("block_starts", entries, Extent::of_txnums(of), |key, _| first_u32(key)))
        })?;
        let live = live(&self.block_starts, self.generations.end().to_key(), |value| *value)?;
        Ok(Box::new(frozen.into_iter().flatten().chain(live)))
    }

    /// A live row overrides one of a generation.
    pub(super) fn all_block_hashes(&self) -> Result<SortedRows<'_, [u8; 32], [u8; 5]>, IndexError> {
        let frozen = self.sources(|of| {
            let entries = of.generation.scan_block_hashes()?;
            let height = |value: &[u8; 5]| block_hashes::BlockPlace::decode(value).map(|place| place.height.to_u32());
            Ok(in_force("block_hashes", entries, Extent::of_heights(of), move |_, value| {
                height(value).unwrap_or(u32::MAX)
            }))
        })?;
        let live = live(&self.block_hashes, [0; 32], |value| *value)?;
        Ok(first_of_each_key(MergedRows::new(std::iter::once(live).chain(frozen))))
    }

    pub(super) fn all_history(&self) -> Result<SortedRows<'_, history::HistoryKey, history::HistoryValue>, IndexError> {
        let frozen = self.sources(|of| {
            let entries: PackedEntries<_, _> = of.generation.scan_history()?;
            let entries = entries.map(|entry| entry.map(|(key, totals)| (key, totals.encode())));
            Ok(in_force("history", entries, Extent::of_txnums(of), |key, _| last_u32(key)))
        })?;
        let end = self.generations.end().0;
        let live = live(&self.history, [0; 14], |value| *value)?;
        let live: SortedRows<'_, _, _> =
            Box::new(live.filter(move |row| row.as_ref().map_or(true, |(key, _)| last_u32(key) >= end)));
        Ok(Box::new(MergedRows::new(frozen.into_iter().chain([live]))))
    }

    pub(super) fn all_payouts(&self) -> Result<SortedRows<'_, payouts::PayoutKey, [u8; 0]>, IndexError> {
        let frozen = self.sources(|of| {
            let entries = of.generation.scan_payouts()?.map(|entry| entry.map(|(key, ())| (key, [])));
            Ok(in_force("payouts", entries, Extent::of_heights(of), |key, _| last_u32(key)))
        })?;
        let first = self.first_live_height().to_u32();
        let live = live(&self.payouts, [0; 14], |()| [])?;
        let live: SortedRows<'_, _, _> =
            Box::new(live.filter(move |row| row.as_ref().map_or(true, |(key, _)| last_u32(key) >= first)));
        Ok(Box::new(MergedRows::new(frozen.into_iter().chain([live]))))
    }

    /// The earliest row of each script counts.
    pub(super) fn all_p2pk(&self) -> Result<SortedRows<'_, p2pk::P2pkKey, [u8; 4]>, IndexError> {
        let frozen = self.sources(|of| {
            let entries = of.generation.scan_p2pk()?;
            Ok(in_force("p2pk", entries, Extent::of_txnums(of), |_, txnum| first_u32(txnum)))
        })?;
        let live = live(&self.p2pk, [0; 30], |value| *value)?;
        Ok(first_of_each_key(MergedRows::new(frozen.into_iter().chain([live]))))
    }

    /// Live rows repeat what a generation has at most.
    pub(super) fn all_overwritten(&self) -> Result<SortedRows<'_, spends::TxPoint, [u8; 4]>, IndexError> {
        let frozen = self.sources(|of| {
            let entries = of.generation.scan_overwritten()?;
            Ok(in_force("overwritten", entries, Extent::of_txnums(of), |_, later| first_u32(later)))
        })?;
        let live = live(&self.overwritten, [0; 7], |value| *value)?;
        let mut before = None;
        Ok(Box::new(MergedRows::new(frozen.into_iter().chain([live])).filter_map(move |row| match row {
            Ok(row) if before == Some(row) => None,
            Ok((key, _)) if before.is_some_and(|(before, _)| before == key) => {
                Some(Err(IndexError::corrupt("overwritten", format!("row {} names two later copies", hex(&key)))))
            }
            Ok(row) => {
                before = Some(row);
                Some(Ok(row))
            }
            Err(error) => Some(Err(error)),
        })))
    }

    /// All rows, also those of generations that are spent since, each with whether it is live.
    pub(super) fn all_unspent(
        &self,
    ) -> Result<SortedRows<'_, unspent::UnspentKeyBytes, (unspent::UnspentValue, bool)>, IndexError> {
        let frozen = self.sources(|of| {
            let entries = of.generation.scan_unspent()?.map(|entry| entry.map(|(key, value)| (key, (value, false))));
            let txnum = |key: &unspent::UnspentKeyBytes| unspent::split_key(key).txnum;
            Ok(in_force("unspent", entries, Extent::of_txnums(of), move |key, _| txnum(key).0))
        })?;
        let live = live(&self.unspent, [0; 17], |value| (*value, true))?;
        Ok(Box::new(MergedRows::new(frozen.into_iter().chain([live]))))
    }

    /// A packed table with an entry for each transaction, of all generations.
    pub(super) fn of_each_frozen<'s, V: 's>(
        &'s self,
        table: &'static str,
        scan: impl Fn(&InForce) -> Result<PackedEntries<[u8; 4], V>, IndexError>,
    ) -> Result<InOrder<'s, [u8; 4], V>, IndexError> {
        let sources =
            self.sources(|of| Ok(in_force(table, scan(of)?, Extent::of_txnums(of), |txnum, _| first_u32(txnum))))?;
        Ok(InOrder::new(table, sources.into_iter().flatten()))
    }

    /// The generation of a transaction below their end, by its place among them.
    pub(super) fn generation_of(&self, txnum: TxNum) -> Option<(usize, &InForce)> {
        self.generations.iter().enumerate().find(|(_, of)| txnum < of.end)
    }
}
