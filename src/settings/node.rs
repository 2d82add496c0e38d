//! The settings of the node: its address, the credentials, timeouts and retries.

use std::path::PathBuf;
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
