//! A cache of the answers about the schema itself. The schema does not change while the program runs, each tool that opens
//! requests all of it, and watchdogs send `{ __typename }`.
//!
//! Only answers without errors to queries for nothing else are cached, bounded by their bytes.

use async_graphql::Request;
use async_graphql::parser::types::{ExecutableDocument, OperationType, Selection};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::request_key::RequestKey;
use crate::api;

/// Bytes of all cached answers. The whole schema, as tools request it, has some 300,000.
const BYTES: u64 = 8 << 20;
/// The bytes of a typical answer.
const TYPICAL: u64 = 64 << 10;

/// An answer as JSON, and its cost.
#[derive(Clone)]
pub(crate) struct CachedAnswer {
    pub(crate) json: Utf8Bytes,
    pub(crate) cost: u64,
}

/// Answers by their requests.
pub(crate) struct IntrospectionCache(Cache<RequestKey, CachedAnswer, AnswerBytes>);

#[derive(Clone)]
struct AnswerBytes;

impl Weighter<RequestKey, CachedAnswer> for AnswerBytes {
    fn weight(&self, key: &RequestKey, answer: &CachedAnswer) -> u64 {
        u64::try_from(answer.json.len().saturating_add(key.bytes())).unwrap_or(u64::MAX)
    }
}

impl IntrospectionCache {
    pub(crate) fn new() -> Self {
        let typical = usize::try_from(BYTES / TYPICAL).unwrap_or(1);
        Self(Cache::with_weighter(typical, BYTES, AnswerBytes))
    }

    pub(crate) fn get(&self, key: &RequestKey) -> Option<CachedAnswer> {
        self.0.get(key)
    }

    pub(crate) fn insert(&self, key: RequestKey, json: Utf8Bytes, cost: u64) {
        self.0.insert(key, CachedAnswer { json, cost });
    }
}

/// The key of a query for the schema and nothing else; `None` of all other requests.
pub(crate) fn key_of(request: &Request, document: &ExecutableDocument) -> Option<RequestKey> {
    if !request.extensions.is_empty() {
        return None;
    }
    let operation = &api::operation(document, request.operation_name.as_deref())?.node;
    let is_about_schema = |selection: &Selection| match selection {
        Selection::Field(field) => matches!(field.node.name.node.as_str(), "__schema" | "__type" | "__typename"),
        Selection::FragmentSpread(_) | Selection::InlineFragment(_) => false,
    };
    let mut selections = operation.selection_set.node.items.iter();
    if operation.ty == OperationType::Query && selections.all(|selection| is_about_schema(&selection.node)) {
        RequestKey::of(request)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;
    use async_graphql::{Variables, value};

    use super::*;

    fn key(query: &str, operation: Option<&str>) -> Option<RequestKey> {
        let mut request = Request::new(query);
        request.operation_name = operation.map(str::to_owned);
        key_of(&request, &parse_query(query).unwrap())
    }

    #[test]
    fn only_queries_of_the_schema_alone_have_a_key() {
        assert!(key("{ __schema { types { name } } }", None).is_some());
        assert!(key("{ __typename }", None).is_some());
        assert!(key("query Named { __schema { types { name } } }", None).is_some());
        assert!(key("query A { __type(name: \"Block\") { name } } query B { tip { id } }", Some("A")).is_some());
        for (query, operation) in [
            ("{ __schema { types { name } } tip { id } }", None),
            ("{ tip { __typename } }", None),
            ("{ __typename tip { id } }", None),
            ("{ ...F } fragment F on Query { tip { id } }", None),
            ("subscription { __schema { types { name } } }", None),
            ("query A { __type(name: \"Block\") { name } } query B { tip { id } }", Some("B")),
            ("query A { __schema { types { name } } } query B { __schema { types { name } } }", None),
        ] {
            assert!(key(query, operation).is_none(), "{query}");
        }
    }

    #[test]
    fn another_value_of_a_variable_is_another_key() {
        let query = "query ($name: String!) { __type(name: $name) { name } }";
        let document = parse_query(query).unwrap();
        let key = |name: &str| {
            let request = Request::new(query).variables(Variables::from_value(value!({ "name": name })));
            key_of(&request, &document).unwrap()
        };
        assert!(key("Block") == key("Block") && key("Block") != key("Input"));
    }

    #[test]
    fn cached_answers_stay_within_their_bytes() {
        let cache = IntrospectionCache::new();
        for number in 0..1_000 {
            let query = format!("{{ __type(name: \"T{number}\") {{ name }} }}");
            cache.insert(key(&query, None).unwrap(), "x".repeat(100_000).into(), 1);
        }
        assert!(cache.0.weight() <= BYTES && !cache.0.is_empty());
    }
}
