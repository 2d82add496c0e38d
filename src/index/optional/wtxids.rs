//! Lookups by wtxid, through the live rows of the optional table `wtxids` and the files of generations.

use bitcoin::hashes::Hash;
use bitcoin::{Txid, Wtxid};

use super::super::error::IndexError;
use super::super::hot::resolve::parse;
use super::super::hot::tables::wtxids;
use super::super::keys::TxNum;
use super::super::snapshot::{Snapshot, StoredTransaction};
use super::OptionalTable;

impl Snapshot {
    /// The newest transaction of the active chain with this wtxid.
    ///
    /// Errors: [`IndexError::TableOff`] or `TableNotReady` unless the table `wtxids` is on and complete;
    /// `RawUnavailable` if the bytes of a frozen transaction that may be it cannot be read; storage errors.
    pub fn find_wtxid(&self, wtxid: &Wtxid) -> Result<Option<StoredTransaction>, IndexError> {
        self.check_complete(OptionalTable::Wtxids)?;
        // without a witness its txid is the same
        let mut candidates = self.positions(&Txid::from_byte_array(wtxid.to_byte_array()))?;
        candidates.extend(self.generations.wtxid_candidates(wtxid)?);
        let prefix = self.salt().wtxid_prefix(wtxid);
        let (from, to) = (wtxids::key(prefix, TxNum(0)), wtxids::key(prefix, TxNum(u32::MAX)));
        if let Some(table) = &self.optional.wtxids {
            for row in table.range::<&wtxids::WtxidKey>(&from..=&to)? {
                candidates.push(wtxids::split_key(row?.0.value()).1);
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        for txnum in candidates.into_iter().rev() {
            if let Some(found) = self.transaction(txnum)?
                && parse(txnum, found.parts.raw())?.wtxid() == *wtxid
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
