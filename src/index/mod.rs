//! Every redb table, key and value of the index; connecting and disconnecting blocks; read snapshots.
//!
//! The index is a function of the chain: one chain gives one set of rows, by whatever sequence of connects and
//! disconnects it was reached. Rows state facts and carry their position, so a later block never rewrites a row, and
//! disconnecting a block deletes the rows that it added and inserts the outputs that it spent.
//!
//! ```text
//!   raw bytes ─ Parser ─► ParsedBlock ─┐                 (hashing; any thread, no database)
//!                                      ▼
//!              Update::connect ── resolve ── effects ── apply       one write transaction,
//!              Update::disconnect ─ resolve ── effects ── revert    committed as a whole
//!                                      │
//!   Index::snapshot ──► Snapshot       ▼  typed reads of one committed state
//! ```
//!
//! A snapshot reads the live rows and the generations in force (`frozen/generations.rs`) as one; an update connects blocks
//! above them and disconnects blocks through them.
//!
//! This module does not know the node or GraphQL. `tables/` has one file per table, `frozen/` their packed form and the
//! reads of it, `import/` the way from blocks straight to that form; `docs/index-format.md` describes them together.

mod addresses;
mod adopt;
mod announced;
mod apply;
mod block;
mod block_files;
mod block_filters;
mod codec;
mod copy;
mod damage;
mod disk_space;
mod effects;
mod error;
mod flush;
mod frozen;
mod import;
mod keys;
mod merkle;
mod metrics;
mod miners;
mod observed;
mod op_returns;
mod open;
mod optional;
mod prefetch;
mod published;
mod ranges;
mod raw;
mod resolve;
mod scripts;
mod snapshot;
mod sorter;
mod statistics;
mod sweep;
mod table_rows;
mod tables;
mod union;
mod update;
mod verify;
mod witnesses;
mod wtxids;

pub use addresses::{AddressCandidate, AddressCandidates};
pub use block::{ParsedBlock, Parser};
pub use block_filters::CountBytes;
pub use copy::CopiedRows;
pub use damage::{catch_damage, is_catching_damage};
pub use disk_space::{DiskShortage, RequiredSpace};
pub use error::IndexError;
pub use frozen::{BuildPhase, BuildProgress, DueTable, Generation, GenerationIdentity, GenerationRange, PackedFormat};
pub use import::{FreshStart, Import, ImportEstimate, ImportOptions, ImportPhase, ImportProgress, Imported};
pub use keys::{OutputPosition, Salt, ScriptKey, TxNum};
pub use merkle::{FrozenTxids, TxidMismatch};
pub use metrics::IndexMetrics;
pub use observed::{Observations, ObservedLimits};
pub use op_returns::OpReturnPosition;
pub use open::{Index, IndexOptions};
pub use optional::{NamedTable, OptionalTable, OptionalTables};
pub use published::{FrozenFile, FrozenFiles, JoinedFile};
pub use raw::{RawBlocks, RawFiles, RawProgress, RawStorage};
pub use snapshot::{Occurrence, Snapshot, SpendingInput, StoredTransaction, WantedTransaction};
pub use statistics::feerate_quantiles;
pub use table_rows::TableRows;
pub use tables::block_files::BlockFileRow;
pub use tables::block_hashes::{BlockPlace, ChainMembership};
pub use tables::block_observed::ObservedBlock;
pub use tables::blocks::{BlockRow, ChainTotals, CountAndValue, QUANTILES, TypeTotals, Unspendable};
pub use tables::history::HistoryRow;
pub use tables::meta::FORMAT_VERSION;
pub use tables::miner_blocks::MinerTotals;
pub use tables::op_returns::SHORTEST_DATA;
pub use tables::reorgs::{DeadTransaction, Reorg, ReorgOutcome};
pub use tables::stale_blocks::StaleBlock;
pub use tables::unspent::{FoundOutput, UnspentKey, UnspentRow};
pub use update::{Tip, Update};
pub use verify::{IndexFile, Report, TableReport, UtxoSet, VerifyOptions, VerifyProgress, WatchFile, verify};
