//! `block_observed`: height (4) ‖ block hash (32) → when the block was first seen, u32 seconds since 1970 ‖ how it compares with
//! the block that was projected of the mempool before it, in the encoding of the module `mempool`; nothing if it was not
//! compared. Those of the highest blocks are kept, up to the number in the settings.

use redb::TableDefinition;

use super::super::super::super::codec::{Decoder, Encoder};
use super::super::super::super::error::IndexError;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 36], &[u8]> = TableDefinition::new("block_observed");

/// What was observed when a block arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedBlock {
    /// When it was first seen, in seconds since 1970.
    pub first_seen: u64,
    /// Its comparison with the projected block, encoded; empty if it was not compared.
    pub audit: Vec<u8>,
}

impl ObservedBlock {
    pub(in crate::index) fn encode(&self) -> Vec<u8> {
        let mut row = Encoder::default();
        row.u32(u32::try_from(self.first_seen).unwrap_or(u32::MAX)).bytes(&self.audit);
        row.finish()
    }

    /// The first bytes of its comparison with the projected block.
    pub(in crate::index) fn decode_audit(row: &[u8], bytes: usize) -> Result<Vec<u8>, IndexError> {
        let mut row = Decoder::new("block_observed", row);
        row.u32()?;
        let audit = row.rest();
        Ok(audit.get(..bytes).unwrap_or(audit).to_vec())
    }

    pub(in crate::index) fn decode(row: &[u8]) -> Result<Self, IndexError> {
        let mut row = Decoder::new("block_observed", row);
        Ok(Self { first_seen: row.u32()?.into(), audit: row.rest().to_vec() })
    }
}
