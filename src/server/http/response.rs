//! From a GraphQL response to an HTTP response: its status, its media type, its bytes.
//!
//! ```text
//!                                    application/graphql-response+json     application/json
//!   executed, with errors or not     200                                   200
//!   refused before execution         400, or the status of its code        200
//!   no GraphQL request, or shed      its status                            its status
//! ```
//!
//! A refused request has no `data`, not even null: that distinguishes it from one whose data is null because a field failed
//! (GraphQL, section 7.1.2). Under `application/json` it is 200 all the same, because older clients take any other status
//! for that of an intermediary (GraphQL over HTTP, section "Status Codes").

use std::collections::BTreeMap;

use async_graphql::{Response as GraphqlResponse, ServerError, Value};
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, VARY};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::media_type::ResponseType;
use crate::api::{RETRY_AFTER_SECONDS, code};
use crate::execution::error::{first_code, is_refusal, outcome};
use crate::execution::memory::MemoryBudget;

/// The answer to a GraphQL request, and its outcome. Its bytes are reserved until the client has read it; one that exceeds the
/// budget is refused.
pub(crate) fn respond(
    media: ResponseType,
    response: &GraphqlResponse,
    memory: &MemoryBudget,
) -> (Response, &'static str) {
    let Some(json) = json_of(response) else {
        return (StatusCode::INTERNAL_SERVER_ERROR.into_response(), code::INTERNAL_SERVER_ERROR);
    };
    let json = match memory.keep(json) {
        Ok(json) => json,
        Err(reason) => return respond(media, &GraphqlResponse::from_errors(vec![reason]), memory),
    };
    let is_shed = first_code(response) == Some(code::RESOURCE_EXHAUSTED);
    // the server has capacity, and the client has spent its budget
    let wait = retry_after(response).filter(|_| is_shed);
    let status = match media {
        _ if wait.is_some() => StatusCode::TOO_MANY_REQUESTS,
        ResponseType::GraphqlResponse if is_refusal(response) => status_of(response),
        // load balancers look at nothing else
        ResponseType::Json if is_shed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let mut answer = with_json(status, media, json);
    if is_shed {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.unwrap_or(1)));
    }
    (answer, outcome(response))
}

/// A refusal as JSON, before the media types of the client are known.
pub(crate) fn refuse_as_json(status: StatusCode, error: ServerError) -> Response {
    refuse(status, ResponseType::Json, error)
}

