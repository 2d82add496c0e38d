//! The schema as a client sees it, over an index fed straight with blocks.

mod addresses;
mod block_figures;
mod block_lists;
mod blocks;
mod chain;
mod ids;
mod operations;
mod pages;
mod requests;
mod subscription;
mod transactions;
mod transport;
