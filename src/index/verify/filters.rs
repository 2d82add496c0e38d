//! The table `block_filters`: every block below the height that `meta` has must have the header of the filter that follows from
//! its transactions and the outputs that they spend, after that of the block below, and there must be no other row.

use bitcoin::bip158::FilterHeader;
use bitcoin::hashes::Hash;

use super::super::block::ParsedBlock;
use super::super::error::IndexError;
use super::super::hot::block_filters::filter_of;
use super::super::hot::tables::block_filters::{self, FiltersState, NAME};
use super::super::keys::TxNum;
use super::merged::live;
use super::report::TableReport;
use super::work::Work;
use crate::chain::Height;
use crate::chain::compact_filter::before_genesis;

/// The filters up to the block that was recounted last.
pub(super) struct FilterChain {
    header: FilterHeader,
    /// The scriptPubKeys of the outputs that the next block is found to spend.
    spent: Vec<Vec<u8>>,
}

impl Default for FilterChain {
    fn default() -> Self {
        Self { header: before_genesis(), spent: Vec::new() }
    }
}

impl FilterChain {
    /// An input of the next block spends an output with this script.
    pub(super) fn spend(&mut self, script: Vec<u8>) {
        self.spent.push(script);
    }
}

impl Work<'_> {
    /// The height below which each block must have a row; `None` if the rows are of no use and are being deleted.
    fn rows_of_filters(&self) -> Option<Height> {
        match self.snapshot.filters_state {
            FiltersState::Off => Some(Height::GENESIS),
            FiltersState::Dropping { .. } => None,
            FiltersState::On { next } => Some(next),
        }
    }

    /// Whether any row is checked, for which the scripts of spent outputs are needed.
    pub(super) fn checks_filters(&self) -> bool {
        self.rows_of_filters().is_some_and(|next| next > Height::GENESIS)
    }

    /// Compares the row of a block, whose inputs have been recounted.
    pub(super) fn check_filter(
        &mut self,
        block: &ParsedBlock,
        (height, first): (Height, TxNum),
        chain: &mut FilterChain,
    ) -> Result<(), IndexError> {
        let spent = std::mem::take(&mut chain.spent);
        if self.rows_of_filters().is_none_or(|next| height >= next) {
            return Ok(());
        }
        // a spent output that is missing was reported, and makes the filter differ, too
        chain.header = filter_of(block, first, &spent)?.header(&chain.header);
        let table = self.snapshot.block_filters.as_ref();
        let stored = table.map(|table| table.get(&block_filters::key(height))).transpose()?.flatten();
        match stored {
            Some(stored) if stored.value() == chain.header.as_byte_array() => {}
            Some(_) => self.differences.add(format!("{NAME}: the row at height {height} differs from what it must be")),
            None => self.differences.add(format!("{NAME}: the row at height {height} is missing")),
        }
        Ok(())
    }

    /// Hashes and counts the rows. `None` while the table is off or its rows are being deleted.
    pub(super) fn compare_filters(&mut self) -> Result<Option<TableReport>, IndexError> {
        let snapshot = self.snapshot;
        let Some(expected) = self.rows_of_filters() else { return Ok(None) };
        let is_on = snapshot.filters_state != FiltersState::Off;
        let rows =
            snapshot.block_filters.as_ref().map(|table| live(table, [0; 4], |value: &[u8; 32]| *value)).transpose()?;
        let report = self.compare_row_of_each_block(NAME, expected, rows.into_iter().flatten())?;
        Ok(is_on.then_some(report))
    }
}