/// A refusal for a reason outside of the GraphQL request.
pub(crate) fn refuse(status: StatusCode, media: ResponseType, error: ServerError) -> Response {
    match json_of(&GraphqlResponse::from_errors(vec![error])) {
        Some(json) => with_json(status, media, json),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Adds the id of the request, which the log has, to those errors that say nothing but that something failed.
pub(crate) fn add_request_id(response: &mut GraphqlResponse, id: &str) {
    let masked = Value::from(code::INTERNAL_SERVER_ERROR);
    for error in &mut response.errors {
        if let Some(extensions) = &mut error.extensions
            && extensions.get("code") == Some(&masked)
        {
            extensions.set("requestId", id);
        }
    }
}

/// The status of the first error. A mistake of the client is 400.
fn status_of(response: &GraphqlResponse) -> StatusCode {
    match first_code(response) {
        Some(code::FORBIDDEN) => StatusCode::FORBIDDEN,
        Some(code::INTERNAL_SERVER_ERROR) => StatusCode::INTERNAL_SERVER_ERROR,
        Some(code::NOT_READY | code::TIP_NOT_REACHED | code::RESOURCE_EXHAUSTED) => StatusCode::SERVICE_UNAVAILABLE,
        Some(code::TIMEOUT) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The seconds until the client may retry, if the first error has them.
fn retry_after(response: &GraphqlResponse) -> Option<u64> {
    match response.errors.first()?.extensions.as_ref()?.get(RETRY_AFTER_SECONDS)? {
        Value::Number(seconds) => seconds.as_u64(),
        _ => None,
    }
}

/// An answer that is encoded already.
pub(crate) fn with_json(status: StatusCode, media: ResponseType, json: Bytes) -> Response {
    let headers: [(HeaderName, HeaderValue); 3] = [
        (CONTENT_TYPE, HeaderValue::from_static(media.content_type())),
        // the same request has another answer with the next block, unless cache_headers.rs finds that it has not
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (VARY, HeaderValue::from_static("accept")),
    ];
    (status, headers, json).into_response()
}

/// The fields of a response that are sent.
#[derive(Serialize)]
struct Body<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'r Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'r [ServerError],
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<&'r BTreeMap<String, Value>>,
}

/// `None` if it cannot be encoded.
fn json_of(response: &GraphqlResponse) -> Option<Bytes> {
    let body = Body {
        data: (!is_refusal(response)).then_some(&response.data),
        errors: &response.errors,
        extensions: (!response.extensions.is_empty()).then_some(&response.extensions),
    };
    let json = serde_json::to_vec(&body);
    json.inspect_err(|error| tracing::error!(%error, "cannot encode a response as JSON")).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use async_graphql::PathSegment;
    use axum::body::to_bytes;

    use super::*;
    use crate::execution::error::error;

    fn refused(code: &str) -> GraphqlResponse {
        GraphqlResponse::from_errors(vec![error(code, "no")])
    }

    fn answer(media: ResponseType, response: &GraphqlResponse) -> Response {
        super::respond(media, response, &MemoryBudget::of_unread_responses(100 << 10)).0
    }

    #[tokio::test]
    async fn large_answers_beyond_the_budget_are_shed_and_small_ones_are_not() {
        let of = |size: usize| GraphqlResponse::new(Value::from("x".repeat(size)));
        for media in [ResponseType::GraphqlResponse, ResponseType::Json] {
            assert_eq!(answer(media, &of(90 << 10)).status(), 200);
            let shed = answer(media, &of(101 << 10));
            assert_eq!((shed.status().as_u16(), &shed.headers()[RETRY_AFTER]), (503, &HeaderValue::from(1)));
            assert!(body(shed).await.contains(code::RESOURCE_EXHAUSTED));
        }
        assert_eq!(
            super::respond(ResponseType::Json, &of(60 << 10), &MemoryBudget::of_unread_responses(0)).0.status(),
            200
        );
    }

    async fn body(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_refusal_has_no_data_and_its_status_in_the_newer_type() {
        for (code, status) in [
            (code::GRAPHQL_PARSE_FAILED, 400),
            (code::GRAPHQL_VALIDATION_FAILED, 400),
            (code::BAD_USER_INPUT, 400),
            (code::QUERY_LIMIT_EXCEEDED, 400),
            (code::FORBIDDEN, 403),
            (code::INTERNAL_SERVER_ERROR, 500),
            (code::NOT_READY, 503),
            (code::TIP_NOT_REACHED, 503),
            (code::TIMEOUT, 504),
        ] {
            for (media, status) in [(ResponseType::GraphqlResponse, status), (ResponseType::Json, 200)] {
                let answer = answer(media, &refused(code));
                assert_eq!(answer.status().as_u16(), status, "{code} {media:?}");
                let expected =
                    format!("{{\"errors\":[{{\"message\":\"no\",\"extensions\":{{\"code\":\"{code}\"}}}}]}}");
                assert_eq!(body(answer).await, expected);
            }
        }
    }

    #[test]
    fn a_shed_request_is_503_with_retry_after() {
        for media in [ResponseType::GraphqlResponse, ResponseType::Json] {
            let answer = answer(media, &refused(code::RESOURCE_EXHAUSTED));
            assert_eq!((answer.status().as_u16(), &answer.headers()[RETRY_AFTER]), (503, &HeaderValue::from(1)));
        }
    }

    #[tokio::test]
    async fn an_executed_request_has_data_even_if_null() {
        let mut failed = refused(code::INTERNAL_SERVER_ERROR);
        failed.errors[0].path = vec![PathSegment::Field("a".to_owned())];
        for media in [ResponseType::GraphqlResponse, ResponseType::Json] {
            let answer = answer(media, &failed);
            assert_eq!(answer.status(), 200);
            assert!(body(answer).await.starts_with("{\"data\":null,\"errors\":[{"));
        }
        let whole = GraphqlResponse::new(Value::from(1)).extension("b", Value::from(2));
        assert_eq!(body(answer(ResponseType::Json, &whole)).await, r#"{"data":1,"extensions":{"b":2}}"#);
    }

    #[test]
    fn an_answer_has_its_media_type_and_varies_by_accept() {
        for (media, expected) in [
            (ResponseType::GraphqlResponse, "application/graphql-response+json; charset=utf-8"),
            (ResponseType::Json, "application/json; charset=utf-8"),
        ] {
            let answer = answer(media, &GraphqlResponse::new(Value::Null));
            assert_eq!(answer.headers()[CONTENT_TYPE], expected);
            assert_eq!(answer.headers()[VARY], "accept");
        }
    }
}
