//! The GraphQL endpoint: from an HTTP request to its response.

use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::parser::types::OperationType;
use async_graphql::{Request as GraphqlRequest, Response as GraphqlResponse, ServerError};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT_ENCODING, ALLOW, RETRY_AFTER, UPGRADE, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;

use super::body::{self, BodyError, receive};
use super::cache_headers::{self, CacheScope, Validity};
use super::media_type::{self, AcceptedTypes, ResponseType, StreamType};
use super::request::{self, RequestError};
use super::response::{add_request_id, refuse, refuse_as_json, respond, with_json};
use super::stream::EventStreams;
use super::{multipart, sse, tip_header};
use crate::api::{self, Freshness, Include, LastEventId, ReadSet, Schema, code};
use crate::execution::document::admission::{Admission, Admitted, RequestSender};
use crate::execution::document::persisted::{EXTENSION as PERSISTED_QUERY, Persisted};
use crate::execution::error::{error, is_refusal, outcome};
use crate::execution::memory::MemoryBudget;
use crate::execution::payload::{ClientPayload, Payload};
use crate::execution::service::{Encoded, Executed, GraphqlService, QueryAnswer};
use crate::limits::Limits;
use crate::metrics::server_metrics::{OK, Transport};
use crate::server::auth::authenticator::{AuthError, Authenticator};
use crate::server::connection::min_rate::MinRate;
use crate::server::middleware::authenticate;
use crate::server::middleware::context::{RequestContext, RequestSummary};
use crate::server::middleware::cors::Origins;
use crate::server::websocket::upgrade::Websockets;

/// The header that names what a response includes beside its data: `usage`, `snapshot`, or both.
const INCLUDE: HeaderName = HeaderName::from_static("x-btcgraph-include");

/// The header with the id of the last event of server-sent events.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What GET and POST use.
pub(crate) struct GraphqlEndpoint {
    pub(crate) admission: Arc<Admission>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) limits: Limits,
    pub(crate) memory: MemoryBudget,
    pub(crate) origins: Arc<Origins>,
    pub(crate) persisted: Arc<Persisted>,
    pub(crate) schema: Schema,
    pub(crate) service: GraphqlService,
    pub(crate) streams: EventStreams,
    pub(crate) websockets: Arc<Websockets>,
}

/// Whether a user opens the endpoint in a browser, without a query.
pub(crate) fn is_visit(request: &Request) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let query = || request::of_query_string(request.uri().query().unwrap_or_default());
    is_read
        && !request.headers().contains_key(UPGRADE)
        && media_type::prefers_page(request.headers())
        && matches!(query(), Err(RequestError::NoQuery))
}

/// Answers a query in the query string, or makes the connection a websocket.
pub(crate) async fn get(State(endpoint): State<Arc<GraphqlEndpoint>>, request: Request) -> Response {
    let upgrade = request.headers().get(UPGRADE).and_then(|protocol| protocol.to_str().ok());
    if upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
        // browsers open websockets for any page
        if !endpoint.origins.allows(request.headers()) {
            return refuse_as_json(StatusCode::FORBIDDEN, foreign_origin());
        }
        return endpoint.websockets.clone().upgrade(request);
    }
    let (parts, _) = request.into_parts();
    let Some(accepted) = accepted(&parts) else { return not_acceptable() };
    match request::of_query_string(parts.uri.query().unwrap_or_default()) {
        Ok(request) => endpoint.answer(&parts, accepted, request).await,
        Err(reason) => bad_request(accepted.of_errors(), reason.to_string()),
    }
}

/// Answers the request in the body.
pub(crate) async fn post(State(endpoint): State<Arc<GraphqlEndpoint>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match endpoint.receive(&parts, body).await {
        Ok((accepted, request)) => endpoint.answer(&parts, accepted, request).await,
        Err(refusal) => *refusal,
    }
}

