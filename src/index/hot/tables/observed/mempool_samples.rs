//! `mempool_samples`: minute since 1970 (4) → statistics of the mempool at that time, in the encoding of the module
//! `mempool`. Not a function of the chain.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8]> = TableDefinition::new("mempool_samples");
