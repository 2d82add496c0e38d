//! The tables of the index: their rows against naive models, damage and what is found of it, and frozen blocks.

mod address_prefixes;
mod block_files;
pub(crate) mod block_filters;
mod blocks;
mod cut;
pub(crate) mod damage;
mod damage_frozen;
mod exact;
mod flush;
mod frozen_utxo_set;
pub(crate) mod generations;
mod merging;
pub(crate) mod miners;
mod model;
mod observed;
mod op_returns;
mod prefetched;
mod raw_storage;
mod read_together;
mod shortened;
mod table_bytes;
pub(crate) mod wtxids;
