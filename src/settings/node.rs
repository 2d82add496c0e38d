//! The settings of the node: its address, the credentials, timeouts and retries.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::Secret;

/// The node that is followed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSettings {
    /// Address of the RPC server, without credentials.
    pub rpc_url: String,
    /// The node's authentication cookie; empty if `rpc_user` is set.
    pub rpc_cookie: PathBuf,
    /// User name; empty if the cookie is used.
    pub rpc_user: String,
    /// Password of `rpc_user`.
    pub rpc_password: Secret,
    /// The node's `blocks` directory; empty: not known.
    pub blocks_dir: PathBuf,
    /// The endpoint where the node publishes signals; empty: btcgraph asks the node for it.
    pub zmq: String,
    /// How long to wait for one response, in seconds.
    pub timeout_seconds: u32,
    /// How long a request that could not reach the node is retried, in seconds.
    pub patience_seconds: u32,
    /// Concurrent requests while catching up.
    pub connections: usize,
    /// How often the node is asked for its tip, in seconds; see [`Settings::poll`](super::Settings::poll).
    pub poll_seconds: u32,
}

/// How btcgraph authenticates to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAuth {
    /// By the content of the cookie file, which the node writes anew at each start.
    Cookie(PathBuf),
    /// By a user name and its password.
    Password(String, Secret),
}

impl NodeSettings {
    /// How to authenticate to the node.
    #[must_use]
    pub fn auth(&self) -> NodeAuth {
        if self.rpc_user.is_empty() {
            NodeAuth::Cookie(self.rpc_cookie.clone())
        } else {
            NodeAuth::Password(self.rpc_user.clone(), self.rpc_password.clone())
        }
    }

    /// The node's `blocks` directory, if it is known.
    #[must_use]
    pub fn blocks_dir(&self) -> Option<&Path> {
        Some(self.blocks_dir.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    /// Whether `rpc_url` names this machine.
    pub(super) fn is_local(&self) -> bool {
        let address = self.rpc_url.strip_prefix("http://").unwrap_or(&self.rpc_url);
        let address = address.split('/').next().unwrap_or_default();
        let host = match address.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => address.rsplit_once(':').map_or(address, |(host, _)| host),
        };
        host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The endpoint where the node publishes signals, if it is set.
    #[must_use]
    pub fn zmq(&self) -> Option<&str> {
        Some(self.zmq.as_str()).filter(|endpoint| !endpoint.is_empty())
    }

    /// How long to wait for one response.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::layers::Flag;
    use super::super::{Settings, Sources};

    #[test]
    fn a_loopback_address_is_this_machine() {
        let is_local = |url: &str| {
            let flag = |setting, value: &str| Flag { name: "--flag", setting, value: value.to_owned() };
            let flags = vec![flag("node.rpc_url", url), flag("node.rpc_cookie", "/c"), flag("data_dir", "/d")];
            Settings::load(&Sources { flags, ..Sources::default() }).unwrap().node.is_local()
        };
        for url in [
            "",
            "http://127.0.0.1:8332",
            "http://127.1.2.3",
            "http://localhost:1/",
            "http://LOCALHOST",
            "http://[::1]:8332",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in ["http://10.0.0.1:8332", "http://node:8332", "http://localhost.example", "http://[2001:db8::1]:8332"]
        {
            assert!(!is_local(url), "{url}");
        }
    }
}
