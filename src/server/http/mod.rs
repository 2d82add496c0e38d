//! GraphQL over HTTP, by the specification of that name: one request, one answer, no batches.
//!
//! ```text
//!   endpoint.rs        GET and POST /graphql
//!   ├ media_type.rs    the media type of the answer        406
//!   ├ body.rs          the bytes of a POST                 400 408 413 415
//!   ├ request.rs       the GraphQL request in them         400
//!   ├ (crate::execution::document)  the guard             QUERY_LIMIT_EXCEEDED, …
//!   ├ (crate::execution::service)   the engine
//!   ├ response.rs      status and bytes of the answer
//!   ├ cache_headers.rs how long it may be cached           304
//!   ├ tip_header.rs    the block that it is from
//!   └ stream.rs        or results one after another, as sse.rs or multipart.rs
//! ```
//!
//! Any page that a browser shows can send a GET, or a POST of a form, without a preflight. So a GET is for queries only,
//! which change nothing and whose answers a page cannot read without permission ([`Origins`]), a POST must be JSON, which
//! browsers send for a page only with permission, and an operation that is no query needs an allowed origin even then.
//!
//! [`Origins`]: crate::server::middleware::cors::Origins

pub(crate) mod body;
pub(crate) mod cache_headers;
pub(crate) mod encoding;
pub(crate) mod endpoint;
pub(crate) mod media_type;
pub(crate) mod multipart;
pub(crate) mod negotiation;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod sse;
pub(crate) mod stream;
pub(crate) mod tip_header;
