//! `history`: script key (10) ‖ txnum (4) → totals of the script up to and including that transaction.
//!
//! One row for every transaction that pays or spends the script, even if it does both. The effect of the transaction is
//! its row minus the row before it; the script's totals are its last row; its totals at a height are the last row
//! before the next block's first txnum; its first row is the first transaction that paid it. Outputs that never enter
//! the UTXO set have no row.
//!
//! Value, 44 bytes: received u80 ‖ spent u80 ‖ coinbase received u64 ‖ transactions, outputs received, outputs spent,
//! coinbase transactions, each u32. Turnover has no upper bound, hence 80 bits where an amount needs 64.

use redb::TableDefinition;

use super::super::super::error::IndexError;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 14], &[u8; 44]> = TableDefinition::new("history");

pub(in crate::index) type HistoryKey = [u8; 14];
pub(in crate::index) type HistoryValue = [u8; 44];

pub(in crate::index) use super::{script_key_and_txnum as key, split_script_key_and_txnum as split_key};

/// Running totals of one script. `received - spent` is its confirmed balance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryRow {
    /// Value of all outputs it received, in sat, minus the outputs that a BIP30 duplicate overwrites.
    pub received: u128,
    /// Value of its outputs that were spent, in sat.
    pub spent: u128,
    /// Value it received from coinbases, in sat. Outputs that a BIP30 duplicate overwrites are *not* subtracted: the
    /// total is used for immature value, and the remaining copy begins to mature anew.
    pub coinbase_received: u64,
    /// Transactions that paid or spent it.
    pub transactions: u32,
    /// Outputs it received.
    pub outputs_received: u32,
    /// Outputs of it that were spent.
    pub outputs_spent: u32,
    /// Coinbases that paid it.
    pub coinbase_transactions: u32,
}

const U80_MAX: u128 = (1 << 80) - 1;

impl HistoryRow {
    /// These totals after one more transaction, `None` if a total overflows.
    pub(in crate::index) fn plus(&self, change: &HistoryChange) -> Option<Self> {
        let received = self.received.checked_add(change.received)?.checked_sub(change.overwritten)?;
        let spent = self.spent.checked_add(change.spent)?;
        if received > U80_MAX || spent > U80_MAX {
            return None;
        }
        Some(Self {
            received,
            spent,
            coinbase_received: self.coinbase_received.checked_add(change.coinbase_received)?,
            transactions: self.transactions.checked_add(1)?,
            outputs_received: self
                .outputs_received
                .checked_add(change.outputs_received)?
                .checked_sub(change.outputs_overwritten)?,
            outputs_spent: self.outputs_spent.checked_add(change.outputs_spent)?,
            coinbase_transactions: self.coinbase_transactions.checked_add(u32::from(change.is_coinbase_payment))?,
        })
    }

    pub(in crate::index) fn encode(&self) -> HistoryValue {
        let mut row = [0; 44];
        row[..10].copy_from_slice(&self.received.to_be_bytes()[6..]);
        row[10..20].copy_from_slice(&self.spent.to_be_bytes()[6..]);
        row[20..28].copy_from_slice(&self.coinbase_received.to_be_bytes());
        row[28..32].copy_from_slice(&self.transactions.to_be_bytes());
        row[32..36].copy_from_slice(&self.outputs_received.to_be_bytes());
        row[36..40].copy_from_slice(&self.outputs_spent.to_be_bytes());
        row[40..].copy_from_slice(&self.coinbase_transactions.to_be_bytes());
        row
    }

    pub(in crate::index) fn decode(row: &HistoryValue) -> Result<Self, IndexError> {
        let mut row = super::super::super::codec::Decoder::new("history", row);
        let decoded = Self {
            received: u80(row.array()?),
            spent: u80(row.array()?),
            coinbase_received: row.u64()?,
            transactions: row.u32()?,
            outputs_received: row.u32()?,
            outputs_spent: row.u32()?,
            coinbase_transactions: row.u32()?,
        };
        row.finish()?;
        Ok(decoded)
    }
}

