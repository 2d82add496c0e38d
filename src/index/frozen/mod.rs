//! The packed form of the index: generations. A generation is a file of its own with the rows of a range of blocks, built
//! once and then only read.
//!
//! ```text
//!   Snapshot (live rows) ── pack ──► GenerationBuilder ──► <first>-<last>-<hash>.redb ──► Generation: reads
//!                                          ▲ tables/: one packer and reader for each table
//!   several generations ── merge ──────────┘
//! ```
//!
//! An index puts a generation into force (`adopt.rs`), and `generations.rs` reads all of them as one, each up to its end; the bytes of
//! their transactions are read from the node or its block files (`transactions.rs`).
//!
//! What the rows mean is as in the live tables; how they are stored differs: many entries share a row, whose size is
//! chosen so that rows fill pages exactly, and numbers are varints and differences.

pub(super) mod builder;
mod derive;
mod derived;
mod facts;
mod generation;
pub(super) mod generations;
mod in_force;
mod in_force_record;
mod kept_filters;
mod largest_blocks;
mod merge;
mod merged_entries;
mod pack;
pub(super) mod page;
mod parallel;
mod recent;
mod record_runs;
mod retirable;
mod shortened;
mod spenders;
mod table;
pub(super) mod tables;
mod transactions;
mod versions;

pub use derive::{BuildPhase, BuildProgress, DueTable};
pub(super) use derived::{DerivedFile, DerivedName};
pub(super) use facts::generation_facts;
pub use facts::{GenerationIdentity, GenerationRange, PackedFormat};
pub use generation::Generation;
pub(super) use generation::scan::PackedEntries;
pub(super) use generations::Generations;
pub(super) use in_force::InForce;
pub(super) use in_force_record::InForceRecord;
pub use merge::DueMerge;
pub(super) use recent::TransactionCopy;
pub(super) use table::StoredTable;
pub(super) use tables::spends::KeptRow;
pub(super) use transactions::FrozenTransaction;
pub(super) use versions::TableVersions;
