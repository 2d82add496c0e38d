//! Executes what clients send, whichever way it arrives: from the text of a request to its responses. Knows no HTTP.
//!
//! ```text
//!   request ──► document/ ──► service.rs ──► pool.rs ──► api::Schema ──► payload.rs ──► response
//!               admitted or       │             so many at once            encoded once
//!               refused           └─ fanout/, subscription.rs: one execution for all with the same subscription
//! ```
//!
//! `service.rs` has the two verbs, `execute` and `subscribe`. `client.rs` is the client of a request and what it may spend
//! (`gcra.rs`), `memory.rs` bounds what is kept for all clients together, `error.rs` has the errors as clients receive them.

pub(crate) mod client;
pub(crate) mod document;
pub(crate) mod error;
pub(crate) mod fanout;
pub(crate) mod gcra;
pub(crate) mod memory;
pub(crate) mod metering;
pub(crate) mod operation_queue;
pub(crate) mod payload;
pub(crate) mod pool;
pub(crate) mod service;
pub(crate) mod sha256;
pub(crate) mod subscription;

pub use document::allowed::{AllowedOperations, InvalidOperations};
pub use document::guard;
pub use pool::runtime;
