//! What is between the bytes and the engine is this server's own. The stock service of async-graphql-axum, over the same
//! schema, answers the same documents with the same data: nothing of that changes what the engine says.

use async_graphql_axum::GraphQL;
use axum::Router;
use axum::routing::post_service;
use btcgraph::server::Options;
use btcgraph::sim::{Hostile, SimChain};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::api::Api;
use crate::support::test_server::{TestServer, send};

/// Requests that both take.
fn requests() -> Vec<Value> {
    let documents = [
        "{ __typename }",
        "{ tip { height hash previousBlock { hash } } a: tip { id } }",
        "{ blocks(first: 20) { edges { cursor node { id stats { totalOutputValue } } } pageInfo { endCursor hasNextPage } } }",
        "{ blocks(first: 5) { nodes { transactions(first: 5) { nodes { txid fee outputs { nodes { ...O } } } } } } } \
         fragment O on Output { id value address scriptType spentBy { index transaction { txid } } }",
        "{ node(id: \"Chain:main\") { id ... on Chain { supply { circulating } } } }",
        "{ block(height: 7) { hash @skip(if: true) height @include(if: true) } }",
        "{ block(height: -1) { hash } tip { height } }",
        "{ __schema { types { name fields { name type { name } } } } }",
    ];
    let mut requests: Vec<_> = documents.map(|query| json!({ "query": query })).into();
    let query = "query A($height: Int = 3) { block(height: $height) { height } } query B { tip { height } }";
    requests.extend([
        json!({ "query": query, "operationName": "A", "variables": { "height": 5 } }),
        json!({ "query": query, "operationName": "A" }),
        json!({ "query": query, "operationName": "B", "variables": null, "extensions": {} }),
    ]);
    requests
}

#[test]
fn documents_have_the_data_that_the_stock_service_answers() {
    let (mut chain, mut hostile) = (SimChain::new(46), Hostile::new(46));
    for _ in 0..115 {
        hostile.mine(&mut chain).unwrap();
    }
    let api = Api::of_chain(&chain);
    let schema = api.schema.clone();
    let served = TestServer::apart(&schema, Options::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let stock = Router::new().route("/graphql", post_service(GraphQL::new(schema)));
    runtime.spawn(async { axum::serve(listener, stock).await });

    for request in requests() {
        let ours = served.post(&request, &[]).json();
        let headers = [("content-type", "application/json")];
        let stock = send(address, "POST", "/graphql", &headers, &request.to_string()).json();
        assert!(ours["data"].is_object(), "{request}: {ours:#}");
        assert_eq!(ours["data"], stock["data"], "{request}");
        assert_eq!(ours["errors"], stock["errors"], "{request}");
    }
}
