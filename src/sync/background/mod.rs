//! Work on the index beside following the node: freezing blocks, merging generations, building optional tables, moving raw
//! bytes. For each, one file has its state and its thread, and one the steps of the loop:
//!
//! ```text
//!   freezer.rs   ◄── freeze.rs         blocks into a generation (`freezing.rs`: when, and with which means)
//!   merger.rs    ◄── merge.rs          several generations into one
//!   deriver.rs   ◄── derive.rs         optional tables
//!   raw_mover.rs ◄── raw_storage.rs    raw bytes to where they are to be stored
//! ```
//!
//! A thread builds a file (`job.rs`), and a small commit of the loop puts it into force.

mod build_log;
mod derive;
mod deriver;
mod freeze;
mod freezer;
mod freezing;
mod job;
mod merge;
mod merger;
mod raw_mover;
mod raw_storage;

pub(super) use deriver::Deriver;
pub(super) use freeze::{CATCH_UP_SLICE, TIP_SLICE};
pub(super) use freezer::Freezer;
pub use freezing::{FreezeBounds, Freezing};
pub(super) use job::Retry;
pub(super) use merger::Merger;
pub(super) use raw_mover::RawMover;
