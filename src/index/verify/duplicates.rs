//! The short hashes of txids: those of generations are compared here, and transactions that repeat a txid are found.

use std::collections::BTreeSet;
use std::iter::Peekable;

use bitcoin::Txid;

use super::super::error::IndexError;
use super::super::frozen::PackedEntries;
use super::super::frozen::tables::txid_prefixes::{CutBits, CutHash, NAME};
use super::super::hot::tables::txids;
use super::super::keys::{TxNum, TxidPrefix};
use super::merged::{Extent, MergedRows, SortedRows, live};
use super::work::{Work, sorting};

/// The stored cut hashes of a generation, read beside the hashes that they must be.
pub(super) struct StoredHashes {
    table: &'static str,
    cut_bits: CutBits,
    extent: Extent,
    entries: Peekable<PackedEntries<(CutHash, TxNum), ()>>,
    before: Option<(CutHash, TxNum)>,
    /// The hash that was looked up last, and the transactions that have it and were not looked up yet.
    hash: Option<CutHash>,
    txnums: BTreeSet<TxNum>,
}

impl StoredHashes {
    pub(super) fn new(
        table: &'static str,
        cut_bits: CutBits,
        extent: Extent,
        entries: PackedEntries<(CutHash, TxNum), ()>,
    ) -> Self {
        let entries = entries.peekable();
        Self { table, cut_bits, extent, entries, before: None, hash: None, txnums: BTreeSet::new() }
    }
}

impl Work<'_> {
    /// Compares the hashes of frozen txids with the txids, and finds txids that occur in the chain more than once. A
    /// later pass checks the txids themselves, and the hashes of live ones.
    pub(super) fn find_duplicates(&mut self) -> Result<(), IndexError> {
        let snapshot = self.snapshot;
        self.expect_frozen_hashes()?;
        let mut stored = Vec::new();
        for of in snapshot.generations.iter() {
            let (cut_bits, extent) = (of.generation.cut_bits(), Extent::of_txnums(of));
            stored.push(StoredHashes::new(NAME, cut_bits, extent, of.generation.scan_txid_prefixes()?));
        }
        let damaged = || IndexError::corrupt("txids", "a temporary file is damaged");
        let frozen = self.take_txids().sorted().map_err(sorting)?.map(|record| {
            let record: txids::TxidKey = record.map_err(sorting)?.try_into().map_err(|_| damaged())?;
            Ok((record, ()))
        });
        let end = snapshot.generations.end();
        let live = live(&snapshot.txids, [0; 10], |()| ())?;
        let live = live.filter(move |row| row.as_ref().map_or(true, |(key, ())| txids::split_key(key).1 >= end));
        let sources: [SortedRows<'_, _, _>; 2] = [Box::new(frozen), Box::new(live)];

        let mut copies: Vec<(TxNum, Txid)> = Vec::new();
        let (mut before, mut first) = (None, None);
        for row in MergedRows::new(sources) {
            let (key, ()) = row?;
            let (prefix, txnum) = txids::split_key(&key);
            if let Some((at, _)) = snapshot.generation_of(txnum) {
                self.look_up(&mut stored[at], prefix, txnum)?;
            }
            self.digests.txids.row(&key, &[]);
            self.progress("reading txids", self.digests.txids.rows, self.transactions)?;
            if before != Some(prefix) {
                (before, first) = (Some(prefix), Some(txnum));
                copies.clear();
                continue;
            }
            for txnum in first.take().into_iter().chain([txnum]) {
                let txid = self.snapshot.txid(txnum);
                let Some(txid) = self.differences.record(txid)?.flatten() else { continue };
                if let Some((copy, _)) = copies.iter().rfind(|(_, other)| *other == txid) {
                    self.overwritten_by.insert(*copy, txnum);
                }
                copies.push((txnum, txid));
            }
        }
        for mut stored in stored {
            self.advance(&mut stored, None)?;
        }
        Ok(())
    }

    /// Sorts the hashes that frozen transactions must have.
    fn expect_frozen_hashes(&mut self) -> Result<(), IndexError> {
        let mut stored = self.snapshot.of_each_frozen("txids", |of| of.generation.scan_txids())?;
        for txnum in (0..self.snapshot.generations.end().0).map(TxNum) {
            match stored.take(&txnum.to_key(), &mut self.differences)? {
                Some(txid) => {
                    let prefix = self.snapshot.salt().txid_prefix(&txid);
                    self.txids.push(&[&txids::key(prefix, txnum)]).map_err(sorting)?;
                }
                None => self.differences.add(format!("txids: transaction {txnum} is missing in its generation")),
            }
            self.progress("hashing txids", u64::from(txnum.0) + 1, self.transactions)?;
        }
        stored.finish(&mut self.differences)
    }

    /// Checks that a transaction is found by the hash of its txid or wtxid. Hashes ascend from call to call.
    pub(super) fn look_up(
        &mut self,
        stored: &mut StoredHashes,
        prefix: TxidPrefix,
        txnum: TxNum,
    ) -> Result<(), IndexError> {
        let hash = stored.cut_bits.cut(prefix);
        if stored.hash != Some(hash) {
            self.advance(stored, Some(hash))?;
        }
        if !stored.txnums.remove(&txnum) {
            self.differences.add(format!("{}: transaction {txnum} is not found by its hash", stored.table));
        }
        Ok(())
    }

    /// Reads the entries up to a hash, or all. Those below it that were not looked up are superfluous.
    pub(super) fn advance(&mut self, stored: &mut StoredHashes, hash: Option<CutHash>) -> Result<(), IndexError> {
        for txnum in std::mem::take(&mut stored.txnums) {
            self.superfluous_hash(stored.table, txnum);
        }
        stored.hash = hash;
        let is_due = |entry: &Result<((CutHash, TxNum), ()), IndexError>| {
            entry.as_ref().map_or(true, |((at, _), ())| hash.is_none_or(|hash| *at <= hash))
        };
        while let Some(entry) = stored.entries.next_if(is_due) {
            let Some((entry, ())) = self.differences.record(entry)? else { continue };
            let (at, txnum) = entry;
            let ascends = stored.before.is_none_or(|before| before < entry);
            stored.before = Some(entry);
            match stored.extent.counts(txnum.0) {
                Some(false) => {}
                Some(true) if ascends && Some(at) == hash => drop(stored.txnums.insert(txnum)),
                _ => self.superfluous_hash(stored.table, txnum),
            }
        }
        Ok(())
    }

    fn superfluous_hash(&mut self, table: &'static str, txnum: TxNum) {
        self.differences.add(format!("{table}: a hash of transaction {txnum} must not exist or not be there"));
    }
}
