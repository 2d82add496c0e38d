//! HTTP to the node: one pool of kept-alive connections for RPC and REST, a time and a size limit on every response.
//! Never uses a proxy, never follows a redirect.

#[expect(clippy::module_inception, reason = "the type this module is about")]
mod http;
mod resolver;
mod single_write;

pub(super) use http::{Http, HttpResponse, ResponseLimits};
