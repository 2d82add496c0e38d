//! What each request goes through before it is answered.

pub(crate) mod compression;
pub(crate) mod cors;
pub(crate) mod host;
pub(crate) mod rate_limit;
pub(crate) mod request_log;
