//! The mempool of a simulated node.
//!
//! ```text
//!   a transaction ──► accept   admission by policy and locks                          policy, locks, rejection
//!                        │ Assessment
//!                     links    links it with parents and children, updates all sums    entry
//!                        │
//!                     select   the transactions of the next block
//! ```
//!
//! Scripts are not executed, and outputs need not be standard: a transaction that the consensus rules of values,
//! maturity and locks allow is accepted if it pays enough. Only the [`World`](super::World) changes the mempool.

mod accept;
mod entry;
mod links;
mod locks;
mod policy;
mod rejection;
mod select;
mod sim_mempool;

pub use accept::Assessment;
pub(crate) use accept::FeeRule;
pub use entry::{PackageSums, SimMempoolEntry};
pub use policy::Policy;
pub(crate) use policy::rate_of;
pub use rejection::{ChainLimit, Rejection};
pub use sim_mempool::SimMempool;
