//! `spends`: outpoint (funding txnum 4 ‖ vout 3) → input (spending txnum 4 ‖ vin 3). One row for every spent output.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 7], &[u8; 7]> = TableDefinition::new("spends");

/// An outpoint or an input: (txnum, number).
pub(in crate::index) type Place = [u8; 7];

pub(in crate::index) use super::{place, split_place};

#[cfg(test)]
mod tests {
    use super::super::super::keys::{Position, TxNum};
    use super::*;

    #[test]
    fn an_outpoint_survives_its_encoding_and_sorts_by_transaction_then_number() {
        let (low, high) = (Position::new(256).unwrap(), Position::new(1).unwrap());
        assert_eq!(split_place(&place(TxNum(9), low)), (TxNum(9), low));
        assert!(place(TxNum(9), low) < place(TxNum(10), high));
    }
}
