//! `spends`: outpoint (funding txnum 4 ‖ vout 3) → input (spending txnum 4 ‖ vin 3). One row for every spent output.

use redb::TableDefinition;

use super::super::super::keys::TxNum;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 7], &[u8; 7]> = TableDefinition::new("spends");

/// The bytes of an outpoint or an input: txnum (4) ‖ number (3).
pub(in crate::index) type TxPoint = [u8; 7];

pub(in crate::index) use super::{split_tx_point, tx_point};

/// The input that spends an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendingInput {
    /// The spending transaction.
    pub txnum: TxNum,
    /// The number of its input.
    pub vin: u32,
}

impl SpendingInput {
    /// The value of a live row.
    pub(in crate::index) fn of_row(input: &TxPoint) -> Self {
        let (txnum, vin) = split_tx_point(input);
        Self { txnum, vin: vin.to_u32() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::keys::Position;
    use super::*;

    #[test]
    fn an_outpoint_survives_encoding_and_sorts_as_its_numbers() {
        let (low, high) = (Position::new(256).unwrap(), Position::new(1).unwrap());
        assert_eq!(split_tx_point(&tx_point(TxNum(9), low)), (TxNum(9), low));
        assert!(tx_point(TxNum(9), low) < tx_point(TxNum(10), high));
    }
}
