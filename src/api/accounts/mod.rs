//! The scripts of descriptors, and which of them were used.
//!
//! ```text
//!   text ──► DerivationCache (derivation.rs) ── batches of scripts ──► discovery.rs ──► DiscoveredAccount
//!               parsed and derived on threads of their own,              up to the gap limit, in one view
//!               the newest kept within a budget of bytes      └──► watching.rs ──► WatchedBranches
//!                                                                      of a stream, from one view to the next
//! ```

mod derivation;
mod discovery;
mod watching;

pub(crate) use derivation::{DerivationCache, DerivedScript};
pub(crate) use discovery::{AccountBranch, DEFAULT_GAP_LIMIT, DiscoveredAccount, batch_cost};
pub(crate) use watching::{DESCRIPTORS, HistoryEnd, WatchedBranch, WatchedBranches, WatchedScriptSlots};
