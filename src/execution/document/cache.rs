//! Parsed documents, cached for the next request with the same text: parsing is more than half of a typical request.
//!
//! Only admitted documents are cached, bounded by their bytes; the least used are evicted first. The engine takes each
//! document for its own, so a request has a copy, and a subscription keeps its copy while it is open.

use std::sync::Arc;

use async_graphql::Request;
use async_graphql::parser::types::ExecutableDocument;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::refusal::RequestRefusal;
use super::{guard, weight};
use crate::limits::Limits;
use crate::metrics::server_metrics::ServerMetrics;

/// The bytes of a typical document.
const TYPICAL: u64 = 10_000;

/// Documents by their texts.
pub(crate) struct DocumentCache {
    limits: Limits,
    parsed: Cache<Arc<str>, Arc<Parsed>, Bytes>,
    metrics: Arc<ServerMetrics>,
}

/// An admitted document and its size.
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

impl DocumentCache {
    pub(crate) fn new(limits: &Limits, metrics: Arc<ServerMetrics>) -> Self {
        let bytes = u64::try_from(limits.document_cache_bytes).unwrap_or(u64::MAX);
        let typical = usize::try_from(bytes / TYPICAL).unwrap_or(usize::MAX).max(1);
        Self { limits: *limits, parsed: Cache::with_weighter(typical, bytes, Bytes), metrics }
    }

    /// The document of this text.
    ///
    /// Errors: the guard refuses it.
    pub(crate) fn get(&self, text: &str) -> Result<ExecutableDocument, RequestRefusal> {
        let cached = self.parsed.get(text);
        let counter = if cached.is_some() { &self.metrics.document_hits } else { &self.metrics.document_misses };
        counter.inc();
        let parsed = cached.map_or_else(|| self.parse(text), Ok)?;
        Ok(parsed.document.clone())
    }

    /// The bytes that a subscription by this request takes while it is open: a copy of its document and its variables.
    ///
    /// Errors: the guard refuses it.
    pub(crate) fn bytes_of(&self, request: &Request) -> Result<usize, RequestRefusal> {
        let parsed = self.parsed.get(request.query.as_str()).map_or_else(|| self.parse(&request.query), Ok)?;
        Ok(parsed.bytes.saturating_add(weight::of_variables(&request.variables)))
    }

    fn parse(&self, text: &str) -> Result<Arc<Parsed>, RequestRefusal> {
        let document = guard::admit(text, &self.limits)?;
        let parsed = Arc::new(Parsed { bytes: weight::of(&document), document });
        self.parsed.insert(text.into(), parsed.clone());
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn fields(document: &ExecutableDocument) -> usize {
        document.operations.iter().map(|(_, operation)| operation.node.selection_set.node.items.len()).sum()
    }

    fn cache(limits: &Limits) -> DocumentCache {
        DocumentCache::new(limits, Metrics::new().unwrap().server().clone())
    }

    #[test]
    fn a_cached_document_is_that_of_its_text() {
        let cache = cache(&Limits { document_cache_bytes: 1 << 20, ..Limits::default() });
        for _ in 0..2 {
            assert_eq!(fields(&cache.get("{ a b }").unwrap()), 2);
            assert_eq!(fields(&cache.get("{ a }").unwrap()), 1);
        }
        assert_eq!(cache.parsed.len(), 2);
    }

    #[test]
    fn refused_documents_are_not_cached() {
        let cache = cache(&Limits { aliases: 0, ..Limits::default() });
        for _ in 0..2 {
            assert!(matches!(cache.get("{ a: b }"), Err(RequestRefusal::TooLarge { .. })));
            assert!(matches!(cache.get("{"), Err(RequestRefusal::Syntax(_))));
        }
        assert!(cache.parsed.is_empty());
    }

    #[test]
    fn cached_documents_stay_within_their_bytes() {
        let cache = cache(&Limits { document_cache_bytes: 100_000, ..Limits::default() });
        for number in 0..1_000 {
            cache.get(&format!("{{ field{number} }}")).unwrap();
        }
        assert!(cache.parsed.weight() <= 100_000);
        assert!(!cache.parsed.is_empty());
    }

    #[test]
    fn variables_add_to_the_bytes_of_a_subscription() {
        let cache = cache(&Limits::default());
        let request = || Request::new("subscription { newBlock { hash } }");
        let variables = async_graphql::Variables::from_json(serde_json::json!({ "a": [1, 2] }));
        let (without, with) = (cache.bytes_of(&request()), cache.bytes_of(&request().variables(variables)));
        assert!(without.unwrap() < with.unwrap());
    }
}
