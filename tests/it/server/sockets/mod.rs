//! Connections, and websockets and streams of events on them, to a listening server: what PROTOCOL.md of graphql-ws and of
//! graphql-sse say, and that nobody can keep more of the server than its share.

mod callers;
mod clients;
mod conformance;
mod crowds;
mod drops;
mod heavy;
mod legacy;
mod operations;
mod refused;
mod resuming;
mod share;
mod shared;
mod slow;
mod streams;

use std::time::Duration;

use btcgraph::api::Schema;
use btcgraph::limits::Limits;
use btcgraph::server::Options;
use btcgraph::sim::SimChain;

use crate::support::socket::{Client, PATIENCE, TRANSPORT, subscribe, within};
use crate::support::test_server::TestServer;

impl TestServer {
    async fn with_limits(schema: &Schema, limits: &Limits) -> Self {
        Self::with_options(schema, Options { limits: *limits, ..Options::default() }).await
    }
}

fn chain() -> SimChain {
    let mut chain = SimChain::new(40);
    chain.mine_empty(3).unwrap();
    chain
}

/// How many subscriptions the server has open.
async fn subscriptions(client: &mut Client) -> u64 {
    client.ask("count", "{ server { subscriptionCount } }").await;
    let count = client.receive().await["payload"]["data"]["server"]["subscriptionCount"].as_u64().unwrap();
    assert_eq!(client.receive().await["type"], "complete");
    count
}

/// Waits until the server has so many subscriptions open.
async fn until_subscriptions(client: &mut Client, count: u64) {
    within(async {
        while subscriptions(client).await != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
