//! Every failure of a request to the node. Each message says what was tried and what to check.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bitcoin::{BlockHash, Network};

use crate::chain::{Height, network};

/// Why a request to the node failed.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A setting is invalid, whatever the node does.
    #[error("the setting {setting} cannot be used: {problem}")]
    Settings {
        /// The setting's name, as in the settings file.
        setting: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// No connection, or it broke.
    #[error(
        "cannot reach the node at {url}: {cause}. Check that bitcoind runs with server=1, that node.rpc_url names its \
         RPC address and port, and that its rpcbind and any firewall let this machine in"
    )]
    Unreachable {
        /// The node's address.
        url: String,
        /// The error of the operating system or the connection.
        cause: String,
    },
    /// The cookie file cannot be read. A node that is down has none.
    #[error(
        "cannot read the node's cookie file {}: {cause}. Check that bitcoind runs, that node.rpc_cookie names the \
         .cookie file in its data directory, and that this user may read it (bitcoind: rpccookieperms=group)", path.display()
    )]
    NoCookie {
        /// The cookie file.
        path: PathBuf,
        /// Why it cannot be read.
        cause: io::Error,
    },
    /// The node runs and refuses the login (HTTP 401).
    #[error(
        "the node at {url} refuses the login by {login}. Check that the cookie file is the one of this node, or that \
         user and password match its rpcauth line"
    )]
    Unauthorized {
        /// The node's address.
        url: String,
        /// The cookie file or the user, never a secret.
        login: String,
    },
    /// The node refuses this machine or this method (HTTP 403).
    #[error("the node at {url} forbids {asked}. Check its rpcallowip and rpcwhitelist")]
    Forbidden {
        /// The node's address.
        url: String,
        /// The method or path.
        asked: String,
    },
    /// The node follows another chain than the one this service is set up for.
    #[error(
        "the node at {url} is on {found}, but this service is set up for {expected}. Set `network` to the node's \
         chain, or node.rpc_url to a node on {expected}",
        expected = network::name(*expected)
    )]
    WrongNetwork {
        /// The node's address.
        url: String,
        /// The network in the settings.
        expected: Network,
        /// The node's network, or what its chain is called and begins with if it is none that is known.
        found: String,
    },
    /// The node is starting and answers soon.
    #[error(
        "the node at {url} is starting ({progress}). Wait until it has loaded its chain; its debug.log shows the \
         progress"
    )]
    WarmingUp {
        /// The node's address.
        url: String,
        /// What the node says it is doing.
        progress: String,
    },
    /// The node has too much to do (HTTP 503).
    #[error(
        "the node at {url} is too busy ({answer}). Give it more with rpcworkqueue and rpcthreads, or ask less at once"
    )]
    Busy {
        /// The node's address.
        url: String,
        /// What the node says.
        answer: String,
    },
    /// The node, or a proxy in front of it, failed to answer (HTTP 500 to 599).
    #[error(
        "the node, or a proxy in front of it, failed to answer {asked}: {answer}. Its log may say why; check its load and \
         disk"
    )]
    ServerError {
        /// The method or path.
        asked: String,
        /// Status and beginning of the answer.
        answer: String,
    },
    /// The answer was not complete in time.
    #[error("the node did not answer {asked} within {after:?}. Check its load and disk, or raise node.timeout_seconds")]
    TimedOut {
        /// The method or path.
        asked: String,
        /// How long the client waited.
        after: Duration,
    },
    /// The node has deleted the block.
    #[error(
        "the node has pruned block {hash}{}. Use a node without prune, or let this one download the chain again with \
         prune=0 and -reindex", kept_from.map(|height| format!(" and keeps blocks from height {height} on")).unwrap_or_default()
    )]
    Pruned {
        /// The block that was asked for.
        hash: BlockHash,
        /// The lowest height that the node still keeps.
        kept_from: Option<Height>,
    },
    /// The node does not have the block.
    #[error(
        "the node does not have block {hash}. Ask again when it has downloaded the block; if it had the block before, \
         its data was replaced"
    )]
    BlockNotFound {
        /// The block that was asked for.
        hash: BlockHash,
    },
    /// The answer is not what the node's interface promises.
    #[error(
        "the node's answer to {asked} is malformed: {problem}. Check that node.rpc_url is a Bitcoin Core node, \
         not a proxy or another service"
    )]
    Protocol {
        /// The method or path.
        asked: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// The answer is longer than such an answer can be.
    #[error(
        "the node's answer to {asked} is longer than {bytes} bytes. Check that node.rpc_url is a Bitcoin Core node, not \
         a proxy or another service"
    )]
    TooLong {
        /// The method or path.
        asked: String,
        /// How long it may be.
        bytes: u64,
    },
    /// The node answers with an error of its own (Core's `src/rpc/protocol.h` lists the codes).
    #[error("the node refuses {method}: {message} (code {code}). Its debug.log may say more")]
    Rpc {
        /// The RPC method.
        method: String,
        /// The node's error code.
        code: i32,
        /// The node's message.
        message: String,
    },
    /// A thread that fetches blocks could not be started, or ended before its work.
    #[error(
        "a thread that fetches blocks does not run: {0}. Raise this user's limit of threads, or lower the number of \
         connections"
    )]
    Threads(#[source] io::Error),
    /// The thread that listens to the node's signals could not be started.
    #[error("the thread that listens to the node's signals does not start: {0}. Raise this user's limit of threads")]
    SignalThread(#[source] io::Error),
    /// The [`StopFlag`](super::StopFlag) was raised during the wait.
    #[error("stopped while asking the node. Nothing is wrong: the service is stopping")]
    Stopped,
}

impl NodeError {
    /// Whether the same request may succeed later without any change by the operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            NodeError::Unreachable { .. }
            | NodeError::NoCookie { .. }
            | NodeError::WarmingUp { .. }
            | NodeError::Busy { .. }
            | NodeError::ServerError { .. }
            | NodeError::TimedOut { .. } => true,
            NodeError::Settings { .. }
            | NodeError::Unauthorized { .. }
            | NodeError::Forbidden { .. }
            | NodeError::WrongNetwork { .. }
            | NodeError::Pruned { .. }
            | NodeError::BlockNotFound { .. }
            | NodeError::Protocol { .. }
            | NodeError::TooLong { .. }
            | NodeError::Rpc { .. }
            | NodeError::Threads(_)
            | NodeError::SignalThread(_)
            | NodeError::Stopped => false,
        }
    }

    /// Whether the request certainly had no effect on the node: it failed before the call, or the node does not know
    /// the method. After any other error the call may have taken effect and only the answer was lost.
    #[must_use]
    pub fn had_no_effect(&self) -> bool {
        match self {
            NodeError::Settings { .. }
            | NodeError::NoCookie { .. }
            | NodeError::Unauthorized { .. }
            | NodeError::Forbidden { .. }
            | NodeError::WrongNetwork { .. }
            | NodeError::WarmingUp { .. }
            | NodeError::Busy { .. } => true,
            NodeError::Rpc { code, .. } => NOT_CALLED.contains(code),
            _ => false,
        }
    }
}

/// Codes of errors that precede a call: an unknown method, and invalid parameters
/// (`RPC_METHOD_NOT_FOUND`, `RPC_INVALID_PARAMS`, `RPC_INVALID_PARAMETER` and `RPC_TYPE_ERROR`, Core's
/// `src/rpc/protocol.h`).
const NOT_CALLED: [i32; 4] = [-32_601, -32_602, -8, -3];
