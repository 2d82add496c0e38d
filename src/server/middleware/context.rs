//! What the steps of a request pass to each other beside the request and the response. There are three ways:
//!
//! ```text
//!   down   RequestContext     an extension of the request: its id and client; made by request_log.rs, completed by
//!                             authenticate.rs, read by the handlers
//!   up     RequestSummary     an extension of the response: what the request was and cost; made by the handler, completed
//!                             by authenticate.rs, read by request_log.rs
//!   back   api::Account       the cost of an operation: the schema, which computes it, charges the client's budget
//!                             through the budget that Client::account puts into the account
//! ```
//!
//! Before all of them the listener adds what it knows of the connection: `ConnectInfo`, and `AmbiguousLength` to a request
//! that it applies to.

use std::net::IpAddr;
use std::sync::Arc;

use async_graphql::parser::types::OperationType;

use crate::execution::client::Client;

/// The sender of a request.
#[derive(Clone, Default)]
pub(crate) struct RequestContext {
    /// The id that the log and the client know it by.
    pub(crate) id: Option<Arc<str>>,
    /// The address of its client, `None` if nothing is known of its connection.
    pub(crate) address: Option<IpAddr>,
    /// The client, of a request to the GraphQL endpoint.
    pub(crate) client: Option<Arc<Client>>,
}

/// What a request to the GraphQL endpoint was, as far as that is known when the response begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestSummary {
    /// The name of the operation, as the client wrote it.
    pub(crate) operation: Option<String>,
    /// `None` if the request does not say which of its operations is meant.
    pub(crate) kind: Option<OperationType>,
    /// What it cost.
    pub(crate) cost: Option<u64>,
    /// The code of its first error, or `OK`; `None` if the response is a stream.
    pub(crate) code: Option<&'static str>,
    /// The name of the client's token.
    pub(crate) token: Option<Arc<str>>,
}
