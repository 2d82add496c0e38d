//! From an admitted document to responses.

pub(crate) mod fanout;
pub(crate) mod metering;
pub(crate) mod payload;
pub(crate) mod pool;
pub(crate) mod service;
pub(crate) mod subscription;
