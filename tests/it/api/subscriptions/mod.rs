//! Subscriptions: what they tell, and how they go on.

mod figures;
mod followed;
pub(crate) mod ledger_events;
mod new_block;
mod resuming;
mod watched_at_random;
pub(crate) mod watched_descriptors;
mod watched_limits;
