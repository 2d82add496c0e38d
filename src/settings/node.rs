//! The settings of the node: where it is, who btcgraph is to it, and how patiently it is asked.

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
    /// Where the node publishes what happens; empty: where it says, when it is asked.
    pub zmq: String,
    /// How long to wait for one answer, in seconds.
    pub timeout_seconds: u32,
    /// How long a request that could not reach the node is repeated, in seconds.
    pub patience_seconds: u32,
    /// How many requests are open at once while catching up.
    pub connections: usize,
    /// How often the node is asked for its tip, in seconds; see [`Settings::poll`](super::Settings::poll).
    pub poll_seconds: u32,
}

/// How btcgraph proves to the node who it is.
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

    /// Where the node publishes what happens, if that is set.
    #[must_use]
    pub fn zmq(&self) -> Option<&str> {
        Some(self.zmq.as_str()).filter(|endpoint| !endpoint.is_empty())
    }

    /// How long to wait for one answer.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.into())
    }
}
