//! From an admitted request to its responses. The two verbs are [`execute`] and [`subscribe`].
//!
//! [`execute`]: service::GraphqlService::execute
//! [`subscribe`]: service::GraphqlService::subscribe

pub(crate) mod fanout;
pub(crate) mod metering;
pub(crate) mod operation_queue;
pub(crate) mod payload;
pub(crate) mod pool;
pub(crate) mod service;
pub(crate) mod subscription;
