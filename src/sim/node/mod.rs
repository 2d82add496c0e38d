//! A simulated node: a [`World`](super::World) that answers JSON-RPC and REST as Bitcoin Core does, so that tests, loads
//! and the demo need no bitcoind.
//!
//! ```text
//!   SimNode   thread, port, cookie, switches                    server.rs, options.rs
//!      │ HTTP: login, size of bodies                            http.rs
//!      ├──► JSON-RPC: one or several questions                  envelope.rs
//!      │       └ methods.rs: the table ── params.rs             chain, blocks, transactions, coins (muhash),
//!      │                                                        mempool, submit, packages, estimates, mining, control
//!      └──► REST: binary, without login                         rest.rs
//!      └──► ZMQ: the topic `sequence`                         signals.rs ──► publisher.rs
//!   Backend   one Moment of the world for each answer           backend.rs
//!      └ Archive: header and size of each block, block files    archive.rs ──► blkfile
//! ```
//!
//! What it answers is worked out from the world's own state, never written down beforehand. It leaves out what nobody
//! here reads: disassembled scripts, descriptors, peers. Whatever else a node can be asked is "Method not found".

mod amounts;
mod archive;
mod backend;
mod blocks;
mod chain;
mod coins;
mod control;
mod envelope;
mod estimates;
mod failure;
mod http;
mod mempool;
mod methods;
mod mining;
mod muhash;
mod options;
mod packages;
mod params;
mod publisher;
mod rest;
mod server;
mod signals;
mod submit;
mod template;
mod transactions;

pub use options::SimNodeOptions;
pub use server::{SimNode, SimNodeError};