impl GraphqlEndpoint {
    /// The request in a body, once the whole body has arrived. Errors: a refusal.
    async fn receive(&self, parts: &Parts, body: Body) -> Result<(AcceptedTypes, GraphqlRequest), Box<Response>> {
        let limit = self.limits.body_bytes;
        let body = receive(&parts.headers, body, limit, MinRate::of_bodies(&self.limits), &self.memory).await;
        let Some(accepted) = accepted(parts) else { return Err(Box::new(not_acceptable())) };
        let media = accepted.of_errors();
        let refuse = |status, error| Err(Box::new(refuse(status, media, error)));
        if !request::is_json(&parts.headers) {
            let message = "send the request as application/json, in UTF-8";
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, error(code::BAD_USER_INPUT, message));
        }
        if let Some(coding) = body::unknown_transfer_coding(&parts.headers) {
            let message = format!("Transfer-Encoding `{coding}` is not supported: send the body as it is, or chunked");
            return refuse(StatusCode::NOT_IMPLEMENTED, error(code::BAD_USER_INPUT, message));
        }
        if let Some(coding) = body::unknown_coding(&parts.headers) {
            let message = format!("Content-Encoding `{coding}` is not supported: send the body without encoding");
            let response = refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, error(code::BAD_USER_INPUT, message));
            return response.map_err(|response: Box<Response>| {
                Box::new(with_header(*response, ACCEPT_ENCODING, HeaderValue::from_static(body::IDENTITY)))
            });
        }
        let body = match body {
            Ok(body) => body,
            Err(BodyError::Malformed) => {
                let message = "the body is incomplete, or is not chunked as Transfer-Encoding says: each chunk is its \
                               size in hexadecimal digits and as many bytes, each ended by CRLF, and the last has size 0";
                return refuse(StatusCode::BAD_REQUEST, error(code::BAD_USER_INPUT, message));
            }
            Err(BodyError::Late) => {
                let message = "the request body did not arrive in time";
                return refuse(StatusCode::REQUEST_TIMEOUT, error(code::BAD_USER_INPUT, message));
            }
            Err(BodyError::NoMemory(reason)) => {
                let response = refuse(StatusCode::SERVICE_UNAVAILABLE, reason);
                return response
                    .map_err(|response| Box::new(with_header(*response, RETRY_AFTER, HeaderValue::from_static("1"))));
            }
            Err(BodyError::TooLarge(actual)) => {
                let message = format!("a request body may have at most {limit} bytes");
                let mut error = error(code::QUERY_LIMIT_EXCEEDED, message);
                let extensions = error.extensions.get_or_insert_default();
                extensions.set("which", "bodyBytes");
                extensions.set("limit", limit);
                extensions.set("actual", actual);
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, error);
            }
        };
        match request::of_body(body.as_ref()) {
            Ok(request) => Ok((accepted, request)),
            Err(reason) => Err(Box::new(bad_request(media, reason.to_string()))),
        }
    }

    /// The response, with a [`RequestSummary`] for the log.
    async fn answer(&self, parts: &Parts, accepted: AcceptedTypes, request: GraphqlRequest) -> Response {
        let operation = request.operation_name.clone();
        let (mut response, summary) = self.execute(parts, accepted, request).await;
        response.extensions_mut().insert(RequestSummary { operation, ..summary });
        response
    }

    async fn execute(
        &self,
        parts: &Parts,
        accepted: AcceptedTypes,
        request: GraphqlRequest,
    ) -> (Response, RequestSummary) {
        let media = accepted.of_errors();
        let context = parts.extensions.get::<RequestContext>().cloned().unwrap_or_default();
        let refuse_document = |error: ServerError| {
            let response = GraphqlResponse::from_errors(vec![error]);
            let summary = RequestSummary { code: Some(outcome(&response)), ..RequestSummary::default() };
            let AcceptedTypes { whole: None, stream: Some(form) } = accepted else {
                return (respond(media, &response, &self.memory).0, summary);
            };
            // browsers do not show pages a response that is no stream
            (self.stream(&context, form, || stream::iter([Payload::new(&response).into()]).boxed()), summary)
        };
        let count_and_refuse = |error: ServerError| {
            let transport = match accepted {
                AcceptedTypes { whole: None, stream: Some(form) } => form_of(form).transport,
                _ => Transport::Http,
            };
            self.service.count_refused(transport, &error);
            refuse_document(error)
        };
        let (request, unstored) = match self.persisted.resolve(request) {
            Ok(resolved) => resolved,
            Err(error) => return count_and_refuse(error),
        };
        let include = parts.headers.get(&INCLUDE).and_then(|list| list.to_str().ok()).map(Include::of);
        let client = context.client.clone().unwrap_or_else(|| self.authenticator.anonymous_at(None));
        if !client.is_admitted {
            return (authenticate::refuse(AuthError::MissingToken), RequestSummary::default());
        }
        let sender = RequestSender { client, transport: Transport::Http, include: include.unwrap_or_default() };
        let mut admitted = match self.admission.admit(request, sender) {
            Ok(admitted) => admitted,
            Err(refusal) => return refuse_document(refusal.into()),
        };
        let kind = admitted.kind;
        let summary = RequestSummary { kind, ..RequestSummary::default() };
        if kind == Some(OperationType::Mutation) && parts.method != Method::POST {
            let error = error(code::BAD_USER_INPUT, "send a mutation by POST");
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, media, error);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return (response, summary);
        }
        if kind != Some(OperationType::Query) && !self.origins.allows(&parts.headers) {
            return (refuse(StatusCode::FORBIDDEN, media, foreign_origin()), summary);
        }
        let carried = match tip_header::carried(&parts.headers) {
            Ok(carried) => carried,
            Err(error) => return count_and_refuse(error),
        };
        if let Some(carried) = carried {
            admitted.request.data.insert(carried);
        }
        let form = match (kind, accepted) {
            (Some(OperationType::Subscription), AcceptedTypes { stream: Some(form), .. })
            | (_, AcceptedTypes { whole: None, stream: Some(form) }) => Some(form),
            (Some(OperationType::Subscription), _) => {
                let message = "a subscription is a stream: send it over a websocket, or accept text/event-stream";
                return (refuse(StatusCode::NOT_ACCEPTABLE, media, error(code::BAD_USER_INPUT, message)), summary);
            }
            _ => None,
        };
        if let Some(form) = form {
            if form == StreamType::Events
                && let Some(cursor) = last_event_id(&parts.headers)
                && api::has_cursors(&mut admitted.request)
            {
                admitted.request.data.insert(LastEventId(cursor));
            }
            let payloads = || {
                admitted.sender.transport = form_of(form).transport;
                let payloads = match self.service.subscribe(admitted, None) {
                    Ok(payloads) => payloads,
                    Err(refused) => stream::iter([Payload::Refused(refused).into()]).boxed(),
                };
                self.persisted.store_after_result(unstored, payloads, ClientPayload::is_result)
            };
            return (self.stream(&context, form, payloads), summary);
        }
        // the client may have cached an answer from before the block that the extension waits for
        if kind == Some(OperationType::Query)
            && include.is_none()
            && !admitted.has_extension_beside(PERSISTED_QUERY)
            && carried.is_none_or(|carried| self.schema.has_reached(carried))
            && let Some(unchanged) = cache_headers::unchanged(&self.schema, parts, media, admitted.is_about_schema())
        {
            return (unchanged, summary);
        }
        let Executed { answer: Whole { response, is_refused }, outcome, cost } =
            self.answer_whole(admitted, media, parts, &context).await;
        if let Some(unstored) = unstored
            && !is_refused
        {
            self.persisted.store(unstored);
        }
        (response, RequestSummary { cost: Some(cost), code: Some(outcome), ..summary })
    }

    /// Executes a query or a mutation, and encodes its answer where it is executed.
    async fn answer_whole(
        &self,
        admitted: Admitted,
        media: ResponseType,
        parts: &Parts,
        context: &RequestContext,
    ) -> Executed<Whole> {
        let (id, memory, scope) = (context.id.clone(), self.memory.clone(), CacheScope::of(&parts.headers));
        let (reads, depth) = (ReadSet::default(), self.limits.cache_depth);
        let (is_query, is_about_schema) = (admitted.kind == Some(OperationType::Query), admitted.is_about_schema());
        let admitted = if is_query { admitted.with_read_set(reads.clone()) } else { admitted };
        let schema = self.schema.clone();
        let encode = move |answer: QueryAnswer| match answer {
            QueryAnswer::Cached(json) => {
                let mut response = with_json(StatusCode::OK, media, Bytes::from(json));
                cache_headers::add(&mut response, Validity::WithSchema, (media, scope));
                Encoded { answer: Whole { response, is_refused: false }, outcome: OK }
            }
            QueryAnswer::Response(mut executed) => {
                if let Some(id) = &id {
                    add_request_id(&mut executed, id);
                }
                let (mut response, outcome) = respond(media, &executed, &memory);
                // whole, without errors, and not about this one execution
                let is_cacheable = executed.errors.is_empty() && executed.extensions.is_empty();
                let validity =
                    if is_about_schema { Validity::WithSchema } else { Validity::Of(reads.freshness(depth)) };
                let may_store = is_cacheable && response.status() == StatusCode::OK;
                if may_store {
                    cache_headers::add(&mut response, validity, (media, scope));
                }
                // a mutation answers from states of its own, of which none is newer
                let tip = if is_query { reads.tip() } else { schema.readiness().indexed_tip };
                if let Some(tip) = tip.filter(|_| !(may_store && validity == Validity::Of(Freshness::Immutable))) {
                    tip_header::add(&mut response, api::CarriedTip(tip));
                }
                Encoded { answer: Whole { response, is_refused: is_refusal(&executed) }, outcome }
            }
        };
        self.service.execute(admitted, encode).await
    }

    /// Answers with payloads as they come; without a slot nothing is executed.
    fn stream(
        &self,
        context: &RequestContext,
        form: StreamType,
        payloads: impl FnOnce() -> BoxStream<'static, ClientPayload>,
    ) -> Response {
        let mut response = self.streams.open(context.address, form_of(form), payloads);
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        response
    }
}

