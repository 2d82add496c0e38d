//! `first_seen`: txnum (4) → when the transaction was first seen unconfirmed, u32 seconds since 1970. Only transactions
//! that this server received before their block have a row; not a function of the chain.

use redb::TableDefinition;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8; 4]> = TableDefinition::new("first_seen");
