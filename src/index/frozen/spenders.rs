//! Rows that say which input spends an output, read in the order of the outputs.

use std::iter::Peekable;

use super::super::error::IndexError;
use super::super::hot::tables::spends::{SpendingInput, TxPoint, split_tx_point};

/// Rows of a table, each an output and the input that spends it, in the order of the outputs.
pub(super) struct Spenders<I: Iterator> {
    table: &'static str,
    rows: Peekable<I>,
}

impl<I: Iterator<Item = Result<(TxPoint, TxPoint), IndexError>>> Spenders<I> {
    pub(super) fn new(table: &'static str, rows: I) -> Self {
        Self { table, rows: rows.peekable() }
    }

    /// The next row, if its output lies before this one.
    pub(super) fn next_before(&mut self, outpoint: &TxPoint) -> Option<I::Item> {
        self.rows.next_if(|row| row.as_ref().map_or(true, |(key, _)| key < outpoint))
    }

    /// The input that spends an output, which is behind all that were asked for before.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a row before it is of no output.
    pub(super) fn of(&mut self, outpoint: &TxPoint) -> Result<Option<SpendingInput>, IndexError> {
        let row = self.rows.next_if(|row| row.as_ref().map_or(true, |(key, _)| key <= outpoint));
        let Some((key, spender)) = row.transpose()? else { return Ok(None) };
        if key != *outpoint {
            return Err(self.belongs_to_no_output());
        }
        let (txnum, vin) = split_tx_point(&spender);
        Ok(Some(SpendingInput { txnum, vin: vin.to_u32() }))
    }

    /// Checks that no row is left.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if one is.
    pub(super) fn finish(mut self) -> Result<(), IndexError> {
        match self.rows.next().transpose()? {
            None => Ok(()),
            Some(_) => Err(self.belongs_to_no_output()),
        }
    }

    fn belongs_to_no_output(&self) -> IndexError {
        IndexError::corrupt(self.table, "a row belongs to no output")
    }
}
