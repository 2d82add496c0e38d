//! What an update changes in the rows of `raw_blocks`.

use super::super::error::IndexError;
use super::super::hot::live_tables::Tables;
use super::super::hot::tables::block_files::BlockFileRow;
use super::RawFiles;
use crate::chain::Height;

/// What an update changes in the rows of `raw_blocks`; the raw files follow when it is committed.
#[derive(Default)]
pub(in crate::index) struct RawChanges {
    pub(super) named: Vec<(Height, BlockFileRow)>,
    forgotten: Vec<Height>,
}

impl RawChanges {
    /// They are committed.
    pub(in crate::index) fn apply(self, files: &RawFiles) {
        if !self.named.is_empty() {
            files.name(&self.named);
        }
        files.forget(&self.forgotten);
    }

    /// Deletes the row of a block that is disconnected.
    ///
    /// Errors: storage errors.
    pub(in crate::index) fn forget(&mut self, tables: &mut Tables<'_>, height: Height) -> Result<(), IndexError> {
        tables.raw_blocks.remove(&height.to_u32().to_be_bytes())?;
        self.forgotten.push(height);
        Ok(())
    }
}
