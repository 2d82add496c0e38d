//! The optional table `wtxids`: each transaction must be found by its wtxid, through a live row or the file of its
//! generation, and no row may be of another.

use super::super::error::IndexError;
use super::super::keys::TxNum;
use super::super::tables::wtxids::{self, NAME, WtxidKey, WtxidsState};
use super::chain::Digest;
use super::duplicates::StoredHashes;
use super::merged::{Extent, InOrder, live};
use super::report::TableReport;
use super::{Work, sorting};
use crate::chain::raw::RawTransaction;

impl Work<'_> {
    /// Expects the rows of a transaction, if the table is on.
    pub(super) fn expect_wtxid(&mut self, txnum: TxNum, transaction: &RawTransaction<'_>) -> Result<(), IndexError> {
        if let WtxidsState::On { .. } = self.snapshot.wtxids_state {
            let key = wtxids::key(self.snapshot.salt().wtxid_prefix(&transaction.wtxid()), txnum);
            self.wtxids.push(&[&key, &[u8::from(transaction.has_witness())]]).map_err(sorting)?;
        }
        Ok(())
    }

    /// Compares the table. `None` while it is off.
    pub(super) fn compare_wtxids(&mut self) -> Result<Option<TableReport>, IndexError> {
        let snapshot = self.snapshot;
        let rows = snapshot.wtxids.as_ref().map(|table| live(table, [0; 10], |()| ())).transpose()?;
        let mut rows = InOrder::new(NAME, rows.into_iter().flatten());
        let from = match snapshot.wtxids_state {
            WtxidsState::On { from } => from,
            // rows that are being deleted are not read
            WtxidsState::Dropping { .. } => return Ok(None),
            WtxidsState::Off => {
                rows.finish(&mut self.differences)?;
                return Ok(None);
            }
        };
        let mut stored = Vec::new();
        for of in snapshot.generations.iter() {
            let Some(wtxids) = &of.wtxids else {
                stored.push(None);
                continue;
            };
            let (found, recorded) = wtxids.count()?;
            if found != recorded {
                self.differences.add(format!("{NAME}: file {} has {found} rows, but counted {recorded}", wtxids.name));
            }
            stored.push(Some(StoredHashes::new(NAME, wtxids.cut_bits(), Extent::of_txnums(of), wtxids.scan()?)));
        }
        let (mut digest, expected) = (Digest::default(), self.wtxids.like());
        let damaged = || IndexError::corrupt(NAME, "a temporary file is damaged");
        for record in std::mem::replace(&mut self.wtxids, expected).sorted().map_err(sorting)? {
            let record = record.map_err(sorting)?;
            let (key, has_witness) = record.split_first_chunk().ok_or_else(damaged)?;
            let (key, has_witness): (&WtxidKey, _) = (key, has_witness == [1]);
            let (prefix, txnum) = wtxids::split_key(key);
            let of = snapshot.generation_of(txnum);
            let file = of.and_then(|(at, of)| Some((stored[at].as_mut()?, of.wtxids.as_ref()?)));
            let is_required = file.is_none() && txnum >= from;
            if let Some((stored, wtxids)) = file
                && (has_witness || wtxids.has_transactions_without_witness())
            {
                self.look_up(stored, prefix, txnum)?;
            }
            if !has_witness {
                continue;
            }
            let is_live = rows.take(key, &mut self.differences)?.is_some();
            // those of frozen transactions may be left until they are swept
            if is_live && txnum < from && of.is_none() {
                self.differences.superfluous(NAME, key);
            }
            if is_required && !is_live {
                self.differences.add(format!("{NAME}: transaction {txnum} is not found by its wtxid"));
            }
            digest.row(key, &[]);
            self.progress("comparing the tables", digest.rows, u64::MAX)?;
        }
        rows.finish(&mut self.differences)?;
        for mut stored in stored.into_iter().flatten() {
            self.advance(&mut stored, None)?;
        }
        Ok(Some(TableReport { name: NAME, rows: digest.rows, digest: digest.finish() }))
    }
}
