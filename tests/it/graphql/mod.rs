//! The schema as a client sees it, over an index fed straight with blocks.

mod addresses;
mod block_figures;
mod block_lists;
mod blocks;
mod broadcasts;
mod chain;
mod difficulty;
mod fees;
mod figures;
mod filters;
mod followed;
mod ids;
mod ledger_events;
mod mempool;
mod mempool_entries;
mod mempool_lists;
mod mempool_replacements;
mod operations;
mod pages;
mod requests;
mod resuming;
mod subscription;
mod template;
mod transactions;
mod transport;
mod wait_for_tip;
