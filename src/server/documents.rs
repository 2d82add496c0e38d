//! Parsed documents, kept for the next request with the same text: parsing is more than half of a typical request.
//!
//! Only what the guard admits is kept. What is kept is bounded by bytes; of what is used least, the oldest goes first.

use std::sync::Arc;

use async_graphql::parser::types::ExecutableDocument;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::guard::{self, GuardLimits, Refusal};

/// A parsed document takes about this many times the bytes of its text: a field of six letters is a node of 240 bytes.
const PARSED_PER_TEXT: u64 = 40;
/// What a document weighs at least.
const LEAST: u64 = 1_000;

/// The way from texts to documents.
pub(super) struct Documents {
    limits: GuardLimits,
    parsed: Cache<Arc<str>, Arc<ExecutableDocument>, TextLength>,
}

#[derive(Clone)]
struct TextLength;

impl Weighter<Arc<str>, Arc<ExecutableDocument>> for TextLength {
    fn weight(&self, text: &Arc<str>, _: &Arc<ExecutableDocument>) -> u64 {
        u64::try_from(text.len()).unwrap_or(u64::MAX).saturating_mul(PARSED_PER_TEXT).saturating_add(LEAST)
    }
}

impl Documents {
    /// Documents within these limits, of which about so many bytes are kept.
    pub(super) fn new(limits: GuardLimits, bytes: usize) -> Self {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let typical = usize::try_from(bytes / (PARSED_PER_TEXT * 200)).unwrap_or(usize::MAX);
        Self { limits, parsed: Cache::with_weighter(typical, bytes, TextLength) }
    }

    /// The document of this text, if it may be executed.
    pub(super) fn admit(&self, text: &str) -> Result<ExecutableDocument, Refusal> {
        if let Some(parsed) = self.parsed.get(text) {
            return Ok(ExecutableDocument::clone(&parsed));
        }
        let document = guard::admit(text, &self.limits)?;
        self.parsed.insert(text.into(), Arc::new(document.clone()));
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(document: &ExecutableDocument) -> usize {
        document.operations.iter().map(|(_, operation)| operation.node.selection_set.node.items.len()).sum()
    }

    #[test]
    fn a_document_is_the_same_when_it_is_asked_for_again() {
        let documents = Documents::new(GuardLimits::default(), 1 << 20);
        for _ in 0..2 {
            assert_eq!(fields(&documents.admit("{ a b }").unwrap()), 2);
            assert_eq!(fields(&documents.admit("{ a }").unwrap()), 1);
        }
        assert_eq!(documents.parsed.len(), 2);
    }

    #[test]
    fn what_is_refused_is_not_kept_and_refused_again() {
        let documents = Documents::new(GuardLimits { aliases: 0, ..GuardLimits::default() }, 1 << 20);
        for _ in 0..2 {
            assert!(matches!(documents.admit("{ a: b }"), Err(Refusal::TooLarge { .. })));
            assert!(matches!(documents.admit("{"), Err(Refusal::Syntax(_))));
        }
        assert!(documents.parsed.is_empty());
    }

    #[test]
    fn what_is_kept_stays_within_its_bytes() {
        let documents = Documents::new(GuardLimits::default(), 100_000);
        for number in 0..1_000 {
            documents.admit(&format!("{{ field{number} }}")).unwrap();
        }
        assert!(documents.parsed.weight() <= 100_000);
        assert!(!documents.parsed.is_empty());
    }
}
