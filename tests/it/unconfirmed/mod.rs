//! The mempool that is published beside the chain: whatever happens to a node's, it becomes the same, every state on the
//! way is a possible one, and who is told of them misses nothing.
//!
//! ```text
//!   simulated.rs, real.rs   lives of nodes ──► following.rs   an index and a mempool that follow
//!                                                  │ each state
//!   streams.rs    subscribers ◄────────────────────┼──────────► check.rs   against the one before
//! ```

mod check;
mod following;
mod real;
mod simulated;
mod streams;
