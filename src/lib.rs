//! btcgraph: a self-hosted GraphQL API for the Bitcoin chain.
//!
//! One process follows a Bitcoin Core node, keeps its own index in redb, and serves blocks, transactions and
//! addresses to GraphQL clients. Data flows down the page and never back up:
//!
//! ```text
//!   node/      talks to a Bitcoin Core node, nothing else
//!     │ raw bytes, node answers
//!   sync/      follows the node: fork point → disconnect → connect → publish
//!     │ blocks                                  │ events
//!   index/     redb tables, one writer          live/   broadcast
//!   mempool/   unconfirmed, in memory, likewise │
//!     │ snapshots                               │
//!   view/      one published Head  ─────────────┤
//!     │                                         │
//!   api/       the GraphQL schema  ◄────────────┘
//!   execution/ what clients send, admitted, executed and shared
//!   server/    HTTP, websocket, limits, playground
//!   webhooks/  the same events, sent to URLs
//!   fleet/     frozen blocks of the index, published to an object store and joined from there
//! ```
//!
//! `chain/` is the ground all of them stand on: Bitcoin as such, without I/O. `limits/` declares what clients may ask
//! for, how often and how long. `metrics/` is what Prometheus reads. `outbound/` connects to URLs of the operator.
//! `sim/` makes chains, and a node over them, for tests, loads and the demo.
//!
//! The index, the mempool, the view of both, what keeps them current, and the simulator are the package `btcgraph-core`, with
//! `core.rs` as its root: it knows nothing of GraphQL, and is optimised for integration tests, too. Its modules are
//! named here as if they were of this package.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

/// The version of the program, with the commit that it was built from if the build knew it.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("COMMIT_IN_PARENTHESES"));

pub mod api;
pub mod execution;
pub mod fleet;
pub mod limits;
pub mod metrics;
pub mod outbound;
pub mod rates;
pub mod server;
pub mod settings;
pub mod webhooks;

use btcgraph_core::durable;
pub use btcgraph_core::{chain, index, live, mempool, node, sim, sync, view};
