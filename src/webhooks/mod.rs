//! Webhooks: the events of `ledgerEvents` and `chainEvents`, sent to a URL instead of read by a client.
//!
//! ```text
//!   Hook ──► subscription.rs   a subscription to the schema, in this process, behind the last delivered event
//!                │ response
//!            message.rs        id, type and body, which stay the same for all attempts
//!                │
//!            journal.rs        the message, before the first attempt ──► disk
//!                │
//!            client.rs         signature.rs · crate::outbound ──► POST
//!                │
//!      2xx ◄─────┴─────► backoff.rs, then dead_letters.rs
//!       │                            │
//!       └──► journal.rs: the cursor ◄┘   and the next event
//! ```
//!
//! Each hook has a task of its own (`deliverer.rs`), all of them one thread. So a receiver that is down delays neither the
//! other hooks nor the server. The module does not know HTTP servers, storage and the settings.

mod backoff;
mod client;
mod clock;
mod dead_letters;
mod deliverer;
mod event_source;
mod hook;
mod journal;
pub mod limits;
mod message;
mod metrics;
mod resend;
mod service;
mod signature;
mod subscription;

pub use dead_letters::{DeadLetter, DeadLetters};
pub use hook::{Hook, HookWatch, NotAHookName, Timing, WatchedDescriptor, check_name};
pub use metrics::HookMetrics;
pub use resend::{Resent, resend};
pub use service::{Webhooks, WebhooksError};
pub use signature::{NotASigningKey, SigningKey, SigningKeys};

/// The directory of the files of all hooks, in the folder of the network.
pub const DIRECTORY: &str = "webhooks";
