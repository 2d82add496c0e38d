//! GraphQL over HTTP.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod cache_headers;
pub(crate) mod endpoint;
pub(crate) mod multipart;
pub(crate) mod negotiation;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod sse;
pub(crate) mod stream;
