//! What only the node knows, asked while a client waits.

mod client;
mod facts;
mod submit;

pub(super) use client::BoundedNode;
pub use client::{NodeClient, NodeClientError, NodeLimits};
pub use facts::MissingFilter;
