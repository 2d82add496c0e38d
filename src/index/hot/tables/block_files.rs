//! `block_files`: height (4) → file u32 ‖ offset u32 ‖ length u32: where a block of the chain is in the block files of this
//! server's node. Hints: another node has another order, and a reader checks what it finds.

use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8; 12]> = TableDefinition::new("block_files");

/// Where a block is in the block files of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFileRow {
    /// The number of the file.
    pub file: u32,
    /// Where the block begins in the file, in bytes.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
}

impl BlockFileRow {
    pub(in crate::index) fn value(self) -> [u8; 12] {
        let mut value = [0; 12];
        let mut row = Encoder::default();
        row.u32(self.file).u32(self.offset).u32(self.length);
        value.copy_from_slice(&row.finish());
        value
    }

    pub(in crate::index) fn decode(value: [u8; 12]) -> Result<Self, IndexError> {
        let mut row = Decoder::new("block_files", &value);
        let decoded = Self { file: row.u32()?, offset: row.u32()?, length: row.u32()? };
        row.finish()?;
        Ok(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_its_encoding() {
        let row = BlockFileRow { file: 5_123, offset: 134_000_008, length: 3_999_999 };
        assert_eq!(row.value()[..4], [0, 0, 0x14, 0x03]);
        assert_eq!(BlockFileRow::decode(row.value()).unwrap(), row);
    }
}
