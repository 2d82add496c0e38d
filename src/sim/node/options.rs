//! The options of a simulated node.

use std::fmt;
use std::path::PathBuf;

use super::super::blkfile::BlockFiles;

/// The options of a [`SimNode`](super::SimNode). The default is a current node with REST on any free port, with user
/// `user` and password `password`.
pub struct SimNodeOptions {
    /// The port on the loopback address; 0 for any free one.
    pub port: u16,
    /// The accepted user and password.
    pub login: (String, String),
    /// The path of a cookie file, whose credentials are accepted too. The node writes a new one when it opens its port,
    /// and removes it when it stops.
    pub cookie: Option<PathBuf>,
    /// Whether REST is on.
    pub rest: bool,
    /// Whether REST has `spenttxouts`, which nodes before Core 30 lack.
    pub spent_outputs: bool,
    /// The port on the loopback address where it publishes events by ZMQ; 0 for any free one, `None` for no ZMQ.
    pub zmq: Option<u16>,
    /// The version that `getnetworkinfo` reports: 300000 is 30.0.0.
    pub version: u32,
    /// The files that store the blocks; if none, they are in the chain's memory alone.
    pub files: Option<BlockFiles>,
}

impl Default for SimNodeOptions {
    fn default() -> Self {
        SimNodeOptions {
            port: 0,
            login: ("user".to_owned(), "password".to_owned()),
            cookie: None,
            rest: true,
            spent_outputs: true,
            zmq: None,
            version: 300_000,
            files: None,
        }
    }
}

impl fmt::Debug for SimNodeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNodeOptions")
            .field("port", &self.port)
            .field("user", &self.login.0)
            .field("cookie", &self.cookie)
            .field("rest", &self.rest)
            .field("spent_outputs", &self.spent_outputs)
            .field("zmq", &self.zmq)
            .field("version", &self.version)
            .field("files", &self.files.is_some())
            .finish_non_exhaustive()
    }
}
