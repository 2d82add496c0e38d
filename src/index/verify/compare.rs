//! Pass 3: compares the expected rows with the stored rows, both in the order of their keys.

use std::io;
use std::iter::Peekable;
use std::path::Path;

use redb::{Key, ReadOnlyTable, ReadableTable, Value};

use super::super::error::IndexError;
use super::super::sorter::{SortedRecords, Sorter};
use super::super::tables::history::{self, HistoryChange, HistoryRow};
use super::super::tables::p2pk;
use super::chain::{Digest, hex};
use super::recount::decode_change;
use super::report::TableReport;
use super::{Work, sorting};

/// A row: key and value as stored.
type Row = (Vec<u8>, Vec<u8>);

impl Work<'_> {
    pub(super) fn compare_tables(&mut self) -> Result<Vec<TableReport>, IndexError> {
        self.expect_stale_blocks()?;
        let snapshot = self.snapshot;
        let take = |sorter: &mut Sorter| std::mem::replace(sorter, Sorter::new(Path::new(""), 0)).sorted();
        let mut tables = vec![
            self.digest("blocks", rows(&snapshot.blocks)?)?,
            self.digest("block_starts", rows(&snapshot.block_starts)?)?,
            self.digest("transactions", rows(&snapshot.transactions)?)?,
            self.digest("spends", rows(&snapshot.spends)?)?,
        ];
        let expected = take(&mut self.txids).map_err(sorting)?.map(|record| split(record, 10));
        tables.push(self.compare("txids", expected, rows(&snapshot.txids)?)?);
        let expected = take(&mut self.unspent).map_err(sorting)?.map(|record| split(record, 17));
        tables.push(self.compare("unspent", expected, rows(&snapshot.unspent)?)?);
        let expected = std::mem::take(&mut self.overwritten_rows);
        let expected = expected.into_iter().map(|(outpoint, later)| Ok((outpoint.to_vec(), later.to_key().to_vec())));
        tables.push(self.compare("overwritten", expected, rows(&snapshot.overwritten)?)?);
        let expected = take(&mut self.payouts).map_err(sorting)?.map(|record| split(record, 14));
        tables.push(self.compare("payouts", without_repeats(expected), rows(&snapshot.payouts)?)?);
        let expected = take(&mut self.p2pk).map_err(sorting)?.map(|record| split(record, size_of::<p2pk::P2pkKey>()));
        tables.push(self.compare("p2pk", without_repeats(expected), rows(&snapshot.p2pk)?)?);
        let expected = take(&mut self.block_hashes).map_err(sorting)?.map(|record| split(record, 32));
        tables.push(self.compare("block_hashes", expected, rows(&snapshot.block_hashes)?)?);
        let expected = take(&mut self.stale_transactions).map_err(sorting)?.map(|record| split(record, 42));
        tables.push(self.compare("stale_transactions", expected, rows(&snapshot.stale_transactions)?)?);
        let changes = take(&mut self.history).map_err(sorting)?;
        tables.push(self.compare("history", Totals::new(changes), rows(&snapshot.history)?)?);
        Ok(tables)
    }

    /// Only reads and hashes: these tables were checked row by row in the passes before. No row may lie beyond the tip.
    fn digest(
        &mut self,
        name: &'static str,
        stored: impl Iterator<Item = Result<Row, IndexError>>,
    ) -> Result<TableReport, IndexError> {
        let (heights, transactions) = (self.snapshot.tip().map_or(0, |tip| tip.height.to_u32() + 1), self.transactions);
        let beyond = match name {
            "blocks" => u64::from(heights),
            _ => transactions,
        };
        let mut digest = Digest::default();
        for row in stored {
            let (key, value) = row?;
            let number = key.first_chunk().map_or(u64::MAX, |number| u64::from(u32::from_be_bytes(*number)));
            if number >= beyond {
                self.superfluous(name, &key);
            }
            digest.row(&key, &value);
            self.progress("comparing the tables", digest.rows, u64::MAX)?;
        }
        let expected = match name {
            "blocks" | "block_starts" => Some(u64::from(heights)),
            "transactions" => Some(transactions),
            _ => None,
        };
        if let Some(expected) = expected.filter(|expected| *expected != digest.rows) {
            self.differences.add(format!("{name}: {} rows, but the chain has {expected}", digest.rows));
        }
        Ok(TableReport { name, rows: digest.rows, digest: digest.finish() })
    }

    fn compare(
        &mut self,
        name: &'static str,
        expected: impl Iterator<Item = io::Result<Row>>,
        stored: impl Iterator<Item = Result<Row, IndexError>>,
    ) -> Result<TableReport, IndexError> {
        let mut digest = Digest::default();
        let mut expected = expected.peekable();
        for row in stored {
            let (key, value) = row?;
            while let Some(missing) = expected.next_if(|row| row.as_ref().is_ok_and(|row| row.0 < key)) {
                self.missing(name, &missing.map_err(sorting)?.0);
            }
            match expected.next_if(|row| !row.as_ref().is_ok_and(|row| row.0 != key)).transpose().map_err(sorting)? {
                Some((_, right)) if right == value => {}
                Some(_) => self.differences.add(format!("{name}: row {} differs from what it must be", hex(&key))),
                None => self.superfluous(name, &key),
            }
            digest.row(&key, &value);
            self.progress("comparing the tables", digest.rows, u64::MAX)?;
        }
        for missing in expected {
            self.missing(name, &missing.map_err(sorting)?.0);
        }
        Ok(TableReport { name, rows: digest.rows, digest: digest.finish() })
    }

    fn missing(&mut self, name: &'static str, key: &[u8]) {
        self.differences.add(format!("{name}: row {} is missing", hex(key)));
    }
}

