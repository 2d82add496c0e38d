//! `mempool_samples`: minute since 1970 (4) → figures of the mempool at that time, in the mempool's own encoding. Not a
//! function of the chain.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8]> = TableDefinition::new("mempool_samples");
