//! What a subscription watches, and what it sends of it.
//!
//! ```text
//!   set.rs              what a subscription is to watch; the scripts of descriptors become more
//!   watched.rs          what it watches at one time: holdings in one view after the other
//!   ledger_event.rs     an event of such a subscription, and its kinds (ledger_event_kind.rs)
//!   descriptor_match.rs the scripts of descriptors that an event concerns
//! ```

mod descriptor_match;
mod ledger_event;
mod ledger_event_kind;
mod set;
mod watched;

pub(crate) use descriptor_match::DescriptorMatch;
pub(crate) use ledger_event::LedgerEvent;
pub(crate) use ledger_event_kind::LedgerEventKind;
pub(crate) use set::WatchSet;
pub(crate) use watched::Watched;
