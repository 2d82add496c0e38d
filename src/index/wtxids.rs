//! The optional table `wtxids`: its live rows, and lookups through them and the files of generations.

use bitcoin::hashes::Hash;
use bitcoin::{Txid, Wtxid};
use redb::{ReadableTable, ReadableTableMetadata};

use super::error::IndexError;
use super::frozen::Generations;
use super::keys::{Salt, TxNum};
use super::resolve::{BlockRun, parse};
use super::snapshot::{Snapshot, StoredTransaction};
use super::tables::meta;
use super::tables::transactions::TransactionRow;
use super::tables::wtxids::{self, NAME, WtxidsState};
use super::update::{Tables, next_txnum};

impl Snapshot {
    /// The newest transaction of the active chain with this wtxid.
    ///
    /// Errors: [`IndexError::TableOff`] or `TableNotReady` unless the table `wtxids` is on and complete;
    /// `RawUnavailable` if the bytes of a frozen transaction that may be it cannot be read; storage errors.
    pub fn find_wtxid(&self, wtxid: &Wtxid) -> Result<Option<StoredTransaction>, IndexError> {
        self.check_wtxids()?;
        // without a witness its txid is the same
        let mut candidates = self.positions(&Txid::from_byte_array(wtxid.to_byte_array()))?;
        candidates.extend(self.generations.wtxid_candidates(wtxid)?);
        let prefix = self.salt().wtxid_prefix(wtxid);
        let (from, to) = (wtxids::key(prefix, TxNum(0)), wtxids::key(prefix, TxNum(u32::MAX)));
        if let Some(table) = &self.wtxids {
            for row in table.range::<&wtxids::WtxidKey>(&from..=&to)? {
                candidates.push(wtxids::split_key(row?.0.value()).1);
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        for txnum in candidates.into_iter().rev() {
            if let Some(found) = self.transaction(txnum)?
                && parse(txnum, &found.raw)?.wtxid() == *wtxid
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Checks that every transaction is in the file of its generation or has a live row.
    fn check_wtxids(&self) -> Result<(), IndexError> {
        let from = match self.wtxids_state {
            WtxidsState::On { from } => from,
            WtxidsState::Dropping { then_on: true } => TxNum(u32::MAX),
            _ => return Err(IndexError::TableOff { table: NAME }),
        };
        let lacks = |of: &&super::frozen::InForce| of.wtxids.is_none() && of.first() < from;
        if from <= self.generations.end() && !self.generations.iter().any(|of| lacks(&of)) {
            return Ok(());
        }
        let transactions = match self.tip() {
            Some(tip) => self.block(tip.height)?.map(|row| next_txnum(&row.running)).transpose()?.unwrap_or_default(),
            None => TxNum(0),
        };
        let of_generation = |of: &super::frozen::InForce| if lacks(&of) { 0 } else { of.end.0 - of.first().0 };
        let frozen: u32 = self.generations.iter().map(of_generation).sum();
        let live = transactions.0.saturating_sub(from.max(self.generations.end()).0);
        let building = self.generations.building();
        let transactions = u64::from(transactions.0);
        let built = u64::from(frozen).saturating_add(live.into()).saturating_add(building).min(transactions);
        Err(IndexError::TableNotReady { table: NAME, built, transactions })
    }
}

/// The state of `wtxids` that is recorded.
pub(super) fn read_state(meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<WtxidsState, IndexError> {
    let row = meta.get(meta::WTXIDS)?;
    row.map_or(Ok(WtxidsState::Off), |row| WtxidsState::decode(row.value()).map(|(_, state)| state))
}

pub(super) fn write_state(tables: &mut Tables<'_>, state: WtxidsState) -> Result<(), IndexError> {
    match state.encode() {
        Some(row) => tables.meta.insert(meta::WTXIDS, row.as_slice())?,
        None => tables.meta.remove(meta::WTXIDS)?,
    };
    Ok(())
}

/// Adds the rows of live transactions before `from`, and records that those from `lower` on are there.
pub(super) fn fill(tables: &mut Tables<'_>, salt: Salt, from: TxNum, lower: TxNum) -> Result<(), IndexError> {
    for row in tables.transactions.range::<&[u8; 4]>(&lower.to_key()..&from.to_key())? {
        let (key, row) = row?;
        let txnum = TxNum::from_key(*key.value());
        let transaction = parse(txnum, TransactionRow::decode(row.value())?.raw)?;
        if transaction.has_witness() {
            tables.wtxids.insert(&wtxids::key(salt.wtxid_prefix(&transaction.wtxid()), txnum), ())?;
        }
    }
    write_state(tables, WtxidsState::On { from: lower })
}

/// Deletes so many rows. Returns whether none is left.
pub(super) fn drop_rows(tables: &mut Tables<'_>, rows: u32) -> Result<bool, IndexError> {
    for _ in 0..rows {
        if tables.wtxids.pop_first()?.is_none() {
            return Ok(true);
        }
    }
    Ok(tables.wtxids.is_empty()?)
}

/// The rows of the transactions of a run.
fn rows_of(run: &BlockRun<'_>) -> Result<Vec<wtxids::WtxidKey>, IndexError> {
    let with_witness = run.transactions().filter(|(_, _, transaction)| transaction.has_witness);
    let mut rows = with_witness
        .map(|(txnum, block, transaction)| {
            let wtxid = parse(txnum, block.raw(transaction))?.wtxid();
            Ok(wtxids::key(run.salt.wtxid_prefix(&wtxid), txnum))
        })
        .collect::<Result<Vec<_>, IndexError>>()?;
    rows.sort_unstable();
    Ok(rows)
}

/// Writes the rows of blocks that are connected.
pub(super) fn connect_wtxids(run: &BlockRun<'_>, tables: &mut Tables<'_>) -> Result<(), IndexError> {
    if let WtxidsState::On { .. } = read_state(&tables.meta)? {
        for key in rows_of(run)? {
            tables.wtxids.insert(&key, ())?;
        }
    }
    Ok(())
}

/// Deletes the rows of a block that is disconnected.
pub(super) fn disconnect_wtxids(run: &BlockRun<'_>, tables: &mut Tables<'_>) -> Result<(), IndexError> {
    if let WtxidsState::On { from } = read_state(&tables.meta)? {
        for key in rows_of(run)? {
            // of a frozen block, and of one before `from`, there may be none
            tables.wtxids.remove(&key)?;
        }
        if run.first < from {
            write_state(tables, WtxidsState::On { from: run.first })?;
        }
    }
    Ok(())
}

/// Records that the transactions of a generation that is put on top of the tip have no live rows.
pub(super) fn skip_wtxids(tables: &mut Tables<'_>, generations: &Generations) -> Result<(), IndexError> {
    if let WtxidsState::On { .. } = read_state(&tables.meta)? {
        write_state(tables, WtxidsState::On { from: generations.end() })?;
    }
    Ok(())
}
