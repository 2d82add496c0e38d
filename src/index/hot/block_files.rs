//! Where the blocks of the chain are in the block files of this server's node.
//!
//! These rows belong to the node's files and not to the chain: nothing is derived from them, and a row that is wrong or
//! missing makes a read slower.

use super::super::error::IndexError;
use super::super::snapshot::Snapshot;
use super::tables::block_files::BlockFileRow;
use super::update::Update;
use crate::chain::Height;

impl Update<'_> {
    /// Stores where blocks are, by their heights, in place of earlier rows of these heights.
    pub fn record_block_files(
        &mut self,
        rows: impl IntoIterator<Item = (Height, BlockFileRow)>,
    ) -> Result<(), IndexError> {
        self.with_tables(|tables, _| {
            for (height, row) in rows {
                tables.block_files.insert(&height.to_u32().to_be_bytes(), &row.value())?;
            }
            Ok(())
        })
    }
}

impl Snapshot {
    /// Where blocks are in the block files, by height, the lowest first, read lazily. None in an index of a version without
    /// these rows.
    pub fn block_files(&self) -> Result<impl Iterator<Item = Result<(Height, BlockFileRow), IndexError>>, IndexError> {
        let rows = self.block_files.as_ref().map(|table| table.range::<&[u8; 4]>(..)).transpose()?;
        Ok(rows.into_iter().flatten().map(|row| {
            let (key, value) = row?;
            Ok((u32::from_be_bytes(*key.value()).into(), BlockFileRow::decode(*value.value())?))
        }))
    }
}
