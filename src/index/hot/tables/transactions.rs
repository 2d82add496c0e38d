//! `transactions`: txnum (4) → txid 32 ‖ fee in sat u64 ‖ flags u8 ‖ raw bytes.
//!
//! Flags: bit 0 coinbase. The fee of a coinbase is 0 here and null on the API.

use bitcoin::Txid;
use bitcoin::hashes::Hash;
use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8]> = TableDefinition::new("transactions");

const COINBASE: u8 = 1;

/// One row, which borrows its raw bytes from the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct TransactionRow<'a> {
    pub(in crate::index) txid: Txid,
    /// In sat.
    pub(in crate::index) fee: u64,
    pub(in crate::index) is_coinbase: bool,
    pub(in crate::index) raw: &'a [u8],
}

impl<'a> TransactionRow<'a> {
    pub(in crate::index) fn encode(&self) -> Vec<u8> {
        let mut row = Encoder::default();
        let flags = if self.is_coinbase { COINBASE } else { 0 };
        row.bytes(self.txid.as_byte_array()).u64(self.fee).bytes(&[flags]).bytes(self.raw);
        row.finish()
    }

    pub(in crate::index) fn decode(row: &'a [u8]) -> Result<Self, IndexError> {
        let mut row = Decoder::new("transactions", row);
        let txid = Txid::from_byte_array(row.array()?);
        let fee = row.u64()?;
        let is_coinbase = match row.u8()? {
            0 => false,
            COINBASE => true,
            _ => return Err(row.corrupt("has unknown flags")),
        };
        Ok(Self { txid, fee, is_coinbase, raw: row.rest() })
    }

    /// Its fee in sat, `None` for a coinbase.
    pub(in crate::index) fn paid_fee(&self) -> Option<u64> {
        (!self.is_coinbase).then_some(self.fee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_its_encoding() {
        for is_coinbase in [false, true] {
            let row = TransactionRow { txid: Txid::from_byte_array([3; 32]), fee: 21, is_coinbase, raw: b"raw" };
            assert_eq!(TransactionRow::decode(&row.encode()).unwrap(), row);
        }
        assert!(TransactionRow::decode(&[0; 40]).is_err());
    }
}
