//! Gives each request an id that the client and the log share, and writes one line when it is answered, or when its connection
//! closes before that.
//!
//! The id is that of `X-Request-Id` if the client sends one that is fit for a log, or a new one; the response has it in
//! the same header. The line names the client, the operation, its outcome and its cost. It has no query, no variables and
//! no tokens but their names: they are private.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::response::Response;
use tracing::Instrument;

use super::context::{RequestContext, RequestSummary};
use super::step::{NextStep, RequestStep};
use crate::execution::error::random_id;
use crate::metrics::server_metrics::{ServerMetrics, Transport};
use crate::server::limits::client_ip::TrustedProxies;

/// The header of the id, both ways.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id of a client, and the longest name of an operation in the log, in bytes.
const LONGEST: usize = 100;

/// Begins the [`RequestContext`] of a request and logs its [`RequestSummary`].
pub(crate) struct RequestLog {
    pub(crate) proxies: TrustedProxies,
    pub(crate) metrics: Arc<ServerMetrics>,
}

/// The client's id, or a new one.
fn id_of(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok()).filter(|id| is_fit(id));
    given.map_or_else(|| random_id().into(), Into::into)
}

/// Letters, digits and the separators of the ids of tracing systems.
fn is_fit(id: &str) -> bool {
    (1..=LONGEST).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+/=".contains(&byte))
}

/// What the log says of a request, which is logged when this is dropped before there is an answer.
struct ReceivedRequest {
    span: tracing::Span,
    method: Method,
    path: String,
    client: Option<IpAddr>,
    started: Instant,
    is_answered: bool,
}

/// What the log says of a request without an answer.
const CLOSED: &str = "the connection closed before the answer";

impl ReceivedRequest {
    /// Whether watchdogs send it, so often that its lines would hide all others.
    fn is_from_watchdog(&self) -> bool {
        self.path.starts_with("/health/") || self.path == "/metrics"
    }

    fn milliseconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1_000.0
    }
}

impl Drop for ReceivedRequest {
    fn drop(&mut self) {
        // a panic has a line of its own
        if self.is_answered || std::thread::panicking() {
            return;
        }
        let _entered = self.span.enter();
        let (method, path, milliseconds) = (&self.method, &self.path, self.milliseconds());
        let client = self.client.map(tracing::field::display);
        if self.is_from_watchdog() {
            tracing::debug!(%method, path, milliseconds, client, "{CLOSED}");
        } else {
            tracing::info!(%method, path, milliseconds, client, "{CLOSED}");
        }
    }
}

impl RequestStep for RequestLog {
    fn handle<'a>(&'a self, mut request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response> {
        async move {
            let started = Instant::now();
            let id = id_of(request.headers());
            let client = self.proxies.client_of(request.extensions(), request.headers());
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let context = RequestContext { id: Some(id.clone()), address: client, client: None };
            request.extensions_mut().insert(context);
            let span = tracing::info_span!("request", id = %id);
            let mut received =
                ReceivedRequest { span: span.clone(), method, path, client, started, is_answered: false };
            let mut response = next.run(request).instrument(span.clone()).await;
            received.is_answered = true;
            let (method, path) = (&received.method, &received.path);
            let summary = response.extensions_mut().remove::<RequestSummary>().unwrap_or_default();
            let name = summary.operation.as_deref().map(|name| &name[..name.floor_char_boundary(LONGEST)]);
            let bytes = response.body().size_hint().exact();
            self.metrics.response(response.status().as_u16());
            self.metrics.sent(Transport::Http, bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0));
            let _entered = span.enter();
            if received.is_from_watchdog() {
                tracing::debug!(%method, path, status = response.status().as_u16(), "answered");
            } else {
                tracing::info!(
                    %method,
                    path,
                    operation = name,
                    kind = summary.kind.map(|kind| kind.to_string()),
                    status = response.status().as_u16(),
                    milliseconds = received.milliseconds(),
                    code = summary.code,
                    cost = summary.cost,
                    bytes,
                    token = summary.token.as_deref(),
                    client = client.map(tracing::field::display),
                    "answered"
                );
            }
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            response
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str) -> String {
        let headers = HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_bytes(id.as_bytes()).unwrap())]);
        id_of(&headers).to_string()
    }

    #[test]
    fn an_id_fit_for_a_log_is_used() {
        for id in ["a", "7b2c-11", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a/b+c=.:_"] {
            assert_eq!(of(id), id);
        }
    }

    #[test]
    fn any_other_id_is_replaced() {
        for id in ["", "a b", "a\tb", "\"", "ä", &"a".repeat(101)] {
            let new = of(id);
            assert!(new.len() == 16 && new.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}: {new}");
        }
        assert_ne!(id_of(&HeaderMap::new()), id_of(&HeaderMap::new()));
    }
}
