//! GraphQL over HTTP, by the specification of that name: one request, one answer, no batches.
//!
//! ```text
//!   accept.rs     which media type the answer has        406
//!   body.rs       the bytes of a POST                    400 408 413 415
//!   request.rs    the GraphQL request in them            400
//!   persisted.rs  a query that is known by its hash      PERSISTED_QUERY_NOT_FOUND
//!   executor.rs   the guard, then the engine             QUERY_LIMIT_EXCEEDED, …
//!   caching.rs    how long the answer may be kept         304
//!   answer.rs     status and bytes of the response; or sse.rs, multipart.rs beside this folder, for results as they come
//! ```
//!
//! A GET can be made by any page that a browser shows, and so can a POST of a form; neither is asked about first. So a GET
//! is for queries only, which change nothing and whose answers no page may read without leave ([`Origins`]), a POST must
//! be of JSON, which browsers send for a page only with leave, and what is more than a query needs an origin with leave
//! even then.
//!
//! [`Origins`]: crate::server::middleware::cors::Origins

use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::parser::types::OperationType;
use async_graphql::{Request as GraphqlRequest, Response as GraphqlResponse, ServerError};
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT_ENCODING, ALLOW, RETRY_AFTER, UPGRADE, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;

use super::accept::{Accepted, ResponseType, Stream};
use super::body::{BodyError, receive};
use super::cache_headers::{CacheScope, Kept};
use super::request::RequestError;
use super::response::{error, refuse, refuse_as_json};
use super::{accept, body, cache_headers as caching, multipart, request, response as answer, sse, stream as streams};
use crate::api::{Include, ReadSet, code};
use crate::server::Server;
use crate::server::auth::callers;
use crate::server::auth::callers::{AuthError, Client};
use crate::server::connection::min_rate::MinRate;
use crate::server::document::introspection::Known;
use crate::server::document::persisted::EXTENSION as PERSISTED_QUERY;
use crate::server::execution::payload::Payload;
use crate::server::metrics::server_metrics::{Transport, code_of};
use crate::server::middleware::request_log::{OperationSummary, RequestId};
use crate::server::websocket::upgrade;

/// The header that names what a response is to tell beside its data: `usage`, `snapshot`, or both.
const INCLUDE: HeaderName = HeaderName::from_static("x-btcgraph-include");

impl Stream {
    fn transport(self) -> Transport {
        match self {
            Stream::Events => Transport::Events,
            Stream::Multipart => Transport::Multipart,
        }
    }
}

/// Whether somebody opens the endpoint in a browser, and asks it nothing.
pub(crate) fn is_visit(request: &Request) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let query = || request::of_query_string(request.uri().query().unwrap_or_default());
    is_read
        && !request.headers().contains_key(UPGRADE)
        && accept::prefers_page(request.headers())
        && matches!(query(), Err(RequestError::NoQuery))
}

/// Answers a query in the query string, or makes the connection a websocket.
pub(crate) async fn get(State(server): State<Arc<Server>>, request: Request) -> Response {
    let upgrade = request.headers().get(UPGRADE).and_then(|protocol| protocol.to_str().ok());
    if upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
        // browsers open websockets for any page
        if !server.origins.allows(request.headers()) {
            return refuse_as_json(StatusCode::FORBIDDEN, foreign_origin());
        }
        return upgrade::upgrade(server, request);
    }
    let (caller, _) = request.into_parts();
    let Some(accepted) = takes_something(&caller.headers) else { return not_acceptable() };
    match request::of_query_string(caller.uri.query().unwrap_or_default()) {
        Ok(request) => respond(&server, &caller, accepted, request).await,
        Err(reason) => bad_request(accepted, reason.to_string()),
    }
}

