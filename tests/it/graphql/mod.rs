//! The schema as a client sees it, over an index fed straight with blocks.

mod addresses;
mod block_figures;
mod block_lists;
mod blocks;
mod chain;
mod fees;
mod ids;
mod mempool;
mod mempool_entries;
mod mempool_lists;
mod mempool_replacements;
mod operations;
mod pages;
mod requests;
mod subscription;
mod transactions;
mod transport;
