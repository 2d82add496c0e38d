//! A simulated node: a [`World`](super::World) with the JSON-RPC, REST and ZMQ interfaces of Bitcoin Core, so that
//! tests, loads and the demo need no bitcoind.
//!
//! ```text
//!   SimNode   thread, port, cookie, switches                    server.rs, options.rs
//!      │ HTTP: authentication, limits of bodies                 http.rs
//!      ├──► JSON-RPC: a request or a batch                      envelope.rs
//!      │       └ methods.rs: the table ── params.rs             chain, blocks, transactions, coins (muhash),
//!      │                                                        mempool, submit, packages, estimates, mining, control
//!      ├──► REST: binary, without authentication                rest.rs
//!      └──► ZMQ: the topic `sequence`                           notifier.rs ──► publisher.rs
//!   Backend   locks the world for each answer                   backend.rs
//!      └ Archive: header and size of each block, block files    archive.rs ──► blkfile
//! ```
//!
//! All answers are computed from the state of the world. Left out are disassembled scripts, descriptors and peers,
//! which no client here reads. All other methods of a node are "Method not found".

mod archive;
mod backend;
mod blocks;
mod chain;
mod coins;
mod control;
mod deployments;
mod error;
mod estimates;
mod http;
mod mempool;
mod mining;
mod muhash;
mod notifier;
mod options;
mod packages;
mod publisher;
mod rest;
mod rpc;
mod server;
mod submission;
mod submit;
mod template;
mod transactions;

pub use options::SimNodeOptions;
pub use server::{SimNode, SimNodeError};
