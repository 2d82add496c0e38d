//! Compact filters of blocks that the server computes itself.

use bitcoin::bip158::FilterHeader;

use super::{Block, BudgetExceeded, View};
use crate::chain::compact_filter::BasicFilter;
use crate::index::IndexError;

impl View {
    /// The filter header (BIP157) of a block of the active chain.
    ///
    /// Errors: [`IndexError::FiltersOff`], `FiltersNotReady` unless the index has it.
    pub fn filter_header(&self, block: &Block) -> Result<FilterHeader, IndexError> {
        self.head.chain.filter_header(block.height)
    }

    /// The basic filter (BIP158) of a block of the active chain, computed from its transactions and those with the outputs that
    /// it spends.
    ///
    /// Errors: as [`View::filter_header`]; the byte budget, as all of these transactions are read.
    pub fn basic_filter<E>(&self, block: &Block) -> Result<BasicFilter, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        self.head.chain.basic_filter::<E>((block.height, &block.row), &mut |bytes| {
            self.count(bytes)?;
            Ok(self.bytes_left())
        })
    }
}
