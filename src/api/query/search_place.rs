//! The places of the meanings of a text in the list of search results: cursors hold them, so none changes.

pub(crate) const HEIGHT: u64 = 0;
pub(crate) const BLOCK_HASH: u64 = 1;
pub(crate) const TXID: u64 = 2;
pub(crate) const WTXID: u64 = 3;
pub(crate) const OUTPOINT: u64 = 4;
pub(crate) const ADDRESS: u64 = 5;
pub(crate) const SCRIPT: u64 = 6;
pub(crate) const SCRIPT_HASH: u64 = 7;
pub(crate) const ELECTRUM_SCRIPT_HASH: u64 = 8;
pub(crate) const TAPROOT_KEY: u64 = 9;
pub(crate) const DESCRIPTOR: u64 = 10;
/// Of the first pool of the table, behind the meanings of the whole text.
pub(crate) const POOLS: u64 = 1 << 32;
/// Of the first address that begins with the text, behind all others.
pub(crate) const ADDRESSES: u64 = 1 << 63;
