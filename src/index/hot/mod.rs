//! The live tables: what changes block by block, with the single writer, and what is observed beside the chain.

pub(in crate::index) mod announced;
pub(in crate::index) mod announced_tip;
pub(in crate::index) mod apply;
pub(in crate::index) mod block_files;
pub(in crate::index) mod block_filters;
pub(in crate::index) mod effects;
pub(in crate::index) mod flush;
pub(in crate::index) mod flush_state;
pub(in crate::index) mod live_tables;
pub(in crate::index) mod miners;
pub(in crate::index) mod observed;
pub(in crate::index) mod observed_limits;
pub(in crate::index) mod prefetch;
pub(in crate::index) mod resolve;
pub(in crate::index) mod spend_cursor;
pub(in crate::index) mod sweep;
pub(in crate::index) mod sweep_cursor;
pub(in crate::index) mod tables;
pub(in crate::index) mod tip;
pub(in crate::index) mod tip_record;
pub(in crate::index) mod transactions;
pub(in crate::index) mod union;
pub(in crate::index) mod update;
