//! GraphQL over HTTP: what a request may look like, and what its answer does.

mod audits;
mod caching;
mod callers;
mod carried_tip;
mod examples;
mod framing;
mod headers;
mod introspected;
mod load;
mod negotiation;
mod pages;
mod persisted;
mod requests;
mod stock;

use btcgraph::server::Options;
use btcgraph::sim::SimChain;

use crate::support::api::Api;
use crate::support::test_server::TestServer;

/// A server over a simulated chain of three blocks.
fn serve(options: Options) -> TestServer {
    let mut chain = SimChain::new(41);
    chain.mine_empty(3).unwrap();
    TestServer::apart(&Api::of_chain(&chain).schema, options)
}

/// A text as it is written in a query string.
fn encoded(text: &str) -> String {
    let bytes: Vec<_> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    bytes.concat()
}
