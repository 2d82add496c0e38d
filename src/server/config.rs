//! The options of a server.

use crate::execution::document::allowed::AllowedOperations;
use crate::limits::Limits;
use crate::server::auth::authenticator::TokenPolicy;
use crate::server::draining::Draining;
use crate::server::limits::client_ip::TrustedProxies;
use crate::server::middleware::cors::Origins;
use crate::server::middleware::host::Hosts;

/// What is served beside the schema, and to which clients.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "what is switched on or off, each by its own name")]
pub struct Options {
    /// What clients may request, how often and how long.
    pub limits: Limits,
    /// Whether the limits of one client apply to clients on this machine, too.
    pub limit_loopback: bool,
    /// Whether there is a playground.
    pub playground: bool,
    /// The origins whose pages may use the server.
    pub origins: Origins,
    /// The host names of the server, beside those of this machine and the address it listens on.
    pub hosts: Hosts,
    /// The proxies whose `X-Forwarded-For` names the client.
    pub proxies: TrustedProxies,
    /// The tokens of clients, and what is allowed without one.
    pub token_policy: TokenPolicy,
    /// The only operations that are executed; `None` for any.
    pub allowed_operations: Option<AllowedOperations>,
    /// How many blocks it may be behind the node and still count as ready.
    pub ready_blocks: u32,
    /// Whether the public address has the metrics.
    pub public_metrics: bool,
    /// Whether it shows itself as not ready.
    pub draining: Draining,
    /// Whether reads of the index may wait for another machine, which takes a thread each: for a store of published blocks, or for a
    /// node whose block files are not here.
    pub reads_wait: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            limit_loopback: false,
            playground: true,
            origins: Origins::default(),
            hosts: Hosts::default(),
            proxies: TrustedProxies::default(),
            token_policy: TokenPolicy::default(),
            allowed_operations: None,
            ready_blocks: 1,
            public_metrics: false,
            draining: Draining::default(),
            reads_wait: false,
        }
    }
}
