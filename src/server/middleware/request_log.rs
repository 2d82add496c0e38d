//! What is told of each request: a line in the log, and an id that client and log share.
//!
//! The id is the client's own, if it sends one in `X-Request-Id` that is fit for a log, or a new one; the answer has it
//! in the same header. The line says who asked for what by name, how that ended, and what it cost. It holds
//! no query, no variables and no tokens, of which only the names are told: they say what someone wants to know.

use std::sync::Arc;
use std::time::Instant;

use async_graphql::parser::types::OperationType;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use tracing::Instrument;

use crate::server::Server;
use crate::server::auth::callers::TokenName;
use crate::server::metrics::server_metrics::Transport;

/// The header that the id travels in, both ways.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken from a client, and the longest name of an operation that is told, in bytes.
const LONGEST: usize = 100;

/// The id of a request, among its extensions.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

/// What a GraphQL request asked for, among the extensions of its response.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperationSummary {
    /// The name of the operation, as the client says it.
    pub(crate) name: Option<String>,
    /// Unless the client does not say which operation is meant.
    pub(crate) kind: Option<OperationType>,
    /// What it cost, if it was executed and has been answered.
    pub(crate) cost: Option<u64>,
    /// The code of its first error, or `OK`; `None` if it goes on as a stream.
    pub(crate) code: Option<&'static str>,
}

impl RequestId {
    /// The client's, or a new one.
    fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok()).filter(|id| is_fit(id));
        Self(given.map_or_else(new_id, Into::into))
    }
}

fn new_id() -> Arc<str> {
    getrandom::u64().map_or_else(|_| "unknown".into(), |id| format!("{id:016x}").into())
}

/// Letters, digits and what stands between them in the ids of tracing systems.
fn is_fit(id: &str) -> bool {
    (1..=LONGEST).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+/=".contains(&byte))
}

/// Gives the request its id, and tells of it when it was answered.
pub(crate) async fn tell(
    server: &Server,
    mut request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let started = Instant::now();
    let id = RequestId::of(request.headers());
    let client = server.proxies.client_of(request.extensions(), request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    request.extensions_mut().insert(id.clone());
    let span = tracing::info_span!("request", id = %id.0);
    let mut response = next(request).instrument(span.clone()).await;
    let asked = response.extensions_mut().remove::<OperationSummary>().unwrap_or_default();
    let name = asked.name.as_deref().map(|name| &name[..name.floor_char_boundary(LONGEST)]);
    let bytes = response.body().size_hint().exact();
    let figures = server.metrics.figures();
    figures.response(response.status().as_u16());
    figures.sent(Transport::Http, bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0));
    let token = response.extensions_mut().remove::<TokenName>();
    let _entered = span.enter();
    // the watchers over the server ask so often that nobody could read anything else
    if path.starts_with("/health/") || path == "/metrics" {
        tracing::debug!(%method, path, status = response.status().as_u16(), "answered");
    } else {
        tracing::info!(
            %method,
            path,
            operation = name,
            kind = asked.kind.map(|kind| kind.to_string()),
            status = response.status().as_u16(),
            milliseconds = started.elapsed().as_secs_f64() * 1_000.0,
            code = asked.code,
            cost = asked.cost,
            bytes,
            token = token.as_ref().map(|TokenName(name)| &**name),
            client = client.map(tracing::field::display),
            "answered"
        );
    }
    if let Ok(id) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str) -> String {
        let headers = HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_bytes(id.as_bytes()).unwrap())]);
        RequestId::of(&headers).0.to_string()
    }

    #[test]
    fn an_id_that_is_fit_for_a_log_is_taken() {
        for id in ["a", "7b2c-11", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a/b+c=.:_"] {
            assert_eq!(of(id), id);
        }
    }

    #[test]
    fn any_other_is_replaced_by_a_new_one() {
        for id in ["", "a b", "a\tb", "\"", "ä", &"a".repeat(101)] {
            let new = of(id);
            assert!(new.len() == 16 && new.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}: {new}");
        }
        assert_ne!(RequestId::of(&HeaderMap::new()).0, RequestId::of(&HeaderMap::new()).0);
    }
}
