//! GraphQL over a websocket.

pub(crate) mod auth;
pub(crate) mod frames;
#[cfg(fuzzing)]
pub mod fuzzing;
pub(crate) mod message;
pub(crate) mod operations;
pub(crate) mod outbox;
pub(crate) mod protocol;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod socket_log;
pub(crate) mod subprotocol;
pub(crate) mod upgrade;
