//! GraphQL over a websocket: queries, mutations and subscriptions.
//!
//! ```text
//!   GET /graphql ─► upgrade.rs ─► socket.rs (messages by frames.rs, times, what waits in outbox.rs, socket_log.rs)
//!                                    │
//!                                 session.rs ◄─► protocol.rs, message.rs, subprotocol.rs (pure)
//!                                    │           auth.rs
//!                                    └ operations ◄── crate::execution::service
//! ```

pub(crate) mod auth;
pub(crate) mod frames;
#[cfg(fuzzing)]
pub mod fuzzing;
pub(crate) mod message;
pub(crate) mod outbox;
pub(crate) mod protocol;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod socket_log;
pub(crate) mod subprotocol;
pub(crate) mod upgrade;
