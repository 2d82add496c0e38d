//! Talks to a Bitcoin Core node and does nothing else: sends requests, decodes the responses, and retries failures.
//! Blocking, without an async runtime; knows nothing of the index or of GraphQL.
//!
//! ```text
//!   Node          connect, chain and network state                         node.rs
//!     ├ headers, hashes by height, chain tips                              headers.rs
//!     ├ blocks, spent outputs, raw transactions                            blocks.rs → spent_outputs.rs, verbose.rs
//!     │     ▲ many at once, in order, in bounded memory: BlockFetcher      fetcher.rs
//!     ├ the mempool: transactions, statistics, fee estimates               mempool.rs
//!     ├ all its txids at one moment, and the tip it is based on            mempool_list.rs
//!     ├ the template of the next block                                     template.rs
//!     ├ testing and submitting transactions, and why the node refuses them broadcast.rs
//!     ├ notifications by ZMQ: Signals                                      signals/
//!     ├ several different requests in one, sent once without retries       questions.rs
//!     │ every other request: retried until the policy or StopFlag ends it  retry.rs
//!     ▼
//!   rpc.rs  JSON-RPC (bitcoincore-rpc) ── credentials.rs      rest.rs  binary, no login
//!     └───────────── http/http.rs  one connection pool, timeouts, size limits ──┘
//!                      └ http/  the node's host, mostly an IP address; a request in one write
//! ```
//!
//! `block_files/` reads the files in which a node on this machine keeps its blocks; `block_source/` reads many blocks from
//! them, or else from the node, and `node_blocks/` parts of single blocks. `answers.rs` defines the node's answers as types,
//! `amounts.rs` converts its decimal amounts to exact satoshi, `options.rs` defines how to reach it, `error.rs` lists every
//! failure and what to do about it, `metrics.rs` counts requests and failures.

mod amounts;
mod answers;
mod block_files;
mod block_source;
mod blocks;
mod broadcast;
mod credentials;
mod deployments;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod fetcher;
mod headers;
mod http;
mod mempool;
mod mempool_list;
mod metrics;
#[expect(clippy::module_inception, reason = "the type this module is about")]
mod node;
mod node_blocks;
mod options;
mod questions;
mod rest;
mod retry;
mod rpc;
mod signals;
mod spent_outputs;
mod template;
mod verbose;

pub use answers::{ChainInfo, ChainTip, ChainTipStatus, HeaderInfo, NetworkInfo, TxOutSetHash, TxOutSetInfo};
pub use block_files::{BlockFileError, BlockFileReader, BlockPosition, BlockPositions, BlockRecord, ScanProgress};
pub use block_source::{BlockBatches, BlockSource, BlockSourceKind, BlockSourceStatus};
pub use broadcast::{MaxFees, MempoolAcceptance, PackageOutcome, Refusal, SubmittedTransaction, TestedTransaction};
pub use deployments::{
    CompactFilter, Deployment, DeploymentStatus, Deployments, SignalStatistics, SignalledDeployment,
};
pub use error::NodeError;
pub use fetcher::{BlockFetcher, FetchedBlock};
pub use headers::MAX_HEADERS;
pub use mempool::{EstimateMode, FeeEstimate, MempoolInfo};
pub use mempool_list::{MempoolList, MempoolStatus};
pub use metrics::{FAILURES, Interface, NodeMetrics};
pub use node::Node;
pub use node_blocks::NodeBlocks;
pub use options::{Auth, NodeOptions};
pub use questions::{Answer, NO_FILTER_INDEX, Question};
pub use retry::{RetryPolicy, StopFlag};
pub use signals::{NodeSignal, ReceivedSignal, Signals};
pub use template::{BlockTemplate, DOWNLOADING, NOT_CONNECTED, TemplateTransaction};
pub use verbose::{SpentOutput, VerboseBlock, VerboseInput, VerboseTransaction};
