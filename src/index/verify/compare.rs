//! Pass 3: compares the expected rows with the stored rows, both in the order of their keys.

use std::io;
use std::iter::Peekable;
use std::path::Path;

use super::super::error::IndexError;
use super::super::hot::tables::history::{self, HistoryChange, HistoryRow};
use super::super::hot::tables::{blocks, p2pk, txids};
use super::super::sorter::{SortedRecords, Sorter};
use super::chain::UnspentRecord;
use super::digest::Digest;
use super::merged::{SortedRows, first_u32, live};
use super::recount::decode_change;
use super::report::{TableReport, hex};
use super::work::{Work, sorting};
use crate::chain::Height;

/// A row: key and value as stored.
type Row = (Vec<u8>, Vec<u8>);

/// Bytes of the keys of `unspent`.
const UNSPENT_KEY: usize = 17;

impl Work<'_> {
    /// Hashes and counts the rows of a table that has one for each block below a height.
    pub(super) fn compare_row_of_each_block<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        name: &'static str,
        end: Height,
        rows: impl Iterator<Item = Result<(K, V), IndexError>>,
    ) -> Result<TableReport, IndexError> {
        let blocks = self.snapshot.tip().map_or(Height::GENESIS, |tip| tip.height.next());
        if end > blocks {
            self.differences.add(format!("{name}: complete up to height {end}, which is above the tip"));
        }
        let mut digest = Digest::default();
        for row in rows {
            let (key, value) = row?;
            digest.row(key.as_ref(), value.as_ref());
            self.progress("comparing the tables", digest.rows, u64::MAX)?;
        }
        if digest.rows != u64::from(end.to_u32()) {
            self.differences.add(format!("{name}: {} rows, but {end} blocks must have one", digest.rows));
        }
        Ok(TableReport { name, rows: digest.rows, digest: digest.finish() })
    }

    pub(super) fn compare_tables(&mut self) -> Result<Vec<TableReport>, IndexError> {
        self.expect_stale_blocks()?;
        let snapshot = self.snapshot;
        let end = snapshot.generations.end();
        let take = |sorter: &mut Sorter| std::mem::replace(sorter, Sorter::new(Path::new(""), 0)).sorted();
        let first_height = blocks::key(snapshot.first_live_height());
        let mut tables = vec![
            self.digest_live("blocks", live(&snapshot.blocks, first_height, <[u8]>::to_vec)?)?,
            self.digest("block_starts")?,
            self.digest_live("transactions", live(&snapshot.transactions, end.to_key(), <[u8]>::to_vec)?)?,
            self.digest("spends")?,
        ];
        let expected = take(&mut self.txids).map_err(sorting)?.map(|record| split(record, 10));
        let stored = live(&snapshot.txids, [0; 10], |()| [])?;
        let stored = stored.filter(|row| row.as_ref().map_or(true, |(key, _)| txids::split_key(key).1 >= end));
        // the pass that looked for duplicates hashed all rows
        self.compare("txids", expected, Box::new(stored))?;
        tables.push(self.digest("txids")?);
        let expected = take(&mut self.unspent).map_err(sorting)?;
        tables.push(self.compare_unspent(expected)?);
        let expected = std::mem::take(&mut self.overwritten_rows);
        let expected = expected.into_iter().map(|(outpoint, later)| Ok((outpoint.to_vec(), later.to_key().to_vec())));
        tables.push(self.compare("overwritten", expected, snapshot.all_overwritten()?)?);
        let expected = take(&mut self.payouts).map_err(sorting)?.map(|record| split(record, 14));
        tables.push(self.compare("payouts", without_repeats(expected), snapshot.all_payouts()?)?);
        let expected = take(&mut self.p2pk).map_err(sorting)?.map(|record| split(record, size_of::<p2pk::P2pkKey>()));
        tables.push(self.compare("p2pk", without_repeats(expected), snapshot.all_p2pk()?)?);
        let expected = take(&mut self.block_hashes).map_err(sorting)?.map(|record| split(record, 32));
        tables.push(self.compare("block_hashes", expected, snapshot.all_block_hashes()?)?);
        let expected = take(&mut self.stale_transactions).map_err(sorting)?.map(|record| split(record, 42));
        let stored = live(&snapshot.stale_transactions, [0; 42], |()| [])?;
        tables.push(self.compare("stale_transactions", expected, stored)?);
        let changes = take(&mut self.history).map_err(sorting)?;
        tables.extend(self.compare_optional()?);
        tables.extend(self.compare_miners()?);
        tables.extend(self.compare_filters()?);
        tables.push(self.compare("history", Totals::new(changes), snapshot.all_history()?)?);
        Ok(tables)
    }

    /// The report of a table whose rows were hashed when they were checked in the passes before.
    fn digest(&mut self, name: &'static str) -> Result<TableReport, IndexError> {
        self.digest_live(name, Box::new(std::iter::empty::<Result<([u8; 4], Vec<u8>), _>>()))
    }

    /// The report of a table whose frozen rows were hashed before. Only reads and hashes the live ones, which were checked
    /// row by row in the passes before. No row may lie beyond the tip.
    fn digest_live(
        &mut self,
        name: &'static str,
        stored: SortedRows<'_, [u8; 4], Vec<u8>>,
    ) -> Result<TableReport, IndexError> {
        let heights = u64::from(self.snapshot.tip().map_or(0, |tip| tip.height.to_u32() + 1));
        let mut digest = std::mem::take(match name {
            "blocks" => &mut self.digests.blocks,
            "block_starts" => &mut self.digests.block_starts,
            "transactions" => &mut self.digests.transactions,
            "spends" => &mut self.digests.spends,
            _ => &mut self.digests.txids,
        });
        let expected = match name {
            "blocks" | "block_starts" => Some(heights),
            "transactions" => Some(self.transactions),
            _ => None,
        };
        for row in stored {
            let (key, value) = row?;
            if expected.is_some_and(|expected| u64::from(first_u32(&key)) >= expected) {
                self.differences.superfluous(name, &key);
            }
            digest.row(&key, &value);
            self.progress("comparing the tables", digest.rows, u64::MAX)?;
        }
        if let Some(expected) = expected.filter(|expected| *expected != digest.rows) {
            self.differences.add(format!("{name}: {} rows, but the chain has {expected}", digest.rows));
        }
        Ok(TableReport { name, rows: digest.rows, digest: digest.finish() })
    }

    fn compare<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        name: &'static str,
        expected: impl Iterator<Item = io::Result<Row>>,
        stored: SortedRows<'_, K, V>,
    ) -> Result<TableReport, IndexError> {
        let mut digest = Digest::default();
        let mut expected = expected.peekable();
        for row in stored {
            let Some((key, value)) = self.differences.record(row)? else { continue };
            let (key, value) = (key.as_ref(), value.as_ref());
            while let Some(missing) = expected.next_if(|row| row.as_ref().is_ok_and(|row| *row.0 < *key)) {
                self.missing(name, &missing.map_err(sorting)?.0);
            }
            match expected.next_if(|row| !row.as_ref().is_ok_and(|row| row.0 != key)).transpose().map_err(sorting)? {
                Some((_, right)) if right == value => {}
                Some(_) => self.differences.add(format!("{name}: row {} differs from what it must be", hex(key))),
                None => self.differences.superfluous(name, key),
            }
            digest.row(key, value);
            self.progress("comparing the tables", digest.rows, u64::MAX)?;
        }
        for missing in expected {
            self.missing(name, &missing.map_err(sorting)?.0);
        }
        Ok(TableReport { name, rows: digest.rows, digest: digest.finish() })
    }

    /// Compares `unspent`. A generation has rows also of outputs that are spent since, and a live row may repeat one of an
    /// output that is not.
    fn compare_unspent(&mut self, expected: SortedRecords) -> Result<TableReport, IndexError> {
        const NAME: &str = "unspent";
        let snapshot = self.snapshot;
        let mut digest = Digest::default();
        let mut expected = expected.peekable();
        // the expected row of which the last stored row is one
        let mut matched: Option<Vec<u8>> = None;
        for row in snapshot.all_unspent()? {
            let Some((key, (value, is_live))) = self.differences.record(row)? else { continue };
            let repeats = matched.as_ref().is_some_and(|record| record.starts_with(&key));
            if !repeats {
                matched = None;
                while let Some(record) = expected.next_if(|record| {
                    record.as_ref().map_or(true, |record| record[..UNSPENT_KEY.min(record.len())] <= key[..])
                }) {
                    let record = record.map_err(sorting)?;
                    if record.starts_with(&key) {
                        matched = Some(record);
                        break;
                    }
                    self.missing(NAME, &record[..UNSPENT_KEY.min(record.len())]);
                }
            }
            let right = matched.as_ref().and_then(|record| record[UNSPENT_KEY..].split_last());
            let Some((record, right)) = right.filter(|(record, _)| may_have_row(**record, is_live)) else {
                self.differences.superfluous(NAME, &key);
                continue;
            };
            if *right != value {
                self.differences.add(format!("{NAME}: row {} differs from what it must be", hex(&key)));
            }
            if *record == UnspentRecord::Unspent.byte() && !repeats {
                digest.row(&key, &value);
            }
            self.progress("comparing the tables", digest.rows, u64::MAX)?;
        }
        for missing in expected {
            let missing = missing.map_err(sorting)?;
            self.missing(NAME, &missing[..UNSPENT_KEY.min(missing.len())]);
        }
        Ok(TableReport { name: NAME, rows: digest.rows, digest: digest.finish() })
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

/// Whether a record of an output allows for a row: of one that is gone only its generation has one.
fn may_have_row(record: u8, is_live: bool) -> bool {
    record == UnspentRecord::Unspent.byte() || !is_live
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
