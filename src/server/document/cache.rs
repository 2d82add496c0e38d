//! Parsed documents: kept for the next request with the same text, since parsing is more than half of a typical request,
//! and counted while subscriptions hold them.
//!
//! ```text
//!   text ──► kept? ─────────────────────────────► a copy for the engine, which takes it for its own
//!              └─ no: guard.rs ──► weighed, kept ──►   │ of a subscription, for as long as that is open
//!                                                      └──► Holding: RESOURCE_EXHAUSTED above the bytes of all together
//! ```
//!
//! Only what the guard admits is kept. What is kept is bounded by bytes; of what is used least, the oldest goes first. A
//! parsed document takes 40 to 120 times the bytes of its text, so each is weighed by what it is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, OperationDefinition};
use async_graphql::{Request, ServerError};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::guard::Refusal;
use super::{guard, weight};
use crate::api::code;
use crate::limits::Limits;
use crate::server::http::response::error;
use crate::server::metrics::server_metrics::ServerMetrics;

/// What a document of a common size weighs.
const TYPICAL: u64 = 10_000;

/// The way from texts to documents.
pub(crate) struct Documents {
    limits: Limits,
    parsed: Cache<Arc<str>, Arc<Parsed>, Bytes>,
    held: SubscriptionBudget,
    figures: Option<Arc<ServerMetrics>>,
}

/// A document that was admitted.
struct Parsed {
    document: ExecutableDocument,
    bytes: usize,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Arc<str>, Arc<Parsed>> for Bytes {
    fn weight(&self, text: &Arc<str>, parsed: &Arc<Parsed>) -> u64 {
        u64::try_from(parsed.bytes.saturating_add(text.len())).unwrap_or(u64::MAX)
    }
}

/// The bytes of documents and variables that subscriptions hold, and how many they may.
#[derive(Clone)]
struct SubscriptionBudget {
    bytes: Arc<AtomicUsize>,
    most: usize,
}

/// What one subscription holds of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Holding {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Subscriptions hold as much as they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the documents and variables of all subscriptions may take {limit} bytes together, and this one would make it \
     {actual}: retry later"
)]
pub(crate) struct TooMuchHeld {
    limit: usize,
    actual: usize,
}

impl From<TooMuchHeld> for ServerError {
    fn from(held: TooMuchHeld) -> Self {
        let mut error = error(code::RESOURCE_EXHAUSTED, held.to_string());
        let extensions = error.extensions.get_or_insert_default();
        extensions.set("which", "subscriptionBytes");
        extensions.set("limit", held.limit);
        extensions.set("actual", held.actual);
        error
    }
}

impl Documents {
    /// Documents within these limits.
    pub(crate) fn new(limits: &Limits) -> Self {
        let kept = u64::try_from(limits.document_cache_bytes).unwrap_or(u64::MAX);
        let typical = usize::try_from(kept / TYPICAL).unwrap_or(usize::MAX).max(1);
        let held = SubscriptionBudget { bytes: Arc::default(), most: limits.subscription_bytes };
        Self { limits: *limits, parsed: Cache::with_weighter(typical, kept, Bytes), held, figures: None }
    }

    /// The same, counted there.
    pub(crate) fn counted_in(self, figures: Arc<ServerMetrics>) -> Self {
        Self { figures: Some(figures), ..self }
    }

    /// The document of this text, if it may be executed.
    pub(crate) fn admit(&self, text: &str) -> Result<ExecutableDocument, Refusal> {
        let kept = self.parsed.get(text);
        if let Some(figures) = &self.figures {
            if kept.is_some() { figures.document_hits.inc() } else { figures.document_misses.inc() }
        }
        let parsed = kept.map_or_else(|| self.parse(text), Ok)?;
        Ok(parsed.document.clone())
    }

    /// What is beside the document in a request.
    pub(crate) fn admit_values(&self, request: &Request) -> Result<(), Refusal> {
        guard::admit_values(request, &self.limits)
    }

