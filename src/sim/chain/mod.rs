//! The tree of blocks, the active chain in it, and the assembly of blocks.
//!
//! ```text
//!   mine ──► assemble    a Template becomes a block of valid header, coinbase, sums and limits
//!               │ block and its changes of the UTXO set
//!            tree        a leaf of the tree; the best valid leaf is the tip: extend, invalidate, reconsider
//!               │ the blocks to undo and to redo
//!            view        the UTXO set at the tip, or temporarily at any other block
//! ```
//!
//! Blocks are valid by every rule that does not execute scripts: proof of work, median time, BIP34 height, merkle root,
//! witness commitment, unspent and mature inputs, values, reward, weight and signature operations. Scripts, lock times
//! and relative locks are not checked.

mod assemble;
mod sim_chain;
#[cfg(test)]
mod tests;
mod tree;
mod tree_entry;
mod view;

pub(crate) use assemble::MAX_BLOCK_SIGOPS_COST;
pub use assemble::Template;
pub use sim_chain::SimChain;
pub use tree::{BranchTip, ChainPath, TipStatus};
