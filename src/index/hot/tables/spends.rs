//! `spends`: outpoint (funding txnum 4 ‖ vout 3) → input (spending txnum 4 ‖ vin 3). One row for every spent output.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 7], &[u8; 7]> = TableDefinition::new("spends");

/// The bytes of an outpoint or an input: txnum (4) ‖ number (3).
pub(in crate::index) type TxPoint = [u8; 7];

pub(in crate::index) use super::{split_tx_point, tx_point};

#[cfg(test)]
mod tests {
    use super::super::super::super::keys::{Position, TxNum};
    use super::*;

    #[test]
    fn an_outpoint_survives_encoding_and_sorts_as_its_numbers() {
        let (low, high) = (Position::new(256).unwrap(), Position::new(1).unwrap());
        assert_eq!(split_tx_point(&tx_point(TxNum(9), low)), (TxNum(9), low));
        assert!(tx_point(TxNum(9), low) < tx_point(TxNum(10), high));
    }
}
