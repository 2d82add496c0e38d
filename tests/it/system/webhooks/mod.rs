//! Webhooks against receivers that fail, stall and restart.

mod deliveries;
mod documented;
mod failures;
mod process;
pub(crate) mod receiver;
mod stage;
