//! From a GraphQL response to an HTTP response: its status, its media type, its bytes.
//!
//! ```text
//!                                    application/graphql-response+json     application/json
//!   executed, with errors or not     200                                   200
//!   refused before execution         400, or what its code says            200
//!   no GraphQL request, or shed      what it is                            what it is
//! ```
//!
//! A request that was refused has no `data`, not even null: that is what tells it from one whose data is null because a
//! field failed (GraphQL, section 7.1.2). Under `application/json` it is 200 all the same, because a client that knows
//! nothing newer takes any other status for something that stands between it and the server (GraphQL over HTTP, section
//! "Status Codes").

use async_graphql::{Response as GraphqlResponse, ServerError, Value};
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, VARY};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::accept::ResponseType;
use crate::api::{RETRY_AFTER_SECONDS, code};
use crate::server::limits::memory::MemoryBudget;

/// The answer to a GraphQL request. It counts as held until the client has read it; one that there is no room for is
/// refused.
pub(crate) fn answer(media: ResponseType, response: &GraphqlResponse, held: &MemoryBudget) -> Response {
    let Some(json) = json_of(response) else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let json = match held.hold(json) {
        Ok(json) => json,
        Err(reason) => return answer(media, &GraphqlResponse::from_errors(vec![reason.into()]), held),
    };
    let is_shed = first_code(response) == Some(code::RESOURCE_EXHAUSTED);
    // the server has room, and the client has spent what it may
    let wait = retry_after(response).filter(|_| is_shed);
    let status = match media {
        _ if wait.is_some() => StatusCode::TOO_MANY_REQUESTS,
        ResponseType::GraphqlResponse if is_refusal(response) => status_of(response),
        // whoever balances load looks at nothing else
        ResponseType::Json if is_shed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let mut answer = written(status, media, json);
    if is_shed {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.unwrap_or(1)));
    }
    answer
}

/// The same as JSON, for what is refused before the client is asked what it takes.
pub(crate) fn refuse_as_json(status: StatusCode, error: ServerError) -> Response {
    refuse(status, ResponseType::Json, error)
}

/// The answer to what is refused for another reason than what is in the GraphQL request.
pub(crate) fn refuse(status: StatusCode, media: ResponseType, error: ServerError) -> Response {
    with_status(status, media, &GraphqlResponse::from_errors(vec![error]))
}

/// An error with one of the codes of [`code`].
pub(crate) fn error(code: &str, message: impl Into<String>) -> ServerError {
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code);
    error
}

/// Whether nothing was executed. Errors of fields have paths, and others come before the first field.
pub(crate) fn is_refusal(response: &GraphqlResponse) -> bool {
    !response.errors.is_empty()
        && response.data == Value::Null
        && response.errors.iter().all(|error| error.path.is_empty())
}

/// Gives those errors that say nothing but that something failed the id of their request, which the log has, too.
pub(crate) fn number_faults(response: &mut GraphqlResponse, id: &str) {
    let masked = Value::from(code::INTERNAL_SERVER_ERROR);
    for error in &mut response.errors {
        if let Some(extensions) = &mut error.extensions
            && extensions.get("code") == Some(&masked)
        {
            extensions.set("requestId", id);
        }
    }
}

/// The status that says what the first error is. What a client did wrong is 400.
fn status_of(response: &GraphqlResponse) -> StatusCode {
    match first_code(response) {
        Some(code::FORBIDDEN) => StatusCode::FORBIDDEN,
        Some(code::INTERNAL_SERVER_ERROR) => StatusCode::INTERNAL_SERVER_ERROR,
        Some(code::NOT_READY | code::TIP_NOT_REACHED | code::RESOURCE_EXHAUSTED) => StatusCode::SERVICE_UNAVAILABLE,
        Some(code::TIMEOUT) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The code of the first error.
fn first_code(response: &GraphqlResponse) -> Option<&str> {
    match response.errors.first()?.extensions.as_ref()?.get("code")? {
        Value::String(code) => Some(code),
        _ => None,
    }
}

/// After how many seconds the client may ask again, if the first error says so.
fn retry_after(response: &GraphqlResponse) -> Option<u64> {
    match response.errors.first()?.extensions.as_ref()?.get(RETRY_AFTER_SECONDS)? {
        Value::Number(seconds) => seconds.as_u64(),
        _ => None,
    }
}

/// An answer that is written already.
pub(crate) fn written(status: StatusCode, media: ResponseType, json: Bytes) -> Response {
    (status, headers(media), json).into_response()
}

fn headers(media: ResponseType) -> [(HeaderName, HeaderValue); 3] {
    [
        (CONTENT_TYPE, HeaderValue::from_static(media.content_type())),
        // the same question has another answer with the next block, unless `caching` finds that it has not
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (VARY, HeaderValue::from_static("accept")),
    ]
}

/// What is sent of a response.
#[derive(Serialize)]
struct Answered<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'r Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'r [ServerError],
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<&'r std::collections::BTreeMap<String, Value>>,
}

fn with_status(status: StatusCode, media: ResponseType, response: &GraphqlResponse) -> Response {
    match json_of(response) {
        Some(json) => written(status, media, json),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// `None` if it cannot be written.
fn json_of(response: &GraphqlResponse) -> Option<Bytes> {
    let body = Answered {
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

    fn refused(code: &str) -> GraphqlResponse {
        GraphqlResponse::from_errors(vec![error(code, "no")])
    }

    fn answer(media: ResponseType, response: &GraphqlResponse) -> Response {
        super::answer(media, response, &MemoryBudget::new(100 << 10))
    }

    #[tokio::test]
    async fn a_large_answer_that_there_is_no_room_for_is_shed_and_a_small_one_is_not() {
        let of = |size: usize| GraphqlResponse::new(Value::from("x".repeat(size)));
        for media in [ResponseType::GraphqlResponse, ResponseType::Json] {
            assert_eq!(answer(media, &of(90 << 10)).status(), 200);
            let shed = answer(media, &of(101 << 10));
            assert_eq!((shed.status().as_u16(), &shed.headers()[RETRY_AFTER]), (503, &HeaderValue::from(1)));
            assert!(body(shed).await.contains(code::RESOURCE_EXHAUSTED));
        }
        assert_eq!(super::answer(ResponseType::Json, &of(60 << 10), &MemoryBudget::new(0)).status(), 200);
    }

    async fn body(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn what_is_refused_has_no_data_and_a_status_under_the_newer_type_only() {
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
    fn what_is_shed_says_so_to_everyone_and_when_to_come_again() {
        for media in [ResponseType::GraphqlResponse, ResponseType::Json] {
            let answer = answer(media, &refused(code::RESOURCE_EXHAUSTED));
            assert_eq!((answer.status().as_u16(), &answer.headers()[RETRY_AFTER]), (503, &HeaderValue::from(1)));
        }
    }

    #[tokio::test]
    async fn what_was_executed_has_data_even_if_that_is_null() {
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
    fn an_answer_says_what_it_is_and_what_it_depends_on() {
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