    /// Counts what a subscription by this request holds while it is open: a copy of its document, which the engine cannot
    /// share with others, and its variables.
    ///
    /// Errors: it would be too much together with all others, or it is refused as such.
    pub(crate) fn hold(&self, request: &Request) -> Result<Holding, ServerError> {
        let parsed = self.parsed.get(request.query.as_str()).map_or_else(|| self.parse(&request.query), Ok)?;
        let bytes = parsed.bytes.saturating_add(weight::of_variables(&request.variables));
        Ok(self.held.take(bytes)?)
    }

    fn parse(&self, text: &str) -> Result<Arc<Parsed>, Refusal> {
        let document = guard::admit(text, &self.limits)?;
        let parsed = Arc::new(Parsed { bytes: weight::of(&document), document });
        self.parsed.insert(text.into(), parsed.clone());
        Ok(parsed)
    }
}

/// The operation that is to be executed: the only one need not be named. `None` if the document has no such operation.
pub(crate) fn operation<'d>(document: &'d ExecutableDocument, name: Option<&str>) -> Option<&'d OperationDefinition> {
    let operation = match (&document.operations, name) {
        (DocumentOperations::Single(operation), _) => operation,
        (DocumentOperations::Multiple(operations), Some(name)) => operations.get(name)?,
        (DocumentOperations::Multiple(operations), None) if operations.len() == 1 => operations.values().next()?,
        (DocumentOperations::Multiple(_), None) => return None,
    };
    Some(&operation.node)
}

impl SubscriptionBudget {
    fn take(&self, bytes: usize) -> Result<Holding, TooMuchHeld> {
        let more = |held: usize| Some(held.saturating_add(bytes)).filter(|held| *held <= self.most);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Holding { all: self.bytes.clone(), bytes }),
            Err(held) => Err(TooMuchHeld { limit: self.most, actual: held.saturating_add(bytes) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(document: &ExecutableDocument) -> usize {
        document.operations.iter().map(|(_, operation)| operation.node.selection_set.node.items.len()).sum()
    }

    /// Documents of which about so many bytes are cached, and so many may belong to subscriptions.
    fn within(document_cache_bytes: usize, subscription_bytes: usize) -> Documents {
        Documents::new(&Limits { document_cache_bytes, subscription_bytes, ..Limits::default() })
    }

    #[test]
    fn a_document_is_the_same_when_it_is_asked_for_again() {
        let documents = within(1 << 20, 0);
        for _ in 0..2 {
            assert_eq!(fields(&documents.admit("{ a b }").unwrap()), 2);
            assert_eq!(fields(&documents.admit("{ a }").unwrap()), 1);
        }
        assert_eq!(documents.parsed.len(), 2);
    }

    #[test]
    fn what_is_refused_is_not_kept_and_refused_again() {
        let documents = Documents::new(&Limits { aliases: 0, ..Limits::default() });
        for _ in 0..2 {
            assert!(matches!(documents.admit("{ a: b }"), Err(Refusal::TooLarge { .. })));
            assert!(matches!(documents.admit("{"), Err(Refusal::Syntax(_))));
        }
        assert!(documents.parsed.is_empty());
    }

    #[test]
    fn what_is_kept_stays_within_its_bytes() {
        let documents = within(100_000, 0);
        for number in 0..1_000 {
            documents.admit(&format!("{{ field{number} }}")).unwrap();
        }
        assert!(documents.parsed.weight() <= 100_000);
        assert!(!documents.parsed.is_empty());
    }

    #[test]
    fn what_subscriptions_hold_stays_within_its_bytes_and_what_is_beyond_is_told_with_figures() {
        let request = || Request::new("subscription { newBlock { hash } }");
        let one = within(0, usize::MAX).hold(&request()).unwrap().bytes;
        let documents = within(1 << 20, 2 * one);
        let (first, _second) = (documents.hold(&request()).unwrap(), documents.hold(&request()).unwrap());
        let refused = documents.hold(&request()).unwrap_err().extensions.unwrap();
        assert_eq!(refused.get("code"), Some(&"RESOURCE_EXHAUSTED".into()));
        assert_eq!((refused.get("limit"), refused.get("actual")), (Some(&(2 * one).into()), Some(&(3 * one).into())));
        drop(first);
        let _third = documents.hold(&request()).unwrap();
        let with_variables =
            request().variables(async_graphql::Variables::from_json(serde_json::json!({ "a": [1, 2] })));
        assert!(documents.hold(&with_variables).is_err());
    }
}
