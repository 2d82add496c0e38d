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

use std::net::SocketAddr;

use btcgraph::server::{self, Options};
use btcgraph::sim::SimChain;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::api::Api;

/// A server over a simulated chain of three blocks, which ends with its runtime.
struct Served {
    address: SocketAddr,
    runtime: tokio::runtime::Runtime,
    api: Api,
}

/// What a server answered.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: ureq::http::HeaderMap,
    body: Vec<u8>,
}

impl Served {
    fn start() -> Self {
        Self::start_with(Options::default())
    }

    fn start_with(options: Options) -> Self {
        let mut chain = SimChain::new(41);
        chain.mine_empty(3).unwrap();
        Self::start_over(Api::of_chain(&chain), options)
    }

    fn start_over(api: Api, options: Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(server::serve(listener, api.schema.clone(), options, CancellationToken::new()));
        Self { address, runtime, api }
    }

    fn url(&self) -> String {
        format!("http://{}/graphql", self.address)
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        send(self.address, method, path, headers, body)
    }

    /// A GET of `/graphql` with this query string.
    fn get(&self, query: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", &format!("/graphql?{query}"), headers, "")
    }

    /// A POST of JSON.
    fn post(&self, body: &Value, headers: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
        self.send("POST", "/graphql", &headers, &body.to_string())
    }
}

fn send(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let config = ureq::Agent::config_builder().http_status_as_error(false).accept("").max_redirects(0);
    let agent: ureq::Agent = config.allow_non_standard_methods(true).build().into();
    let mut request = ureq::http::Request::builder().method(method).uri(format!("http://{address}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response =
        if body.is_empty() { agent.run(request.body(()).unwrap()) } else { agent.run(request.body(body).unwrap()) };
    let (parts, mut body) = response.unwrap().into_parts();
    let body = body.with_config().limit(u64::MAX).read_to_vec().unwrap();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of its first error, null if it has none.
    fn code(&self) -> Value {
        self.json()["errors"][0]["extensions"]["code"].clone()
    }
}

/// A text as it is written in a query string.
fn encoded(text: &str) -> String {
    let bytes: Vec<_> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    bytes.concat()
}