fn u80(bytes: [u8; 10]) -> u128 {
    bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
}

/// The effect of one transaction on one script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::index) struct HistoryChange {
    pub(in crate::index) received: u128,
    pub(in crate::index) overwritten: u128,
    pub(in crate::index) spent: u128,
    pub(in crate::index) coinbase_received: u64,
    pub(in crate::index) outputs_received: u32,
    pub(in crate::index) outputs_overwritten: u32,
    pub(in crate::index) outputs_spent: u32,
    pub(in crate::index) is_coinbase_payment: bool,
}

impl HistoryChange {
    /// Both changes of the same transaction together.
    pub(in crate::index) fn and(self, other: &Self) -> Self {
        // one transaction has under 2^17 outputs and inputs of under 2^63 sat each: no sum here can overflow
        Self {
            received: self.received + other.received,
            overwritten: self.overwritten + other.overwritten,
            spent: self.spent + other.spent,
            coinbase_received: self.coinbase_received.saturating_add(other.coinbase_received),
            outputs_received: self.outputs_received + other.outputs_received,
            outputs_overwritten: self.outputs_overwritten + other.outputs_overwritten,
            outputs_spent: self.outputs_spent + other.outputs_spent,
            is_coinbase_payment: self.is_coinbase_payment || other.is_coinbase_payment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: HistoryRow = HistoryRow {
        received: U80_MAX,
        spent: 1 << 64,
        coinbase_received: u64::MAX,
        transactions: 1,
        outputs_received: 2,
        outputs_spent: 3,
        coinbase_transactions: u32::MAX,
    };

    #[test]
    fn a_row_survives_its_encoding_to_the_largest_value() {
        assert_eq!(HistoryRow::decode(&ROW.encode()).unwrap(), ROW);
    }

    #[test]
    fn a_transaction_that_pays_and_spends_counts_once() {
        let pays = HistoryChange { received: 7, outputs_received: 2, ..HistoryChange::default() };
        let spends = HistoryChange { spent: 5, outputs_spent: 1, ..HistoryChange::default() };
        let row = HistoryRow::default().plus(&pays.and(&spends)).unwrap();
        assert_eq!((row.transactions, row.received, row.spent), (1, 7, 5));
        assert_eq!((row.outputs_received, row.outputs_spent), (2, 1));
    }

    #[test]
    fn a_duplicate_replaces_the_output_that_it_overwrites() {
        let first =
            HistoryChange { received: 50, outputs_received: 1, is_coinbase_payment: true, ..HistoryChange::default() };
        let second = HistoryChange { overwritten: 50, outputs_overwritten: 1, ..first };
        let row = HistoryRow::default().plus(&first).unwrap().plus(&second).unwrap();
        assert_eq!((row.received, row.outputs_received, row.transactions, row.coinbase_transactions), (50, 1, 2, 2));
    }

    #[test]
    fn a_total_may_be_the_largest_value_that_fits() {
        let nearly = HistoryRow { received: U80_MAX - 1, spent: U80_MAX - 2, coinbase_transactions: 0, ..ROW };
        let row = nearly.plus(&HistoryChange { received: 1, spent: 2, ..HistoryChange::default() }).unwrap();
        assert_eq!((row.received, row.spent), (U80_MAX, U80_MAX));
        assert_eq!(HistoryRow::decode(&row.encode()).unwrap(), row);
    }

    #[test]
    fn a_total_beyond_its_range_is_refused_not_wrapped() {
        assert_eq!(ROW.plus(&HistoryChange { spent: U80_MAX, ..HistoryChange::default() }), None);
        assert_eq!(ROW.plus(&HistoryChange { received: 1, ..HistoryChange::default() }), None);
        assert_eq!(ROW.plus(&HistoryChange { is_coinbase_payment: true, ..HistoryChange::default() }), None);
    }
}
