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
//! This module does not know the node or GraphQL. `hot/tables/` has one file per table, `frozen/` their packed form and the
//! reads of it, `import/` the way from blocks straight to that form; `docs/index-format.md` describes them together.

mod adopt;
mod block;
mod codec;
mod copy;
mod damage;
mod disk_space;
mod error;
mod files;
mod frozen;
mod hot;
mod import;
mod keys;
mod merge;
mod merkle;
mod metrics;
mod open;
mod optional;
mod partial;
mod published;
mod ranges;
mod raw;
mod scripts;
mod snapshot;
mod sorter;
mod statistics;
mod table_rows;
mod together;
mod unchanged;
mod verify;
mod witnesses;

pub use block::{ParsedBlock, Parser};
pub use copy::CopiedRows;
pub use damage::{catch_damage, is_catching_damage};
pub use disk_space::{DiskShortage, RequiredSpace, reserve_space};
pub use error::IndexError;
pub use frozen::{
    BuildPhase, BuildProgress, DueMerge, DueTable, Generation, GenerationIdentity, GenerationRange, PackedFormat,
};
pub use hot::block_filters::CountBytes;
pub use hot::observed::Observations;
pub use hot::observed_limits::ObservedLimits;
pub use hot::prefetch::PrefetchedRows;
pub use hot::resolve::{Known, KnownOutput, KnownOutputs};
pub use hot::spend_cursor::SpendCursor;
pub use hot::tables::block_files::BlockFileRow;
pub use hot::tables::block_hashes::{BlockPlace, ChainMembership};
pub use hot::tables::block_starts::Occurrence;
pub use hot::tables::blocks::{BlockRow, ChainTotals, CountAndValue, QUANTILES, TypeTotals, Unspendable};
pub use hot::tables::history::HistoryRow;
pub use hot::tables::meta::FORMAT_VERSION;
pub use hot::tables::miner_blocks::MinerTotals;
pub use hot::tables::observed::block_observed::ObservedBlock;
pub use hot::tables::op_returns::SHORTEST_DATA;
pub use hot::tables::reorgs::{DeadTransaction, Reorg, ReorgOutcome};
pub use hot::tables::spends::SpendingInput;
pub use hot::tables::stale_blocks::StaleBlock;
pub use hot::tables::unspent::{FoundOutput, UnspentKey, UnspentRow};
pub use hot::tip::Tip;
pub use hot::update::Update;
pub use import::{FreshStart, Import, ImportEstimate, ImportOptions, ImportPhase, ImportProgress, Imported};
pub use keys::{OutputPosition, Salt, ScriptKey, TxNum};
pub use merge::MergeOutcome;
pub use merkle::{FrozenTxids, TxidMismatch};
pub use metrics::IndexMetrics;
pub use open::{Index, IndexOptions};
pub use optional::address_prefixes::{AddressCandidate, AddressCandidates};
pub use optional::op_returns::OpReturnPosition;
pub use optional::{NamedTable, OptionalTable, OptionalTables};
pub use partial::{PartialFile, PartialFiles, Patience, Unfetched};
pub use published::{FrozenFile, FrozenFiles, JoinedFile};
pub use raw::{RawBlocks, RawFiles, RawProgress, RawStorage};
pub use snapshot::{Snapshot, StoredTransaction, WantedTransaction};
pub use statistics::STORED_PERCENTS;
pub use table_rows::TableRows;
pub use verify::{IndexFile, Report, TableReport, UtxoSet, VerifyOptions, VerifyProgress, WatchFile, verify};