/// The answer to a query or a mutation.
struct Whole {
    response: Response,
    is_refused: bool,
}

/// The cursor of the last event that a client of server-sent events has.
fn last_event_id(headers: &HeaderMap) -> Option<String> {
    headers.get(LAST_EVENT_ID)?.to_str().ok().filter(|cursor| !cursor.is_empty()).map(str::to_owned)
}

fn form_of(form: StreamType) -> super::stream::Form {
    match form {
        StreamType::Events => sse::FORM,
        StreamType::Multipart => multipart::FORM,
    }
}

fn foreign_origin() -> ServerError {
    let message = "pages of this origin may only query; the server's setting server.origins lists the origins that \
                   may do more";
    error(code::FORBIDDEN, message)
}

/// The media types that the client accepts, `None` for none that the server has.
fn accepted(parts: &Parts) -> Option<AcceptedTypes> {
    let accepted = media_type::accepted(&parts.headers);
    (accepted.whole.is_some() || accepted.stream.is_some()).then_some(accepted)
}

fn not_acceptable() -> Response {
    let message = "responses are application/graphql-response+json or application/json: accept one of them";
    refuse(StatusCode::NOT_ACCEPTABLE, ResponseType::Json, error(code::BAD_USER_INPUT, message))
}

fn bad_request(media: ResponseType, reason: String) -> Response {
    refuse(StatusCode::BAD_REQUEST, media, error(code::BAD_USER_INPUT, reason))
}

fn with_header(mut response: Response, name: HeaderName, value: HeaderValue) -> Response {
    response.headers_mut().insert(name, value);
    response
}
