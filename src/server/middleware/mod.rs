//! The steps that each request passes, in one ordered list.
//!
//! A step is a value with the state that it uses and nothing else. The steps of a list call each other directly, without
//! the layers of the router: these copy all layers below one for each request. How steps pass on what they know of a
//! request is in `context.rs`.

pub(crate) mod authenticate;
pub(crate) mod compression;
pub(crate) mod context;
pub(crate) mod cors;
pub(crate) mod host;
pub(crate) mod rate_headers;
pub(crate) mod rate_limit;
pub(crate) mod request_log;
pub(crate) mod step;
