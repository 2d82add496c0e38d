//! GraphQL by POST: one request, one answer, no batches.

use async_graphql::{Executor, Request as GraphqlRequest, Response as GraphqlResponse, ServerError};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::Server;
use crate::api::code;

/// Answers a GraphQL request.
///
/// 415 unless the body is JSON, 413 if it is too large, 400 if it is no request; else 200, whatever its errors.
pub(super) async fn post(State(server): State<Server>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the request as application/json");
    }
    let request = match read(&parts.headers, body, server.limits.body_bytes).await {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    answer(StatusCode::OK, &server.executor.execute(request).await)
}

async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<GraphqlRequest, Response> {
    let too_large = || {
        let message = format!("the body of a request has at most {limit} bytes");
        refuse(StatusCode::PAYLOAD_TOO_LARGE, &message)
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let body = to_bytes(body, limit).await.map_err(|_| too_large())?;
    serde_json::from_slice(&body).map_err(|error| {
        let message = format!("the body is no GraphQL request: a JSON object with a query is expected ({error})");
        refuse(StatusCode::BAD_REQUEST, &message)
    })
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
