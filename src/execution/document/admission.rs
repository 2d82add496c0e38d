//! From a request to an admitted one: its values are bounded, its document is parsed, its client is known.

use std::sync::Arc;

use async_graphql::parser::types::OperationType;
use async_graphql::{Request, Value};

use super::cache::DocumentCache;
use super::refusal::RequestRefusal;
use super::request_key::RequestKey;
use super::{guard, introspection};
use crate::api::{self, Account, Include, ReadSet};
use crate::execution::client::Client;
use crate::limits::Limits;
use crate::metrics::server_metrics::{ServerMetrics, Transport};

/// The request extension that names what a response includes beside its data, as the header `X-Btcgraph-Include` does: for
/// transports without headers.
const INCLUDE: &str = "include";

/// The sender of a request, and the transport.
#[derive(Clone)]
pub(crate) struct RequestSender {
    pub(crate) client: Arc<Client>,
    pub(crate) transport: Transport,
    pub(crate) include: Include,
}

/// Admits requests.
pub(crate) struct Admission {
    pub(crate) documents: DocumentCache,
    limits: Limits,
    metrics: Arc<ServerMetrics>,
}

/// A request that may be executed.
pub(crate) struct Admitted {
    pub(crate) request: Request,
    pub(crate) sender: RequestSender,
    /// Computes and pays its cost.
    pub(crate) account: Arc<Account>,
    /// `None` if the request does not say which of its operations is meant, or names one that it does not have. That is for
    /// the engine to refuse.
    pub(crate) kind: Option<OperationType>,
    /// The key of its answer among those about the schema, if it is for the schema and nothing else.
    pub(crate) schema_key: Option<RequestKey>,
}

impl Admission {
    pub(crate) fn new(limits: &Limits, metrics: Arc<ServerMetrics>) -> Self {
        Self { documents: DocumentCache::new(limits, metrics.clone()), limits: *limits, metrics }
    }

    /// Admits a request.
    ///
    /// Errors: the guard refuses it.
    pub(crate) fn admit(&self, mut request: Request, sender: RequestSender) -> Result<Admitted, RequestRefusal> {
        let count = |refusal: &RequestRefusal| self.metrics.operation(sender.transport, refusal.code());
        guard::admit_values(&request, &self.limits).inspect_err(count)?;
        let document = self.documents.get(&request.query).inspect_err(count)?;
        let kind = api::operation(&document, request.operation_name.as_deref()).map(|operation| operation.node.ty);
        let by_extension = match request.extensions.get(INCLUDE) {
            Some(Value::String(list)) => Include::of(list),
            _ => Include::default(),
        };
        let include = sender.include.or(by_extension);
        let has_data_alone = include == Include::default();
        let schema_key = if has_data_alone { introspection::key_of(&request, &document) } else { None };
        request.set_parsed_query(document);
        let account = Arc::new(sender.client.account(include));
        Ok(Admitted { request, sender, account, kind, schema_key })
    }
}

impl Admitted {
    /// Whether its answer is the same while the server runs.
    pub(crate) fn is_about_schema(&self) -> bool {
        self.schema_key.is_some()
    }

    /// Records what the answer depends on.
    pub(crate) fn with_read_set(self, reads: ReadSet) -> Self {
        Self { request: self.request.data(reads), ..self }
    }

    /// Whether it has extensions other than this one. These may request what the answer would otherwise not have.
    pub(crate) fn has_extension_beside(&self, extension: &str) -> bool {
        self.request.extensions.keys().any(|name| name != extension)
    }
}