/// Answers the request in the body.
pub(crate) async fn post(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (caller, body) = request.into_parts();
    let limit = server.limits.body_bytes;
    let body = receive(&caller.headers, body, limit, MinRate::of_bodies(&server.limits), &server.held).await;
    let Some(accepted) = takes_something(&caller.headers) else { return not_acceptable() };
    let media = accepted.of_errors();
    if !request::is_json(&caller.headers) {
        let error = error(code::BAD_USER_INPUT, "send the request as application/json, in UTF-8");
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, media, error);
    }
    if let Some(coding) = body::unknown_transfer_coding(&caller.headers) {
        let message = format!("Transfer-Encoding `{coding}` is not supported: send the body as it is, or chunked");
        return refuse(StatusCode::NOT_IMPLEMENTED, media, error(code::BAD_USER_INPUT, message));
    }
    if let Some(coding) = body::unknown_coding(&caller.headers) {
        let message = format!("Content-Encoding `{coding}` is not supported: send the body without encoding");
        let mut response = refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, media, error(code::BAD_USER_INPUT, message));
        response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(body::IDENTITY));
        return response;
    }
    let body = match body {
        Ok(body) => body,
        Err(BodyError::Malformed) => {
            let message = "the body is incomplete, or is not chunked as Transfer-Encoding says: each chunk is its size \
                           in hexadecimal digits and as many bytes, each ended by CRLF, and the last has size 0";
            return refuse(StatusCode::BAD_REQUEST, media, error(code::BAD_USER_INPUT, message));
        }
        Err(BodyError::Late) => {
            let error = error(code::BAD_USER_INPUT, "the request body did not arrive in time");
            return refuse(StatusCode::REQUEST_TIMEOUT, media, error);
        }
        Err(BodyError::NoRoom(reason)) => {
            let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, media, reason.into());
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        }
        Err(BodyError::TooLarge(actual)) => {
            let message = format!("a request body may have at most {limit} bytes");
            let mut error = error(code::QUERY_LIMIT_EXCEEDED, message);
            let extensions = error.extensions.get_or_insert_default();
            extensions.set("which", "bytes of the body");
            extensions.set("limit", limit);
            extensions.set("actual", actual);
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, media, error);
        }
    };
    match request::of_body(body.as_ref()) {
        Ok(request) => respond(&server, &caller, accepted, request).await,
        Err(reason) => bad_request(accepted, reason.to_string()),
    }
}

async fn respond(server: &Server, caller: &Parts, accepted: Accepted, request: GraphqlRequest) -> Response {
    let name = request.operation_name.clone();
    let (mut response, Executed { kind, cost, code }) = execute(server, caller, accepted, request).await;
    response.extensions_mut().insert(OperationSummary { name, kind, cost, code });
    response
}

/// What was asked for, what it cost, and the code of its first error, as far as these are known when the answer begins.
#[derive(Clone, Copy, Default)]
struct Executed {
    kind: Option<OperationType>,
    cost: Option<u64>,
    code: Option<&'static str>,
}

