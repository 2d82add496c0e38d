//! GraphQL over HTTP, by the specification of that name: one request, one answer, no batches.
//!
//! ```text
//!   accept.rs     which media type the answer has        406
//!   body.rs       the bytes of a POST                    408 413 415
//!   request.rs    the GraphQL request in them            400
//!   persisted.rs  a query that is known by its hash      PERSISTED_QUERY_NOT_FOUND
//!   executor.rs   the guard, then the engine             QUERY_LIMIT_EXCEEDED, …
//!   answer.rs     status and bytes of the response; or sse.rs, multipart.rs beside this folder, for results as they come
//! ```
//!
//! A GET can be made by any page that a browser shows, and so can a POST of a form; neither is asked about first. So a GET
//! is for queries only, which change nothing and whose answers no page may read without leave ([`Origins`]), a POST must
//! be of JSON, which browsers send for a page only with leave, and what is more than a query needs an origin with leave
//! even then.
//!
//! [`Origins`]: super::origins::Origins

mod accept;
mod answer;
mod body;
mod persisted;
mod request;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::parser::types::OperationType;
use async_graphql::{Request as GraphqlRequest, Response as GraphqlResponse, ServerError};
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::header::{ALLOW, UPGRADE, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

use super::access::{Asked, RequestId};
use super::payload::Payload;
use super::{Server, multipart, sse, websocket};
use crate::api::code;
use accept::{Accepted, Stream, Whole};
use answer::refuse;
pub(super) use answer::{error, refuse_as_json};
pub(super) use body::{NoBody, receive};
use persisted::Named;
pub(super) use persisted::Persisted;

/// Answers a query in the query string, or makes the connection a websocket.
pub(super) async fn get(State(server): State<Server>, request: Request) -> Response {
    let upgrade = request.headers().get(UPGRADE).and_then(|protocol| protocol.to_str().ok());
    if upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
        // browsers open websockets for any page
        if !server.origins.allows(request.headers()) {
            return refuse_as_json(StatusCode::FORBIDDEN, foreign_origin());
        }
        return websocket::upgrade.call(request, server).await;
    }
    let (caller, _) = request.into_parts();
    let Some(accepted) = takes_something(&caller.headers) else { return not_acceptable() };
    match request::of_query_string(caller.uri.query().unwrap_or_default()) {
        Ok(request) => respond(&server, &caller, accepted, request).await,
        Err(reason) => bad_request(accepted, reason.to_string()),
    }
}

/// Answers the request in the body.
pub(super) async fn post(State(server): State<Server>, request: Request) -> Response {
    let (caller, body) = request.into_parts();
    let limit = server.limits.body_bytes;
    let body = receive(&caller.headers, body, limit).await;
    let Some(accepted) = takes_something(&caller.headers) else { return not_acceptable() };
    let media = accepted.of_errors();
    if !request::is_json(&caller.headers) {
        let error = error(code::BAD_USER_INPUT, "send the request as application/json, in UTF-8");
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, media, error);
    }
    let body = match body {
        Ok(body) => body,
        Err(NoBody::Late) => {
            let error = error(code::BAD_USER_INPUT, "the body of the request did not come in time");
            return refuse(StatusCode::REQUEST_TIMEOUT, media, error);
        }
        Err(NoBody::TooLarge(actual)) => {
            let message = format!("the body of a request has at most {limit} bytes");
            let mut error = error(code::QUERY_LIMIT_EXCEEDED, message);
            let extensions = error.extensions.get_or_insert_default();
            extensions.set("which", "bytes of the body");
            extensions.set("limit", limit);
            extensions.set("actual", actual);
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, media, error);
        }
    };
    match request::of_body(&body) {
        Ok(request) => respond(&server, &caller, accepted, request).await,
        Err(reason) => bad_request(accepted, reason.to_string()),
    }
}

async fn respond(server: &Server, caller: &Parts, accepted: Accepted, request: GraphqlRequest) -> Response {
    let name = request.operation_name.clone();
    let (mut response, kind) = execute(server, caller, accepted, request).await;
    response.extensions_mut().insert(Asked { name, kind });
    response
}

