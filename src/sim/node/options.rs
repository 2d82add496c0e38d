//! How a simulated node is set up.

use std::fmt;
use std::path::PathBuf;

use super::super::blkfile::BlockFiles;

/// How a [`SimNode`](super::SimNode) is set up. The default is a node of today with REST on any free port, which lets in
/// the user `user` with the password `password`.
pub struct SimNodeOptions {
    /// The port on the loopback address; 0 for any free one.
    pub port: u16,
    /// User and password that are let in.
    pub login: (String, String),
    /// Where to write a cookie, which is let in too; a new one whenever the node begins to answer, gone when it stops.
    pub cookie: Option<PathBuf>,
    /// Whether REST is on.
    pub rest: bool,
    /// Whether REST has `spenttxouts`, which nodes before Core 30 lack.
    pub spent_outputs: bool,
    /// The port on the loopback address where it publishes what happens, by ZMQ; 0 for any free one, `None` for nowhere.
    pub zmq: Option<u16>,
    /// The version that `getnetworkinfo` tells: 300000 is 30.0.0.
    pub version: u32,
    /// Where the blocks are kept; in the chain's memory alone if none.
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
