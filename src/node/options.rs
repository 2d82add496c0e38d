//! How to reach the node: address, login, timeouts, retries. `Debug` never shows secrets.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::Network;
use ureq::http::Uri;

use super::error::NodeError;
use super::metrics::NodeMetrics;
use super::retry::{RetryPolicy, StopFlag};

/// How to log in to the node's RPC server.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    /// The file in which the node writes a new secret at each start (`.cookie` in its data directory).
    Cookie(PathBuf),
    /// A user and password that the node knows by its `rpcauth`, or `rpcuser` and `rpcpassword`.
    UserPassword {
        /// The user name.
        user: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Auth::Cookie(path) => f.debug_tuple("Cookie").field(path).finish(),
            Auth::UserPassword { user, .. } => {
                f.debug_struct("UserPassword").field("user", user).finish_non_exhaustive()
            }
        }
    }
}

/// Everything [`Node::connect`](super::Node::connect) needs.
#[derive(Clone)]
pub struct NodeOptions {
    /// The chain that the node must be on.
    pub network: Network,
    /// `http://host:port` of the node's RPC server, which is its REST server too.
    pub rpc_url: String,
    /// How to log in.
    pub auth: Auth,
    /// `tcp://host:port` where the node publishes its signals (its `-zmqpubsequence`). Default: the address that the
    /// node reports (`getzmqnotifications`).
    pub zmq: Option<String>,
    /// How long one answer may take, from the connection to the last byte. Default 30 s.
    pub timeout: Duration,
    /// How long an answer may take for which the node reads its whole UTXO set. Default 30 min.
    pub scan_timeout: Duration,
    /// How long to retry the first connection. Default: 5 min, as a node's start may take minutes.
    pub connect_retry: RetryPolicy,
    /// How long to retry requests to a node that was connected. Default: 1 min.
    pub retry: RetryPolicy,
    /// Ends all waiting when raised.
    pub stop: StopFlag,
    /// Counts of the requests to the node.
    pub metrics: Arc<NodeMetrics>,
}

impl NodeOptions {
    /// Options with the default timeouts and retry policies, and a stop flag of their own.
    #[must_use]
    pub fn new(network: Network, rpc_url: impl Into<String>, auth: Auth) -> NodeOptions {
        NodeOptions {
            network,
            rpc_url: rpc_url.into(),
            auth,
            zmq: None,
            timeout: Duration::from_secs(30),
            scan_timeout: Duration::from_mins(30),
            connect_retry: RetryPolicy { patience: Duration::from_mins(5), ..RetryPolicy::default() },
            retry: RetryPolicy::default(),
            stop: StopFlag::new(),
            metrics: Arc::default(),
        }
    }

    /// The RPC URL without a slash at its end.
    ///
    /// Errors: [`NodeError::Settings`] if it is not a plain http URL without a login.
    pub(super) fn checked_url(&self) -> Result<String, NodeError> {
        let wrong = |problem: &str| NodeError::Settings { setting: "node.rpc_url", problem: problem.to_owned() };
        if has_login(&self.rpc_url) {
            return Err(wrong("it contains a user or password; set them as node.rpc_user and node.rpc_password"));
        }
        let uri: Uri = self.rpc_url.parse().map_err(|_| wrong("it is not of the form http://host:port"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("bitcoind serves http only; reach a remote node through a tunnel")),
            _ => return Err(wrong("it must start with http://")),
        }
        if uri.query().is_some() {
            return Err(wrong("it must end after the port, without ?"));
        }
        Ok(self.rpc_url.trim_end_matches('/').to_owned())
    }
}

impl fmt::Debug for NodeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rpc_url = if has_login(&self.rpc_url) { "(hidden: it contains a login)" } else { &self.rpc_url };
        f.debug_struct("NodeOptions")
            .field("network", &self.network)
            .field("rpc_url", &rpc_url)
            .field("auth", &self.auth)
            .field("zmq", &self.zmq)
            .field("timeout", &self.timeout)
            .field("scan_timeout", &self.scan_timeout)
            .field("connect_retry", &self.connect_retry)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

fn has_login(url: &str) -> bool {
    url.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str, auth: Auth) -> NodeOptions {
        NodeOptions::new(Network::Regtest, url, auth)
    }

    #[test]
    fn debug_never_shows_a_password() {
        let auth = Auth::UserPassword { user: "alice".into(), password: "hunter2".into() };
        let shown = format!("{:?}", options("http://bob:hunter2@localhost:1", auth));
        assert!(shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn only_a_plain_http_url_without_login_is_accepted() {
        let check = |url: &str| options(url, Auth::Cookie("c".into())).checked_url();
        assert_eq!(check("http://127.0.0.1:8332/").unwrap(), "http://127.0.0.1:8332");
        assert_eq!(check("http://node:8332").unwrap(), "http://node:8332");
        for wrong in ["https://node:8332", "node:8332", "http://a:b@node:8332", "", "ftp://node", "http://node/?x"] {
            let error = check(wrong).unwrap_err();
            assert!(matches!(error, NodeError::Settings { setting: "node.rpc_url", .. }), "{wrong}: {error}");
            assert!(!error.to_string().contains("a:b"), "{error}");
        }
    }
}
