//! The node: a real one and a simulated one, as the program asks them, and the block files beside them.

mod block_files;
pub(crate) mod block_source;
mod blocks;
mod requests;
mod sim_chain;
pub(crate) mod sim_node;
mod sim_world;
