//! The optional tables: each row that a transaction must have is a live one or in the file of its generation, and no other
//! row exists.

use std::iter::Peekable;

use super::super::error::IndexError;
use super::super::frozen::tables::address_prefixes;
use super::super::frozen::{DerivedFile, InForce};
use super::super::hot::tables::wtxids;
use super::super::keys::TxNum;
use super::super::optional::{OptionalTable, RowContext, TableState, txnum_of};
use super::digest::Digest;
use super::duplicates::StoredHashes;
use super::merged::{Extent, SortedRows, live};
use super::report::TableReport;
use super::work::{Work, sorting};
use crate::chain::raw::RawTransaction;

/// Last byte of an expected key that has no live row: a version of the packed table has it.
const PACKED_ONLY: u8 = 0;
const LIVE: u8 = 1;

/// Live keys of a table, in their order.
type LiveKeys<'a> = Peekable<Box<dyn Iterator<Item = Result<Vec<u8>, IndexError>> + 'a>>;

/// What a file has, read beside the rows that it must have.
enum StoredFile {
    Hashes(StoredHashes),
    Entries(StoredEntries),
}

/// The entries of a file that count, key and value one behind the other.
struct StoredEntries {
    entries: Peekable<Box<dyn Iterator<Item = Result<Vec<u8>, IndexError>>>>,
    /// What the entry is the first of.
    before: Vec<u8>,
}

