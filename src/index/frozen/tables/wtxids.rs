//! `wtxids` (optional, in a file of its own): cut hash of a wtxid (6) → txnum (4), then further transactions, as in
//! `txid_prefixes`. Version 2 has only transactions with a witness, as the live table; version 1 has all.

use redb::TableDefinition;

use super::super::versions::TableVersions;

pub(in crate::index) const NAME: &str = "wtxids";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 6], &[u8]> = TableDefinition::new(NAME);

pub(in crate::index) const VERSIONS: TableVersions = TableVersions::new(NAME, 1..=2);

/// Whether a version has the transactions whose wtxid is their txid.
pub(in crate::index) fn has_transactions_without_witness(version: u32) -> bool {
    version == 1
}
