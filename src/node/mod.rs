//! Talks to a Bitcoin Core node, nothing else: what it is asked, how it answers, and what to do when it does not.
//! Blocking, without an async runtime; knows nothing of the index and of GraphQL.
//!
//! ```text
//!   Node          connect, chain and network state                         node.rs
//!     ├ headers, hashes by height, chain tips                              headers.rs
//!     ├ blocks, spent outputs, raw transactions                            blocks.rs → spent_outputs.rs, verbose.rs
//!     │     ▲ many at once, in order, in bounded memory: BlockFetcher      fetcher.rs
//!     ├ the mempool: transactions, figures, estimates                      mempool.rs
//!     ├ what is in it at one moment, and on which block it stands          mempool_list.rs
//!     ├ the block it would make next                                      template.rs
//!     ├ transactions handed to it, and why it refuses them                 broadcast.rs
//!     ├ what it tells by itself: Signals, by ZMQ                            signals/
//!     ├ what a client waits for: many questions in one request, once    questions.rs
//!     │ every question: try, wait, try again, until patience or StopFlag   retry.rs
//!     ▼
//!   rpc.rs  JSON-RPC (bitcoincore-rpc) ── credentials.rs      rest.rs  binary, no login
//!     └───────────────── http.rs  one connection pool, timeouts, size limits ───┘
//!                          └ resolver.rs  the node's host, mostly a number
//! ```
//!
//! `answers.rs` holds the node's answers as types, `amounts.rs` its decimal amounts as exact satoshi, `settings.rs` how
//! to reach it, `error.rs` all that can go wrong with what to do about it.

mod amounts;
mod answers;
mod blocks;
mod broadcast;
mod credentials;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod fetcher;
mod figures;
mod headers;
mod http;
mod mempool;
mod mempool_list;
#[expect(clippy::module_inception, reason = "the type this room is about")]
mod node;
mod questions;
mod resolver;
mod rest;
mod retry;
mod rpc;
mod settings;
mod signals;
mod spent_outputs;
mod template;
mod verbose;

pub use answers::{ChainInfo, ChainTip, ChainTipStatus, HeaderInfo, NetworkInfo, TxOutSetHash, TxOutSetInfo};
pub use broadcast::{Judged, MaxFees, PackageOutcome, Refusal, SubmittedTransaction, TestedTransaction};
pub use error::NodeError;
pub use fetcher::{BlockFetcher, FetchedBlock};
pub use figures::{FAILURES, Interface, NodeFigures};
pub use headers::MAX_HEADERS;
pub use mempool::{EstimateMode, FeeEstimate, MempoolInfo};
pub use mempool_list::{MempoolList, MempoolStanding};
pub use node::Node;
pub use questions::{Answer, Question};
pub use retry::{RetryPolicy, StopFlag};
pub use settings::{Auth, NodeSettings};
pub use signals::{HeardSignal, NodeSignal, Signals};
pub use template::{BlockTemplate, DOWNLOADING, NOT_CONNECTED, TemplateTransaction};
pub use verbose::{SpentOutput, VerboseBlock, VerboseInput, VerboseTransaction};
