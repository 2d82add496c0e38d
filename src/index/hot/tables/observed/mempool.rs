//! `mempool`: txid (32) → an unconfirmed transaction, in the encoding of the module `mempool`. The mempool as it was
//! last persisted; not a function of the chain.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 32], &[u8]> = TableDefinition::new("mempool");
