//! The node's notifications: [`Signals`], a stream of [`NodeSignal`] from its ZMQ topic `sequence`.
//!
//! ```text
//!   node ── TCP ──► zmtp.rs ── frames ──► message.rs ── signals ──► queue.rs ──► drain(), at any time
//!                      │                     │ detects gaps            │ bounded
//!                      └── reconnected ──────┴──────── Lost ───────────┘ on_signal() wakes the consumer
//!   endpoint.rs   the publisher's address    wire.rs   the bytes of zmtp.rs
//! ```
//!
//! Signals are hints: the node keeps no messages for an absent subscriber, and drops messages that it cannot send.
//! Every possible gap is reported as [`NodeSignal::Lost`]; the consumer then requests the whole mempool from the node.

mod endpoint;
mod message;
mod queue;
mod signal;
#[expect(clippy::module_inception, reason = "the type this module is about")]
mod signals;
mod wire;
mod zmtp;

pub use signal::{NodeSignal, ReceivedSignal};
pub use signals::Signals;
