//! `raw_blocks`: height (4) → file u32 ‖ offset u32 ‖ length u32: where the bytes of a frozen block are in the raw files of
//! this index (`raw/files.rs`), if they are there. The row of `block_files` says the same of the node's files.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8; 12]> = TableDefinition::new("raw_blocks");
