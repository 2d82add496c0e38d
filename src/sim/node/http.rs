//! HTTP: authentication, limits of bodies, and the choice between RPC and REST.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::backend::Backend;
use super::rest::{self, RestReply};
use super::rpc::{envelope, methods};

/// The longest body that is read, in bytes (`MAX_SIZE` of Core's `serialize.h`).
const MAX_BODY: usize = 32 << 20;

const JSON: &str = "application/json";

/// The state of all handlers.
pub(super) struct HttpState {
    pub(super) backend: Arc<Backend>,
    /// The accepted credentials, as `user:password`.
    pub(super) logins: Vec<String>,
}

pub(super) fn router(served: Arc<HttpState>) -> Router {
    Router::new().fallback(respond).with_state(served)
}

async fn respond(State(served): State<Arc<HttpState>>, request: Request) -> Response {
    let delay = served.backend.switches().delay;
    if !delay.is_zero() {
        // skipped if zero: the shortest sleep is a millisecond
        tokio::time::sleep(delay).await;
    }
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if let Some(path) = path.strip_prefix("/rest/").filter(|_| served.backend.options.rest) {
        let called = path.split('/').take(1).chain(path.contains('/').then_some(path));
        if let Some(response) = overridden_response(&served.backend, called) {
            return response;
        }
        let (path, query) = (path.to_owned(), head.uri.query().map(str::to_owned));
        let backend = Arc::clone(&served.backend);
        return match blocking(move || rest::answer(&backend, &path, query.as_deref())).await {
            Some(reply) => rest_response(reply),
            None => plain(StatusCode::INTERNAL_SERVER_ERROR, ""),
        };
    }
    if path != "/" {
        return plain(StatusCode::NOT_FOUND, "");
    }
    if head.method != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "JSONRPC server handles only POST requests");
    }
    if !is_authorized(&served.logins, &head.headers) {
        let mut response = plain(StatusCode::UNAUTHORIZED, "");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"jsonrpc\""));
        return response;
    }
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "");
    };
    if let Some(response) = overridden_response(&served.backend, envelope::methods(&body).iter().map(String::as_str)) {
        return response;
    }
    rpc_response(Arc::clone(&served.backend), body).await
}

/// The response that a test has set in place of the answer of one of these methods.
fn overridden_response<'m>(backend: &Backend, called: impl Iterator<Item = &'m str>) -> Option<Response> {
    let overrides = backend.switches().overrides;
    if overrides.is_empty() {
        return None;
    }
    let called: Vec<_> = called.collect();
    let (status, text) = called.iter().find_map(|method| overrides.get(*method))?;
    // none of them is called
    for method in called {
        backend.count_call(method);
    }
    let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Some(with_type(status, JSON, text.clone()))
}

async fn rpc_response(backend: Arc<Backend>, body: Bytes) -> Response {
    let reply = blocking(move || envelope::answer(&body, |call| methods::answer(&backend, call))).await;
    let Some(reply) = reply else { return plain(StatusCode::INTERNAL_SERVER_ERROR, "") };
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match reply.body {
        Some(body) => with_type(status, JSON, body),
        None => with_status(status, Body::empty()),
    }
}

fn rest_response(reply: RestReply) -> Response {
    match reply {
        RestReply::Binary(bytes) => with_type(StatusCode::OK, "application/octet-stream", bytes),
        RestReply::Text(text) => with_type(StatusCode::OK, "text/plain", text),
        RestReply::Json(text) => with_type(StatusCode::OK, JSON, text),
        RestReply::Refused(status, message) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            with_type(status, "text/plain", message + "\r\n")
        }
        RestReply::NoPath => plain(StatusCode::NOT_FOUND, ""),
    }
}

/// Runs blocking work, which may wait for a lock or a disk. `None` if it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn is_authorized(logins: &[String], headers: &HeaderMap) -> bool {
    let credentials = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
    let login = credentials.and_then(|credentials| BASE64_STANDARD.decode(credentials.trim()).ok());
    login.is_some_and(|login| logins.iter().any(|known| known.as_bytes() == login))
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    with_type(status, "text/html; charset=ISO-8859-1", text)
}

fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = with_status(status, body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn with_status(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
