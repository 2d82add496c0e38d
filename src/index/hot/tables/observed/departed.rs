//! `departed`: number of the departure (8) → a transaction that left the mempool without being mined, in the encoding
//! of the module `mempool`. The newest departures have the highest numbers; not a function of the chain.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 8], &[u8]> = TableDefinition::new("departed");
