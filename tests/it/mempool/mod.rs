//! The mempool that is published beside the chain: it converges to the mempool of the node after any event, every state
//! on the way is a possible one, and a subscriber loses no event.
//!
//! ```text
//!   simulated.rs, real.rs   lives of nodes ──► following.rs   an index and a mempool that follow a node
//!   faults.rs, journal.rs, late_conflicts.rs, memory.rs, observed_blocks.rs, reasons.rs, records.rs, reorgs.rs   single events
//!                                                  │ each state
//!   gaps.rs, ledger_streams.rs, streams.rs
//!                 subscribers ◄────────────────────┼──────────► check.rs   against the one before
//! ```

mod check;
mod faults;
pub(crate) mod following;
mod gaps;
mod journal;
mod late_conflicts;
pub(crate) mod ledger_streams;
mod memory;
mod observed_blocks;
mod real;
mod reasons;
mod records;
mod reorgs;
pub(crate) mod simulated;
mod streams;
