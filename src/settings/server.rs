//! The settings of the server: where it listens and what clients may do. Its limits are in [`crate::limits`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::listen::ListenAddress;
use crate::server::{Hosts, Origins, Proxies, Tokens};

/// The GraphQL server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "settings that are switched on or off, each by its own name")]
pub struct ServerSettings {
    /// Where to listen; port 0 is any free port.
    pub listen: ListenAddress,
    /// Where to write the port once the server listens; empty for nowhere.
    pub port_file: PathBuf,
    /// Whether there is a page to try the API in a browser.
    pub playground: bool,
    /// The web pages that may ask.
    pub origins: Origins,
    /// The names under which the server answers, beside those of this machine and its address.
    pub hosts: Hosts,
    /// The proxies that tell which client asks.
    pub trusted_proxies: Proxies,
    /// The tokens of clients, by their hashes.
    pub tokens: Tokens,
    /// Whether nobody is answered without one.
    pub require_token: bool,
    /// What a client without a token may spend a minute; 0 for any.
    pub anonymous_cost_per_minute: u32,
    /// Whether a client without a token may send transactions, if `api.broadcast` is set.
    pub anonymous_broadcast: bool,
    /// Whether the metrics are at the public address, too.
    pub metrics: bool,
    /// How many blocks the node may be ahead of a server that is ready.
    pub ready_blocks: u32,
    /// For how long the node's last report of its newest block is taken to be true, in seconds.
    pub ready_seconds: u32,
    /// Whether clients may ask the node for the block that it would make next.
    pub block_template: bool,
    /// Whether clients on this machine are held to what one client may have of connections and sockets.
    pub limit_loopback: bool,
}

impl ServerSettings {
    /// Where to write the port once the server listens.
    #[must_use]
    pub fn port_file(&self) -> Option<&Path> {
        Some(self.port_file.as_path()).filter(|path| !path.as_os_str().is_empty())
    }
}
