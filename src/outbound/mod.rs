//! Connections to URLs that the operator sets: for webhooks, and for the table of rates.
//!
//! ```text
//!   target.rs (the URL) ──► name ──► address_policy.rs: is the address allowed? ──► TCP ──► tls.rs ──► HTTP/1.1
//! ```
//!
//! The address is checked when the connection is made, and the connection is made to that address, so that a name that
//! resolves to another address each time leads nowhere else. Redirects are not followed, and proxies are not used.

mod address_policy;
mod connection;
mod failure;
mod fetch;
mod target;
mod tls;

pub(crate) use connection::{OpenConnection, OutboundEndpoint};
pub(crate) use failure::FailureReason;
pub use fetch::{Fetch, FetchError, FetchLimits};
pub use target::{NotATarget, Target};
pub(crate) use tls::use_ring;
pub use tls::{NoCertificates, TlsConfig};

/// What requests send as `User-Agent`.
pub(crate) const AGENT: &str = concat!("btcgraph/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
pub(crate) use connection::HEAD_BYTES;

/// A certificate of `localhost` that signs itself, until the year 2126, and its key.
#[cfg(test)]
pub(crate) const LOCALHOST: (&[u8], &[u8]) = (include_bytes!("localhost.pem"), include_bytes!("localhost.key"));
