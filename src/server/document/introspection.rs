//! Answers about the schema itself, kept as they are written: the schema does not change while the program runs, each tool
//! that opens asks for all of it, and `{ __typename }` is what watchers ask to see whether somebody answers.
//!
//! Only what asks for nothing else is kept, and was answered without an error. What is kept is bounded by bytes.

use async_graphql::Request;
use async_graphql::parser::types::{ExecutableDocument, OperationType, Selection};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::cache;
use crate::server::execution::fanout::Key;
use crate::server::execution::payload::Payload;

/// Bytes of all answers that are kept. The whole schema, as tools ask for it, has some 300,000.
const BYTES: u64 = 8 << 20;
/// Of which one has about so many.
const TYPICAL: u64 = 64 << 10;

/// An answer, and what it cost.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) payload: Payload,
    pub(crate) cost: u64,
}

pub(crate) struct Introspection(Cache<Key, Known, Length>);

#[derive(Clone)]
struct Length;

impl Weighter<Key, Known> for Length {
    fn weight(&self, key: &Key, known: &Known) -> u64 {
        u64::try_from(known.payload.bytes().saturating_add(key.bytes())).unwrap_or(u64::MAX)
    }
}

impl Introspection {
    pub(crate) fn new() -> Self {
        let typical = usize::try_from(BYTES / TYPICAL).unwrap_or(1);
        Self(Cache::with_weighter(typical, BYTES, Length))
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Known> {
        self.0.get(key)
    }

    pub(crate) fn keep(&self, key: Key, payload: Payload, cost: u64) {
        self.0.insert(key, Known { payload, cost });
    }
}

/// What the answer to this request would be kept under; `None` if it asks for something else than the schema, or not only
/// for that.
pub(crate) fn key_of(request: &Request, document: &ExecutableDocument) -> Option<Key> {
    if !request.extensions.is_empty() {
        return None;
    }
    let operation = cache::operation(document, request.operation_name.as_deref())?;
    let about_the_schema = |selection: &Selection| match selection {
        Selection::Field(field) => matches!(field.node.name.node.as_str(), "__schema" | "__type" | "__typename"),
        Selection::FragmentSpread(_) | Selection::InlineFragment(_) => false,
    };
    let selections = &operation.selection_set.node.items;
    let is_it =
        operation.ty == OperationType::Query && selections.iter().all(|selection| about_the_schema(&selection.node));
    if is_it { Key::of(request) } else { None }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;
    use async_graphql::{Variables, value};

    use super::*;

    fn key(query: &str, operation: Option<&str>) -> Option<Key> {
        let mut request = Request::new(query);
        request.operation_name = operation.map(str::to_owned);
        key_of(&request, &parse_query(query).unwrap())
    }

    #[test]
    fn only_what_asks_for_the_schema_and_nothing_else_is_kept() {
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
    fn another_value_of_a_variable_is_another_question() {
        let query = "query ($name: String!) { __type(name: $name) { name } }";
        let document = parse_query(query).unwrap();
        let key = |name: &str| {
            let request = Request::new(query).variables(Variables::from_value(value!({ "name": name })));
            key_of(&request, &document).unwrap()
        };
        assert!(key("Block") == key("Block") && key("Block") != key("Input"));
    }

    #[test]
    fn what_is_kept_stays_within_its_bytes() {
        let known = Introspection::new();
        for number in 0..1_000 {
            let query = format!("{{ __type(name: \"T{number}\") {{ name }} }}");
            known.keep(key(&query, None).unwrap(), Payload::Result("x".repeat(100_000).into()), 1);
        }
        assert!(known.0.weight() <= BYTES && !known.0.is_empty());
    }
}
