//! GraphQL by POST: one request, one answer, no batches.

use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request as GraphqlRequest, Response as GraphqlResponse, ServerError};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::Server;
use crate::api::code;

/// How much of a body that is refused is read all the same, in multiples of the limit. A client that is still writing
/// when its connection is closed may never read why.
const READ_ON: usize = 4;

/// How long a client may take to send a body.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers a GraphQL request.
///
/// 415 unless the body is JSON, 408 if it does not come, 413 if it is too large, 400 if it is no request; else 200, whatever its errors.
pub(super) async fn post(State(server): State<Server>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let limit = server.limits.body_bytes;
    let body = timeout(BODY_TIMEOUT, receive(body, limit)).await;
    if !is_json(&parts.headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the request as application/json");
    }
    let Ok(body) = body else {
        return refuse(StatusCode::REQUEST_TIMEOUT, "the body of the request did not come in time");
    };
    let Some(body) = body else {
        let message = format!("the body of a request has at most {limit} bytes");
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, &message);
    };
    match parse(&body) {
        Ok(request) => answer(StatusCode::OK, &server.executor.execute(request).await),
        Err(reason) => {
            let message = format!("the body is no GraphQL request: a JSON object with a query is expected ({reason})");
            refuse(StatusCode::BAD_REQUEST, &message)
        }
    }
}

fn parse(body: &[u8]) -> Result<GraphqlRequest, String> {
    // a list would be read, too: its items as the fields in their order
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err("this is none; of several requests each is sent by itself".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// The whole body; `None` if it is larger than the limit, or does not end.
pub(super) async fn receive(body: Body, limit: usize) -> Option<Vec<u8>> {
    let (mut chunks, mut received, mut size) = (body.into_data_stream(), Vec::new(), 0_usize);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.ok()?;
        size = size.saturating_add(chunk.len());
        if size <= limit {
            received.extend_from_slice(&chunk);
        } else if size > limit.saturating_mul(READ_ON) {
            return None;
        }
    }
    (size <= limit).then_some(received)
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

fn refuse(status: StatusCode, message: &str) -> Response {
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code::BAD_USER_INPUT);
    answer(status, &GraphqlResponse::from_errors(vec![error]))
}

fn answer(status: StatusCode, response: &GraphqlResponse) -> Response {
    match serde_json::to_string(response) {
        Ok(json) => (status, [(CONTENT_TYPE, "application/json; charset=utf-8")], json).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