/// The answer, and what is to be told of it.
async fn execute(server: &Server, caller: &Parts, accepted: Accepted, request: GraphqlRequest) -> (Response, Executed) {
    let media = accepted.of_errors();
    let refuse_document = |error: ServerError| {
        let response = GraphqlResponse::from_errors(vec![error]);
        let Accepted { whole: None, stream: Some(form) } = accepted else {
            return answer::answer(media, &response, &server.held);
        };
        // browsers do not tell pages what is in an answer that is no stream
        answer_stream(server, caller, form, || stream::iter([Payload::new(&response)]).boxed())
    };
    let (request, named) = match server.persisted.resolve(request) {
        Ok(resolved) => resolved,
        Err(error) => {
            let code = Some(code_of(&GraphqlResponse::from_errors(vec![error.clone()])));
            return (refuse_document(error), Executed { code, ..Executed::default() });
        }
    };
    let include = caller.headers.get(&INCLUDE).and_then(|list| list.to_str().ok()).map(Include::of);
    let somebody = caller.extensions.get::<Arc<Client>>().cloned().unwrap_or_else(|| server.callers.anyone_at(None));
    if !somebody.is_admitted {
        return (callers::refuse(AuthError::Missing), Executed::default());
    }
    let executor = server.executor.on_behalf(somebody, Transport::Http, include.unwrap_or_default());
    let admitted = match executor.admit(request) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            let code = Some(refusal.code());
            return (refuse_document(refusal.into()), Executed { code, ..Executed::default() });
        }
    };
    let kind = admitted.kind();
    let mut executed = Executed { kind, ..Executed::default() };
    if kind == Some(OperationType::Mutation) && caller.method != Method::POST {
        let error = error(code::BAD_USER_INPUT, "send a mutation by POST");
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, media, error);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return (response, executed);
    }
    if kind != Some(OperationType::Query) && !server.origins.allows(&caller.headers) {
        return (refuse(StatusCode::FORBIDDEN, media, foreign_origin()), executed);
    }
    let form = match (kind, accepted) {
        (Some(OperationType::Subscription), Accepted { stream: Some(form), .. })
        | (_, Accepted { whole: None, stream: Some(form) }) => Some(form),
        (Some(OperationType::Subscription), _) => {
            let message = "a subscription is a stream: send it over a websocket, or accept text/event-stream";
            return (refuse(StatusCode::NOT_ACCEPTABLE, media, error(code::BAD_USER_INPUT, message)), executed);
        }
        _ => None,
    };
    if let Some(form) = form {
        let payloads = || {
            let payloads = match executor.through(form.transport()).subscribe(admitted.into_request()) {
                Ok(payloads) => payloads,
                Err(refused) => stream::iter([Payload::Refused(refused)]).boxed(),
            };
            server.persisted.keeping(named, payloads, Payload::is_result)
        };
        return (answer_stream(server, caller, form, payloads), executed);
    }
    // a block that is to be waited for may not have come when the client kept what it has
    if kind == Some(OperationType::Query)
        && include.is_none()
        && !admitted.asks_beside(PERSISTED_QUERY)
        && let Some(unchanged) = caching::unchanged(&server.schema, caller, media, admitted.is_about_schema())
    {
        return (unchanged, executed);
    }
    let keeper = CacheScope::of(&caller.headers);
    if let Some(Known { payload, cost }) = executor.recall(&admitted) {
        executed = Executed { cost: Some(cost), code: Some(code_of(&GraphqlResponse::default())), ..executed };
        let mut answer = answer::written(StatusCode::OK, media, Bytes::from(payload.into_result()));
        caching::tell(&mut answer, Kept::WithSchema, (media, keeper));
        return (answer, executed);
    }
    let account = admitted.account().clone();
    let id = caller.extensions.get::<RequestId>().cloned();
    let held = server.held.clone();
    let (reads, depth, is_about_schema) = (ReadSet::default(), server.limits.cache_depth, admitted.is_about_schema());
    let is_query = kind == Some(OperationType::Query);
    let admitted = if is_query { admitted.noting(reads.clone()) } else { admitted };
    let write = move |mut response: GraphqlResponse| {
        if let Some(RequestId(id)) = &id {
            answer::number_faults(&mut response, id);
        }
        let mut answer = answer::answer(media, &response, &held);
        // whole, without errors, and not about this one execution
        if response.errors.is_empty() && response.extensions.is_empty() && answer.status() == StatusCode::OK {
            let kept = if is_about_schema { Kept::WithSchema } else { Kept::Of(reads.freshness(depth)) };
            caching::tell(&mut answer, kept, (media, keeper));
        }
        (answer, answer::is_refusal(&response), code_of(&response))
    };
    let (answer, is_refused, code) = Box::pin(executor.run_and(admitted, write)).await;
    executed = Executed { cost: Some(account.cost()), code: Some(code), ..executed };
    if let Some(named) = named
        && !is_refused
    {
        server.persisted.keep(named);
    }
    (answer, executed)
}

fn foreign_origin() -> ServerError {
    let message = "pages of this origin may only query; the server's setting server.origins lists the origins that \
                   may do more";
    error(code::FORBIDDEN, message)
}

/// Answers with payloads as they come; nothing is executed for a client that has no slot.
fn answer_stream(
    server: &Server,
    caller: &Parts,
    form: Stream,
    payloads: impl FnOnce() -> BoxStream<'static, Payload>,
) -> Response {
    let form = match form {
        Stream::Events => sse::FORM,
        Stream::Multipart => multipart::FORM,
    };
    let mut response = streams::answer(server, caller, form, payloads);
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// What the client takes of what there is, `None` if that is nothing.
fn takes_something(headers: &HeaderMap) -> Option<Accepted> {
    let accepted = accept::accepted(headers);
    (accepted.whole.is_some() || accepted.stream.is_some()).then_some(accepted)
}

impl Accepted {
    /// How a whole answer is written to a client that may have asked for a stream.
    fn of_errors(self) -> ResponseType {
        self.whole.unwrap_or(ResponseType::Json)
    }
}

fn not_acceptable() -> Response {
    let message = "responses are application/graphql-response+json or application/json: accept one of them";
    refuse(StatusCode::NOT_ACCEPTABLE, ResponseType::Json, error(code::BAD_USER_INPUT, message))
}

fn bad_request(accepted: Accepted, reason: String) -> Response {
    refuse(StatusCode::BAD_REQUEST, accepted.of_errors(), error(code::BAD_USER_INPUT, reason))
}
