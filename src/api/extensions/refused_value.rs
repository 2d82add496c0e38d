//! The value that the engine's validation refused, which its message does not show.

use std::borrow::Cow;

use async_graphql::parser::parse_query;
use async_graphql::parser::types::{Directive, ExecutableDocument, Selection, SelectionSet};
use async_graphql::{Pos, Positioned, ServerError, Variables};
use async_graphql_value::{ConstValue, Name, Value};

/// What a client sent: its document and its variables.
pub(crate) struct SentRequest {
    query: String,
    variables: Variables,
}

impl SentRequest {
    pub(crate) fn new(query: &str, variables: &Variables) -> Self {
        Self { query: query.to_owned(), variables: variables.clone() }
    }

    /// Passes each error with the value that it is about, if it is about the value of an argument.
    pub(crate) fn with_values(
        &self,
        errors: &mut [ServerError],
        mut then: impl FnMut(&mut ServerError, Option<&ConstValue>),
    ) {
        // it was parsed before, so this fails for none
        let document = parse_query(&self.query).ok();
        for error in errors {
            let value = document.as_ref().and_then(|document| self.value(document, error));
            then(error, value.as_deref());
        }
    }

    fn value<'a>(&'a self, document: &'a ExecutableDocument, error: &ServerError) -> Option<Cow<'a, ConstValue>> {
        let (path, _) = error.message.strip_prefix("Invalid value for argument \"")?.split_once('"')?;
        // the first is the name of the argument, at whose place the error is
        let mut steps = path.split('.').skip(1);
        let mut literal = argument_at(document, *error.locations.first()?)?;
        loop {
            if let Value::Variable(name) = literal {
                let value = self.variables.get(name)?;
                return steps.try_fold(value, into_const).map(Cow::Borrowed);
            }
            let Some(step) = steps.next() else { break };
            literal = into_literal(literal, step)?;
        }
        literal.clone().into_const_with(|name| self.variables.get(&name).cloned().ok_or(())).ok().map(Cow::Owned)
    }
}

fn into_literal<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::List(items) => items.get(step.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get(step),
        _ => None,
    }
}

fn into_const<'a>(value: &'a ConstValue, step: &str) -> Option<&'a ConstValue> {
    match value {
        ConstValue::List(items) => items.get(step.parse::<usize>().ok()?),
        ConstValue::Object(fields) => fields.get(step),
        _ => None,
    }
}

/// The value of the argument whose name is at this place of a document.
fn argument_at(document: &ExecutableDocument, at: Pos) -> Option<&Value> {
    let operations = document.operations.iter().map(|(_, operation)| &operation.node);
    let fragments = document.fragments.values().map(|fragment| &fragment.node);
    let (of_operations, of_fragments) = (
        operations.clone().flat_map(|operation| &operation.directives),
        fragments.clone().flat_map(|fragment| &fragment.directives),
    );
    if let Some(found) = in_directives(of_operations.chain(of_fragments), at) {
        return Some(found);
    }
    let mut left: Vec<&SelectionSet> = operations.map(|operation| &operation.selection_set.node).collect();
    left.extend(fragments.map(|fragment| &fragment.selection_set.node));
    while let Some(set) = left.pop() {
        for selection in &set.items {
            let (arguments, directives, inner) = match &selection.node {
                Selection::Field(field) => {
                    (field.node.arguments.as_slice(), &field.node.directives, Some(&field.node.selection_set))
                }
                Selection::InlineFragment(inline) => {
                    (&[][..], &inline.node.directives, Some(&inline.node.selection_set))
                }
                Selection::FragmentSpread(spread) => (&[][..], &spread.node.directives, None),
            };
            if let Some(found) = in_arguments(arguments, at).or_else(|| in_directives(directives.iter(), at)) {
                return Some(found);
            }
            left.extend(inner.map(|inner| &inner.node));
        }
    }
    None
}

fn in_directives<'d>(mut of: impl Iterator<Item = &'d Positioned<Directive>>, at: Pos) -> Option<&'d Value> {
    of.find_map(|directive| in_arguments(&directive.node.arguments, at))
}

fn in_arguments(arguments: &[(Positioned<Name>, Positioned<Value>)], at: Pos) -> Option<&Value> {
    arguments.iter().find(|(name, _)| name.pos == at).map(|(_, value)| &value.node)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The values found for errors about arguments on the first line, given by path and column.
    fn found(query: &str, variables: serde_json::Value, path: &str, column: usize) -> Option<serde_json::Value> {
        let sent = SentRequest::new(query, &Variables::from_json(variables));
        let message = format!("Invalid value for argument \"{path}\", expected type \"X\"");
        let mut errors = [ServerError::new(message, Some(Pos { line: 1, column }))];
        let mut found = None;
        sent.with_values(&mut errors, |_, value| found = value.cloned());
        found.map(|value| value.into_json().unwrap())
    }

    #[test]
    fn the_value_is_found_in_literals_and_variables() {
        let none = || json!({});
        assert_eq!(found("{ a(b: 7) }", none(), "b", 5), Some(json!(7)));
        assert_eq!(found("{ a(b: [1, {c: [2, 3]}]) }", none(), "b.1.c.0", 5), Some(json!(2)));
        assert_eq!(
            found("query($v: X) { a(b: $v) }", json!({ "v": { "c": ["x", "y"] } }), "b.c.1", 18),
            Some(json!("y"))
        );
        assert_eq!(found("query($v: X) { a(b: {c: [$v]}) }", json!({ "v": [5] }), "b.c.0.0", 18), Some(json!(5)));
        assert_eq!(found("{ a @include(if: 4) { ... @skip(if: 5) { b } } }", none(), "if", 14), Some(json!(4)));
        assert_eq!(found("{ a @include(if: 4) { ... @skip(if: 5) { b } } }", none(), "if", 33), Some(json!(5)));
        assert_eq!(found("{ ...F } fragment F on T { a { b(c: null) } }", none(), "c", 34), Some(json!(null)));
    }

    #[test]
    fn no_value_is_found_where_there_is_none() {
        for (query, path, column) in
            [("{ a(b: 7) }", "b", 6), ("{ a(b: 7) }", "b.0", 5), ("{ a(b: $v) }", "b", 5), ("{", "b", 1)]
        {
            assert_eq!(found(query, json!({}), path, column), None, "{query} {path}");
        }
    }
}
