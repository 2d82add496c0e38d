//! The settings of the server: where it listens and what clients may do. Its limits are in [`crate::limits`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::listen::ListenAddress;
use crate::server::{Hosts, Origins, Tokens, TrustedProxies};

/// The GraphQL server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "settings that are switched on or off, each by its own name")]
pub struct ServerSettings {
    /// Where to listen; port 0 is any free port.
    pub listen: ListenAddress,
    /// Where to write the port once the server listens; empty for nowhere.
    pub port_file: PathBuf,
    /// Whether there are pages for a browser: the explorer and the playground.
    pub playground: bool,
    /// The web pages that may use the API.
    pub origins: Origins,
    /// The host names of the server, beside those of this machine and its address.
    pub hosts: Hosts,
    /// The proxies whose X-Forwarded-For names the client.
    pub trusted_proxies: TrustedProxies,
    /// The tokens of clients, by their hashes.
    pub tokens: Tokens,
    /// The file with the only operations that are executed; empty for any.
    pub allowed_operations: PathBuf,
    /// Whether /graphql requires a token.
    pub require_token: bool,
    /// The budget a minute of a client without a token; 0 for unlimited.
    pub anonymous_cost_per_minute: u32,
    /// Whether a client without a token may send transactions, if `api.broadcast` is set.
    pub anonymous_broadcast: bool,
    /// Whether the public address has the metrics, too.
    pub metrics: bool,
    /// How many blocks the node may be ahead of a server that is ready.
    pub ready_blocks: u32,
    /// How long the node's last report of its newest block counts as current, in seconds.
    pub ready_seconds: u32,
    /// Whether clients may request the next block template of the node.
    pub block_template: bool,
    /// Whether the limits for one client also apply to clients on this machine.
    pub limit_loopback: bool,
}

impl ServerSettings {
    /// Where to write the port once the server listens.
    #[must_use]
    pub fn port_file(&self) -> Option<&Path> {
        given(&self.port_file)
    }

    /// The file with the only operations that are executed.
    #[must_use]
    pub fn allowed_operations(&self) -> Option<&Path> {
        given(&self.allowed_operations)
    }
}

/// The path of a setting; `None` if it is empty.
fn given(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
}