fn split(record: io::Result<Vec<u8>>, key: usize) -> io::Result<Row> {
    let mut key_bytes = record?;
    let value = key_bytes.split_off(key.min(key_bytes.len()));
    Ok((key_bytes, value))
}

/// Only the first row of each key.
fn without_repeats(rows: impl Iterator<Item = io::Result<Row>>) -> impl Iterator<Item = io::Result<Row>> {
    let mut last = None;
    rows.filter(move |row| {
        let Ok((key, _)) = row else { return true };
        let repeats = last.as_ref() == Some(key);
        last = Some(key.clone());
        !repeats
    })
}

/// All rows of a table, as stored.
fn rows<K: Key + 'static, V: Value + 'static>(
    table: &ReadOnlyTable<K, V>,
) -> Result<impl Iterator<Item = Result<Row, IndexError>>, IndexError> {
    Ok(table.iter()?.map(|row| {
        let (key, value) = row?;
        Ok((K::as_bytes(&key.value()).as_ref().to_vec(), V::as_bytes(&value.value()).as_ref().to_vec()))
    }))
}

/// The rows of `history` that sorted changes add up to.
struct Totals {
    changes: Peekable<SortedRecords>,
    running: HistoryRow,
    script: Option<[u8; 10]>,
}

impl Totals {
    fn new(changes: SortedRecords) -> Self {
        Self { changes: changes.peekable(), running: HistoryRow::default(), script: None }
    }

    fn of(&mut self, record: &[u8]) -> io::Result<Row> {
        let damaged = || io::Error::other("a temporary file is damaged");
        let (key, mut change) = decode_change(record).ok_or_else(damaged)?;
        while let Some(more) = self.changes.next_if(|next| next.as_ref().is_ok_and(|next| next.starts_with(&key))) {
            let (_, more): (history::HistoryKey, HistoryChange) = decode_change(&more?).ok_or_else(damaged)?;
            change = change.and(&more);
        }
        let script = key.first_chunk().copied();
        if self.script != script {
            (self.script, self.running) = (script, HistoryRow::default());
        }
        self.running = self.running.plus(&change).ok_or_else(|| io::Error::other("the totals of a script overflow"))?;
        Ok((key.to_vec(), self.running.encode().to_vec()))
    }
}

impl Iterator for Totals {
    type Item = io::Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.changes.next()?;
        Some(record.and_then(|record| self.of(&record)))
    }
}
