//! [`NodeBlocks`]: reads parts of blocks from the node that has them, in the fastest way that works.
//!
//! ```text
//!   read ─► position known? ─► block files: the header is checked, then exactly these bytes are read
//!              │ no, or another block is there
//!              ├─► relocate.rs: a thread scans the files again, at most once a minute
//!              └─► REST: the part of the block (Core 31), or the whole block, a few of which are cached ─► RPC
//! ```

#[expect(clippy::module_inception, reason = "the type this module is about")]
mod node_blocks;
mod part_reader;
mod recent;
mod relocate;
#[cfg(test)]
mod tests;

pub use node_blocks::NodeBlocks;