/// The answer, and what was asked for.
async fn execute(
    server: &Server,
    caller: &Parts,
    accepted: Accepted,
    request: GraphqlRequest,
) -> (Response, Option<OperationType>) {
    let media = accepted.of_errors();
    let refuse_document = |error: ServerError| {
        let response = GraphqlResponse::from_errors(vec![error]);
        let Accepted { whole: None, stream: Some(form) } = accepted else { return answer::answer(media, &response) };
        // browsers do not tell pages what is in an answer that is no stream
        answer_stream(server, form, stream::iter([Payload::new(&response, true)]).boxed())
    };
    let (request, named) = match server.persisted.resolve(request) {
        Ok(resolved) => resolved,
        Err(error) => return (refuse_document(error), None),
    };
    let admitted = match server.executor.admit(request) {
        Ok(admitted) => admitted,
        Err(refusal) => return (refuse_document(refusal.into()), None),
    };
    let kind = admitted.kind();
    if kind == Some(OperationType::Mutation) && caller.method != Method::POST {
        let error = error(code::BAD_USER_INPUT, "send a mutation by POST");
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, media, error);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return (response, kind);
    }
    if kind != Some(OperationType::Query) && !server.origins.allows(&caller.headers) {
        return (refuse(StatusCode::FORBIDDEN, media, foreign_origin()), kind);
    }
    let form = match (kind, accepted) {
        (Some(OperationType::Subscription), Accepted { stream: Some(form), .. })
        | (_, Accepted { whole: None, stream: Some(form) }) => Some(form),
        (Some(OperationType::Subscription), _) => {
            let message = "a subscription is a stream: ask for it over a websocket, or accept text/event-stream";
            return (refuse(StatusCode::NOT_ACCEPTABLE, media, error(code::BAD_USER_INPUT, message)), kind);
        }
        _ => None,
    };
    if let Some(form) = form {
        let payloads = match server.executor.subscribe(admitted.into_request(), None) {
            Ok(payloads) => payloads,
            Err(refused) => stream::iter([Payload::Refused(refused)]).boxed(),
        };
        return (answer_stream(server, form, keeping(server, named, payloads)), kind);
    }
    let id = caller.extensions.get::<RequestId>().cloned();
    let write = move |mut response: GraphqlResponse| {
        if let Some(RequestId(id)) = &id {
            answer::number_faults(&mut response, id);
        }
        (answer::answer(media, &response), answer::is_refusal(&response))
    };
    let (answer, is_refused) = server.executor.run_and(admitted, write).await;
    if let Some(named) = named
        && !is_refused
    {
        server.persisted.keep(named);
    }
    (answer, kind)
}

fn foreign_origin() -> ServerError {
    let message = "pages of this origin may only query; the server's setting server.origins lists those that may more";
    error(code::FORBIDDEN, message)
}

/// Answers with payloads as they come.
fn answer_stream(server: &Server, form: Stream, payloads: BoxStream<'static, Payload>) -> Response {
    let mut response = match form {
        Stream::Events => sse::answer(server, payloads),
        Stream::Multipart => multipart::answer(server, payloads),
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// These payloads. The query is kept with the first of them that is a result.
fn keeping(
    server: &Server,
    named: Option<Named>,
    payloads: BoxStream<'static, Payload>,
) -> BoxStream<'static, Payload> {
    let Some(named) = named else { return payloads };
    let (persisted, mut named) = (server.persisted.clone(), Some(named));
    let keep = move |payload: &Payload| {
        if matches!(payload, Payload::Result(_))
            && let Some(named) = named.take()
        {
            persisted.keep(named);
        }
    };
    payloads.inspect(keep).boxed()
}

/// What the client takes of what there is, `None` if that is nothing.
fn takes_something(headers: &HeaderMap) -> Option<Accepted> {
    let accepted = accept::accepted(headers);
    (accepted.whole.is_some() || accepted.stream.is_some()).then_some(accepted)
}

impl Accepted {
    /// How a whole answer is written to a client that may have asked for a stream.
    fn of_errors(self) -> Whole {
        self.whole.unwrap_or(Whole::Json)
    }
}

fn not_acceptable() -> Response {
    let message = "answers are application/graphql-response+json or application/json: accept one of them";
    refuse(StatusCode::NOT_ACCEPTABLE, Whole::Json, error(code::BAD_USER_INPUT, message))
}

fn bad_request(accepted: Accepted, reason: String) -> Response {
    refuse(StatusCode::BAD_REQUEST, accepted.of_errors(), error(code::BAD_USER_INPUT, reason))
}
