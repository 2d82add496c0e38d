//! The state of a simulated node: its tree of blocks, its mempool, and the events of both.
//!
//! ```text
//!   submit, submit_package,      mine, reorg, invalidate,        events_since(number)
//!   evict, expire                reconsider, change_chain             ▲
//!        │                            │                               │
//!        ▼                            ▼                               │
//!     SimMempool ◄─ follow_chain ── SimChain                       EventLog
//!        └────────────────────────────┴── each change is logged ─────┘
//! ```
//!
//! Every operation works as in Core, and logs its events in the order in which Core publishes them. The caller sets the
//! time.

mod event;
mod follow_chain;
mod package;
#[cfg(test)]
mod tests;
mod tip_change;
#[expect(clippy::module_inception, reason = "the type this module is about")]
mod world;

pub use event::{NumberedEvent, WorldEvent};
pub use world::{Accepted, Mining, World};
