//! The connections to the node, and the limits on each response.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::http::{Response, header};
use ureq::unversioned::transport::{Connector, DefaultConnector};
use ureq::{Agent, Body, Timeout};

use super::resolver::IpLiteralResolver;
use super::single_write::SingleWriteConnector;
use crate::node::error::NodeError;
use crate::node::metrics::{Interface, NodeMetrics};

/// bitcoind closes connections that are idle for 30 s (`rpcservertimeout`); the pool closes them earlier.
const MAX_IDLE_AGE: Duration = Duration::from_secs(15);
const MAX_IDLE_CONNECTIONS: usize = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How many characters of a malformed response an error message quotes.
const EXCERPT: usize = 200;

/// The limits on one response.
#[derive(Clone, Copy, Debug)]
pub(in crate::node) struct ResponseLimits {
    /// From the connection to the last byte.
    pub(in crate::node) timeout: Duration,
    /// Of the body, in bytes.
    pub(in crate::node) bytes: u64,
}

/// A response whose status is neither 403 (forbidden) nor 503 (unavailable).
pub(in crate::node) struct HttpResponse {
    pub(in crate::node) status: u16,
    pub(in crate::node) body: Vec<u8>,
}

impl HttpResponse {
    /// Status and beginning of the body, for an error message.
    pub(in crate::node) fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        format!("HTTP {} {:?}", self.status, text.trim().chars().take(EXCERPT).collect::<String>())
    }
}

pub(in crate::node) struct Http {
    agent: Agent,
    url: String,
    metrics: Arc<NodeMetrics>,
}

impl Http {
    /// For a URL that `NodeOptions::checked_url` has validated.
    pub(in crate::node) fn new(url: String, metrics: Arc<NodeMetrics>) -> Http {
        let config = Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("btcgraph/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .max_idle_connections(MAX_IDLE_CONNECTIONS)
            .max_idle_connections_per_host(MAX_IDLE_CONNECTIONS)
            .max_idle_age(MAX_IDLE_AGE)
            .build();
        let connector = DefaultConnector::default().chain(SingleWriteConnector);
        Http { agent: Agent::with_parts(config, connector, IpLiteralResolver::default()), url, metrics }
    }

    pub(in crate::node) fn url(&self) -> &str {
        &self.url
    }

    /// Gets a path, which begins with a slash.
    pub(in crate::node) fn get(&self, path: &str, limits: ResponseLimits) -> Result<HttpResponse, NodeError> {
        let began = Instant::now();
        let request = self.agent.get(format!("{}{path}", self.url));
        let response = request.config().timeout_global(Some(limits.timeout)).build().call();
        let answer = self.answer(path, limits, response);
        self.metrics.count(Interface::Rest, began.elapsed(), &answer);
        answer
    }

    /// Posts a JSON body to the RPC server. `asked` names the request in errors.
    pub(in crate::node) fn post(
        &self,
        asked: &str,
        authorization: &str,
        body: &[u8],
        limits: ResponseLimits,
    ) -> Result<HttpResponse, NodeError> {
        let began = Instant::now();
        let request = self
            .agent
            .post(format!("{}/", self.url))
            .header(header::AUTHORIZATION, authorization)
            .header(header::CONTENT_TYPE, "application/json");
        let response = request.config().timeout_global(Some(limits.timeout)).build().send(body);
        let answer = self.answer(asked, limits, response);
        self.metrics.count(Interface::Rpc, began.elapsed(), &answer);
        answer
    }

    fn answer(
        &self,
        asked: &str,
        limits: ResponseLimits,
        response: Result<Response<Body>, ureq::Error>,
    ) -> Result<HttpResponse, NodeError> {
        let mut response = response.map_err(|error| self.failure(asked, limits, error))?;
        let body = read_body(response.body_mut(), limits.bytes).map_err(|error| self.failure(asked, limits, error))?;
        let answer = HttpResponse { status: response.status().as_u16(), body };
        match answer.status {
            403 => Err(NodeError::Forbidden { url: self.url.clone(), asked: asked.to_owned() }),
            503 => {
                let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
                // src/rest.cpp, CheckWarmup; the RPC server reports this by error code -28
                match text.strip_prefix("Service temporarily unavailable: ") {
                    Some(progress) => {
                        Err(NodeError::WarmingUp { url: self.url.clone(), progress: progress.to_owned() })
                    }
                    None => Err(NodeError::Busy { url: self.url.clone(), answer: text }),
                }
            }
            _ => Ok(answer),
        }
    }

    fn failure(&self, asked: &str, limits: ResponseLimits, error: ureq::Error) -> NodeError {
        let unreachable = |cause: String| NodeError::Unreachable { url: self.url.clone(), cause };
        let timed_out = || NodeError::TimedOut { asked: asked.to_owned(), after: limits.timeout };
        match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                unreachable(format!("no connection within {CONNECT_TIMEOUT:?}"))
            }
            ureq::Error::Timeout(_) => timed_out(),
            ureq::Error::Io(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                timed_out()
            }
            ureq::Error::Io(error) => unreachable(error.to_string()),
            ureq::Error::HostNotFound => unreachable("the host name does not resolve".to_owned()),
            ureq::Error::ConnectionFailed => unreachable("no connection".to_owned()),
            ureq::Error::BodyExceedsLimit(_) => NodeError::TooLong { asked: asked.to_owned(), bytes: limits.bytes },
            other => NodeError::Protocol { asked: asked.to_owned(), problem: other.to_string() },
        }
    }
}

/// Reads a whole body into a buffer of exactly its size, not of the next power of two.
fn read_body(body: &mut Body, limit: u64) -> Result<Vec<u8>, ureq::Error> {
    let announced = body.content_length().unwrap_or(0);
    if announced > limit {
        return Err(ureq::Error::BodyExceedsLimit(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
    body.with_config().limit(limit).reader().read_to_end(&mut bytes)?;
    Ok(bytes)
}
