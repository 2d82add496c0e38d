//! Blocks: one, lists of them, their contents, and who mined them.

mod audits;
mod blocks;
mod coinbases;
mod compact_filters;
mod contents;
mod figures;
mod lists;
mod miner_series;
pub(crate) mod miners;
mod signals;
mod template;
