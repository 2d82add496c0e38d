//! Every redb table, key and value of the index; connecting and disconnecting blocks; read snapshots.
//!
//! The index is a function of the chain: the same chain gives the same rows, whichever way it was reached. Rows state
//! facts and carry their position, so no row is ever rewritten by a later block, and taking a block back is deleting
//! the rows it added and re-adding the outputs it had spent.
//!
//! ```text
//!   raw bytes ── Parser ──► Block ─┐                     (hashing; any thread, no database)
//!                                  ▼
//!              Update::connect ── resolve ── effects ── apply       one write transaction,
//!              Update::disconnect ─ resolve ── effects ── revert    committed as a whole
//!                                  │
//!   Index::snapshot ──► Snapshot   ▼  typed reads of one committed state
//! ```
//!
//! Nothing here knows of a node or of GraphQL. One file a table in `tables/`; `docs/index-format.md` shows them
//! together.

mod ahead;
mod apply;
mod block;
mod codec;
mod damage;
mod effects;
mod error;
mod figures;
mod keys;
mod observed;
mod open;
mod ranges;
mod resolve;
mod room;
mod scripts;
mod settle;
mod snapshot;
mod sorter;
mod statistics;
mod tables;
mod told;
mod update;
mod verify;

pub use block::{Block, Parser};
pub use damage::{catch_damage, is_catching_damage};
pub use error::IndexError;
pub use figures::IndexFigures;
pub use keys::{OutputPosition, Salt, ScriptKey, TxNum};
pub use observed::{Observations, ObservedLimits};
pub use open::{Index, IndexOptions};
pub use room::{DiskShortage, Room};
pub use snapshot::{Occurrence, Snapshot, Spender, StoredTransaction, TableRows};
pub use tables::block_hashes::{BlockPlace, ChainMembership};
pub use tables::blocks::{BlockRow, CountAndValue, QUANTILES, Running, TypeTotals, Unspendable};
pub use tables::history::HistoryRow;
pub use tables::meta::FORMAT_VERSION;
pub use tables::reorgs::{DeadTransaction, Outcome, Reorg};
pub use tables::stale_blocks::StaleBlock;
pub use tables::unspent::{UnspentKey, UnspentRow};
pub use update::{Tip, Update};
pub use verify::{IndexFile, Report, TableReport, UtxoSet, VerifyOptions, VerifyProgress, WatchFile, verify};
