//! The types of the schema, by subject: one file each.

// the file of a type has its name, and so has the folder of its subject
#![allow(clippy::module_inception)]

pub(crate) mod block;
pub(crate) mod chain;
pub(crate) mod enums;
pub(crate) mod filter_rules;
pub(crate) mod ledger;
pub(crate) mod mempool;
pub(crate) mod miner;
pub(crate) mod node;
pub(crate) mod node_interface;
pub(crate) mod psbt;
pub(crate) mod rates;
pub(crate) mod search_result;
pub(crate) mod server;
pub(crate) mod spend;
pub(crate) mod transaction;