impl Work<'_> {
    /// Expects the rows of a transaction in the tables that are on.
    pub(super) fn expect_optional(&mut self, txnum: TxNum, transaction: &RawTransaction<'_>) -> Result<(), IndexError> {
        let context = RowContext { salt: self.snapshot.salt(), network: self.snapshot.network() };
        for table in OptionalTable::ALL {
            let TableState::On { .. } = self.snapshot.optional.state(table) else { continue };
            let expected = &mut self.optional[table.place()];
            let mut pushed = Ok(());
            if table == OptionalTable::Wtxids && !transaction.has_witness() {
                let key = wtxids::key_of(context.salt, txnum, transaction);
                pushed = expected.push(&[&key, &[PACKED_ONLY]]);
            }
            table.each_key(context, txnum, transaction, &mut |key| {
                if pushed.is_ok() {
                    pushed = expected.push(&[key, &[LIVE]]);
                }
            });
            pushed.map_err(sorting)?;
        }
        Ok(())
    }

    /// Compares the tables that are on.
    pub(super) fn compare_optional(&mut self) -> Result<Vec<TableReport>, IndexError> {
        let mut reports = Vec::new();
        for table in OptionalTable::ALL {
            reports.extend(self.compare_optional_table(table)?);
        }
        Ok(reports)
    }

    fn compare_optional_table(&mut self, table: OptionalTable) -> Result<Option<TableReport>, IndexError> {
        let (snapshot, name) = (self.snapshot, table.name());
        let mut rows = self.live_keys(table)?;
        let from = match snapshot.optional.state(table) {
            TableState::On { from } => from,
            // rows that are being deleted are not read
            TableState::Dropping { .. } => return Ok(None),
            TableState::Off => {
                self.superfluous_keys(table, &mut rows, None)?;
                return Ok(None);
            }
        };
        let mut stored = Vec::new();
        for of in snapshot.generations.iter() {
            stored.push(match of.derived(table) {
                Some(file) => Some(self.stored_file(table, of, file)?),
                None => None,
            });
        }
        let damaged = || IndexError::corrupt(name, "a temporary file is damaged");
        let like = self.optional[table.place()].like();
        let expected = std::mem::replace(&mut self.optional[table.place()], like).sorted().map_err(sorting)?;
        let mut digest = Digest::default();
        for record in expected {
            let record = record.map_err(sorting)?;
            let (kind, key) = record.split_last().ok_or_else(damaged)?;
            let (txnum, has_live) = (txnum_of(table, key), *kind == LIVE);
            let of = snapshot.generation_of(txnum);
            let file = of.and_then(|(at, of)| Some((stored[at].as_mut()?, of.derived(table)?)));
            let is_required = file.is_none() && txnum >= from;
            if let Some((stored, file)) = file {
                self.look_up_packed(table, stored, file, key, has_live)?;
            }
            if !has_live {
                continue;
            }
            let is_live = self.take_key(table, &mut rows, key)?;
            // those of frozen transactions may be left until they are swept
            if is_live && txnum < from && of.is_none() {
                self.differences.superfluous(name, key);
            }
            if is_required && !is_live {
                self.differences.add(format!("{name}: transaction {txnum} is not found by its {}", table.subject()));
            }
            digest.row(key, &[]);
            self.progress("comparing the tables", digest.rows, u64::MAX)?;
        }
        self.superfluous_keys(table, &mut rows, None)?;
        for stored in stored.into_iter().flatten() {
            match stored {
                StoredFile::Hashes(mut stored) => self.advance(&mut stored, None)?,
                StoredFile::Entries(mut stored) => self.take_entry(table, &mut stored, None)?,
            }
        }
        Ok(Some(TableReport { name, rows: digest.rows, digest: digest.finish() }))
    }

    fn live_keys(&self, table: OptionalTable) -> Result<LiveKeys<'static>, IndexError> {
        fn keys<const KEY: usize>(rows: Option<SortedRows<'static, [u8; KEY], ()>>) -> LiveKeys<'static> {
            let keys = rows.into_iter().flatten().map(|row| row.map(|(key, ())| key.to_vec()));
            let keys: Box<dyn Iterator<Item = _>> = Box::new(keys);
            keys.peekable()
        }
        let tables = &self.snapshot.optional;
        Ok(match table {
            OptionalTable::Wtxids => {
                keys(tables.wtxids.as_ref().map(|table| live(table, [0; 10], |()| ())).transpose()?)
            }
            OptionalTable::OpReturns => {
                keys(tables.op_returns.as_ref().map(|table| live(table, [0; 15], |()| ())).transpose()?)
            }
            OptionalTable::AddressPrefixes => {
                keys(tables.address_prefixes.as_ref().map(|table| live(table, [0; 26], |()| ())).transpose()?)
            }
        })
    }

    /// Whether a live row has this key. Those before it must not exist.
    fn take_key(&mut self, table: OptionalTable, rows: &mut LiveKeys<'_>, key: &[u8]) -> Result<bool, IndexError> {
        self.superfluous_keys(table, rows, Some(key))?;
        Ok(rows.next_if(|row| row.as_ref().is_ok_and(|row| row == key)).is_some())
    }

    /// Reports the live rows before a key, or all.
    fn superfluous_keys(
        &mut self,
        table: OptionalTable,
        rows: &mut LiveKeys<'_>,
        before: Option<&[u8]>,
    ) -> Result<(), IndexError> {
        let is_before = |row: &Result<Vec<u8>, IndexError>| {
            row.as_ref().map_or(true, |row| before.is_none_or(|key| &row[..] < key))
        };
        while let Some(row) = rows.next_if(is_before) {
            if let Some(key) = self.differences.record(row)? {
                self.differences.superfluous(table.name(), &key);
            }
        }
        Ok(())
    }

    /// Begins to read a file, whose rows must be as many as were counted.
    fn stored_file(
        &mut self,
        table: OptionalTable,
        of: &InForce,
        file: &DerivedFile,
    ) -> Result<StoredFile, IndexError> {
        let name = table.name();
        let (found, recorded) = file.count()?;
        if found != recorded {
            self.differences.add(format!("{name}: file {} has {found} rows, but counted {recorded}", file.name));
        }
        let (extent, end) = (Extent::of_txnums(of), of.end);
        Ok(match table {
            OptionalTable::Wtxids => {
                StoredFile::Hashes(StoredHashes::new(name, file.cut_bits(), extent, file.scan_hashes()?))
            }
            OptionalTable::AddressPrefixes | OptionalTable::OpReturns => {
                let entries = file.scan_entries()?.map(|entry| entry.map(|(entry, ())| entry));
                let counts = move |entry: &Result<Vec<u8>, IndexError>| {
                    entry.as_ref().map_or(true, |entry| entry_txnum(table, entry) < end)
                };
                let entries: Box<dyn Iterator<Item = _>> = Box::new(entries.filter(counts));
                StoredFile::Entries(StoredEntries { entries: entries.peekable(), before: Vec::new() })
            }
        })
    }

    fn look_up_packed(
        &mut self,
        table: OptionalTable,
        stored: &mut StoredFile,
        file: &DerivedFile,
        key: &[u8],
        has_live: bool,
    ) -> Result<(), IndexError> {
        match stored {
            StoredFile::Hashes(stored) => {
                let key = key.try_into().map_err(|_| IndexError::corrupt("wtxids", "a key has another size"))?;
                let (prefix, txnum) = wtxids::split_key(key);
                if has_live || file.has_transactions_without_witness() {
                    self.look_up(stored, prefix, txnum)?;
                }
                Ok(())
            }
            StoredFile::Entries(stored) => {
                let (first_of, entry) = entry_of(table, key)?;
                if stored.before != first_of {
                    stored.before = first_of;
                    self.take_entry(table, stored, Some(&entry))?;
                }
                Ok(())
            }
        }
    }

    /// Reads the next entry, which must be this one, or there must be none.
    fn take_entry(
        &mut self,
        table: OptionalTable,
        stored: &mut StoredEntries,
        expected: Option<&[u8]>,
    ) -> Result<(), IndexError> {
        let is_before = |entry: &Result<Vec<u8>, IndexError>| {
            entry.as_ref().map_or(true, |entry| expected.is_none_or(|expected| &entry[..] < expected))
        };
        if let Some(expected) = expected
            && stored.entries.next_if(|entry| entry.as_ref().is_ok_and(|entry| entry == expected)).is_some()
        {
            return Ok(());
        }
        while let Some(entry) = stored.entries.next_if(is_before) {
            if let Some(entry) = self.differences.record(entry)? {
                self.differences.superfluous(table.name(), &entry);
            }
        }
        if let Some(expected) = expected
            && stored.entries.next_if(|entry| entry.as_ref().is_ok_and(|entry| entry == expected)).is_none()
        {
            let txnum = entry_txnum(table, expected);
            let what = format!("{table}: transaction {txnum} is not found by its {} in its file", table.subject());
            self.differences.add(what);
        }
        Ok(())
    }
}

/// What a file has one entry of, and that entry: of the first such key.
fn entry_of(table: OptionalTable, key: &[u8]) -> Result<(Vec<u8>, Vec<u8>), IndexError> {
    let wrong = || IndexError::corrupt(table.name(), "a key has another size");
    match table {
        OptionalTable::AddressPrefixes => {
            let (first_of, (address, txnum)) = address_prefixes::entry_of(key.try_into().map_err(|_| wrong())?);
            Ok((first_of.to_vec(), [&address[..], &txnum].concat()))
        }
        OptionalTable::OpReturns => Ok((key.to_vec(), key.to_vec())),
        OptionalTable::Wtxids => Err(wrong()),
    }
}

/// The transaction of an entry.
fn entry_txnum(table: OptionalTable, entry: &[u8]) -> TxNum {
    let at = match table {
        OptionalTable::AddressPrefixes => 12,
        OptionalTable::OpReturns => 3,
        OptionalTable::Wtxids => 6,
    };
    let bytes = entry.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(TxNum(u32::MAX), |bytes| TxNum::from_key(*bytes))
}
