//! A server in the process of the tests, and what it answers over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use btcgraph::api::Schema;
use btcgraph::server::{self, Options};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::api::Api;

/// A running server, which ends with its runtime, or when it is stopped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
    /// The one that it has for itself.
    _runtime: Option<Runtime>,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: ureq::http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl TestServer {
    /// A server with the default options on the runtime of the caller.
    pub(crate) async fn start(api: &Api) -> Self {
        Self::with_options(&api.schema, Options::default()).await
    }

    /// A server on the runtime of the caller.
    pub(crate) async fn with_options(schema: &Schema, options: Options) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let serving = tokio::spawn(server::serve(listener, schema.clone(), options, shutdown.clone()));
        Self { address, shutdown, serving, _runtime: None }
    }

    /// A server on a runtime of its own, for a test that is on none.
    pub(crate) fn apart(schema: &Schema, options: Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(Self::with_options(schema, options));
        Self { _runtime: Some(runtime), ..server }
    }

    /// The address of its endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/graphql", self.address)
    }

    /// What it answers to a request; redirects are not followed.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        send(self.address, method, path, headers, body)
    }

    /// A GET of `/graphql` with this query string.
    pub(crate) fn get(&self, query: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", &format!("/graphql?{query}"), headers, "")
    }

    /// A POST of JSON.
    pub(crate) fn post(&self, body: &Value, headers: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
        self.send("POST", "/graphql", &headers, &body.to_string())
    }

    /// Stops it, and waits until it has stopped.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(20), self.serving).await.expect("stops in time").unwrap().unwrap();
    }
}

/// What the server at this address answers to a request; redirects are not followed.
pub(crate) fn send(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
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
    /// A header, empty if it has none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of its first error, null if it has none.
    pub(crate) fn code(&self) -> Value {
        self.json()["errors"][0]["extensions"]["code"].clone()
    }
}
