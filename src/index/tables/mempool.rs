//! `mempool`: txid (32) → the transaction as the mempool keeps it, in the mempool's own encoding. What was unconfirmed
//! when it was last written down; not a function of the chain.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 32], &[u8]> = TableDefinition::new("mempool");
