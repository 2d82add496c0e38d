//! Keeps the mempool equal to the node's.
//!
//! ```text
//!   list of the node's mempool ── difference ──┬─► removals ─► departure.rs, reason ──► remove
//!            list.rs                           │
//!   signals: added, removed ───────────────────┼─► to_fetch ─► incoming.rs, prevouts.rs ──► add (replaces conflicts)
//!                                              │                │ unknown parent
//!   disconnected and connected blocks ─────────┘                └─► orphans.rs ─► unresolved.rs, after some tries
//!            chain_change.rs
//!
//!   index ── start ──► persistence.rs ──► add             periodically, and at the end ──► writes.rs ──► index
//! ```
//!
//! The node decides what is in its mempool, and signals report the changes. Whenever a signal may have been lost, and
//! periodically, the whole list is requested and its difference applied. Orphans, which spend outputs of unknown
//! transactions, wait for their parents. The next step repeats what a failure interrupted.
//!
//! The list contains only txids. A transaction that leaves and returns with another witness, and so with the same txid,
//! is noticed by its two signals. While signals are lost or disabled it is not noticed, and the mempool keeps the first
//! witness until the transaction leaves.

mod block_state;
mod chain_change;
mod clock;
mod conflicts;
mod departure;
mod incoming;
mod last_list;
mod list;
mod load;
mod lock_times;
mod mempool_sync;
mod orphans;
mod persistence;
mod prevouts;
mod queue;
mod step;
#[cfg(test)]
pub(super) mod tests;
mod unresolved;
mod writes;

pub(super) use block_state::PreBlockState;
pub(super) use clock::now;
pub(super) use mempool_sync::MempoolSync;
pub use persistence::PersistentMempool;
pub(super) use step::StepOutcome;
#[cfg(test)]
pub(super) use writes::MAX_EVENTS;
