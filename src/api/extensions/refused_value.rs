//! The value that the engine refuses, which its messages do not show, and the rule for it.
//!
//! Validation names an argument, a path in it and a type. What it lets through and a resolver's parser refuses, a value that is
//! no object where one belongs, is named like that here.

use std::borrow::Cow;

use async_graphql::parser::parse_query;
use async_graphql::parser::types::ExecutableDocument;
use async_graphql::registry::{MetaType, MetaTypeName, Registry};
use async_graphql::{Pos, ServerError, Variables};
use async_graphql_value::{ConstValue, Value};

use super::sent_arguments::{SentArgument, find_argument, type_at};
use crate::api::scalars::explain;

/// What a client sent: its document and its variables.
pub(crate) struct SentRequest {
    query: String,
    variables: Variables,
}

/// What an error is about: the value, and its type.
#[derive(Default)]
struct RefusedValue<'a> {
    value: Option<Cow<'a, ConstValue>>,
    kind: Option<&'a MetaType>,
}

impl SentRequest {
    pub(crate) fn new(query: &str, variables: &Variables) -> Self {
        Self { query: query.to_owned(), variables: variables.clone() }
    }

    /// Explains the errors of validation. The costs of fields are computed there from values that are refused already: of several
    /// errors those of parsers are dropped.
    pub(crate) fn explain_validation(&self, errors: &mut Vec<ServerError>, registry: &Registry) {
        if errors.iter().any(|error| !is_of_parser(error)) {
            errors.retain(|error| !is_of_parser(error));
        }
        self.explain(errors, registry);
    }

    /// Adds to each error that is about the value of an argument what is wrong with it, and names the argument where a parser
    /// refused its value.
    pub(crate) fn explain(&self, errors: &mut [ServerError], registry: &Registry) {
        if !errors.iter().any(|error| is_of_parser(error) || is_of_argument(error)) {
            return;
        }
        // it was parsed before, so this fails for none
        let Ok(document) = parse_query(&self.query) else { return };
        for error in errors {
            if is_of_parser(error)
                && let Some(message) = self.misplaced(&document, error, registry)
            {
                error.message = message;
            }
            let refused = self.refused(&document, error, registry).unwrap_or_default();
            if let Some(path) = path_of_argument(&error.message) {
                let argument = with_brackets(path);
                error.extensions.get_or_insert_default().set("argument", argument);
            }
            explain(&mut error.message, refused.value.as_deref(), refused.kind);
        }
    }

    /// Explains the errors without a code: those with one are the server's own, or explained.
    pub(crate) fn explain_uncoded(&self, errors: &mut [ServerError], registry: &Registry) {
        for error in errors.iter_mut().filter(|error| error.extensions.is_none()) {
            self.explain(std::slice::from_mut(error), registry);
        }
    }

    fn refused<'a>(
        &'a self,
        document: &'a ExecutableDocument,
        error: &ServerError,
        registry: &'a Registry,
    ) -> Option<RefusedValue<'a>> {
        let path = path_of_argument(&error.message)?;
        let (name, at) = (path.split('.').next()?, *error.locations.first()?);
        // the first step is the name of the argument
        let steps = || path.split('.').skip(1);
        let found = find_argument(document, registry, |argument| {
            (argument.places.contains(&at) && argument.name == name).then_some(argument)
        })?;
        let kind = found.type_name.and_then(|type_name| type_at(registry, type_name, steps()));
        Some(RefusedValue { value: self.value_at(found.value, steps()), kind })
    }

    fn value_at<'a, 's>(
        &'a self,
        mut literal: &'a Value,
        mut steps: impl Iterator<Item = &'s str>,
    ) -> Option<Cow<'a, ConstValue>> {
        loop {
            if let Value::Variable(name) = literal {
                let value = self.variables.get(name)?;
                return steps.try_fold(value, into_const).map(Cow::Borrowed);
            }
            let Some(step) = steps.next() else { break };
            literal = into_literal(literal, step)?;
        }
        self.constant(literal).map(Cow::Owned)
    }

    fn constant(&self, literal: &Value) -> Option<ConstValue> {
        literal.clone().into_const_with(|name| self.variables.get(&name).cloned().ok_or(())).ok()
    }

    /// What validation would say of the value that a parser refuses at this place.
    fn misplaced(&self, document: &ExecutableDocument, error: &ServerError, registry: &Registry) -> Option<String> {
        let at: Pos = *error.locations.first()?;
        find_argument(document, registry, |argument| {
            if !argument.places.contains(&at) {
                return None;
            }
            let SentArgument { name, value, type_name, .. } = argument;
            let (path, kind) = no_object(registry, type_name?, &self.constant(value)?, name.to_owned())?;
            Some(format!("{OF_ARGUMENT}{path}\", expected type \"{kind}\""))
        })
    }
}

/// How the engine's validation begins what it says of the value of an argument.
const OF_ARGUMENT: &str = "Invalid value for argument \"";

fn is_of_argument(error: &ServerError) -> bool {
    path_of_argument(&error.message).is_some()
}

fn path_of_argument(message: &str) -> Option<&str> {
    message.strip_prefix(OF_ARGUMENT)?.split_once('"').map(|(path, _)| path)
}

/// A path as the server's own errors write it: `bins[1]` for `bins.1`.
fn with_brackets(path: &str) -> String {
    let mut written = String::new();
    for step in path.split('.') {
        match step {
            _ if written.is_empty() => written.push_str(step),
            step if step.bytes().all(|digit| digit.is_ascii_digit()) => written.extend(["[", step, "]"]),
            step => written.extend([".", step]),
        }
    }
    written
}

/// Whether the engine's parser of a value refused it.
fn is_of_parser(error: &ServerError) -> bool {
    ["Failed to parse \"", "Expected input type \""].iter().any(|start| error.message.starts_with(start))
}

/// The first value within one that should be an object and is none: its path, and the name of the type that it should have.
fn no_object(registry: &Registry, type_name: &str, value: &ConstValue, path: String) -> Option<(String, String)> {
    let kind = MetaTypeName::concrete_typename(type_name);
    let MetaType::InputObject { input_fields, .. } = registry.types.get(kind)? else { return None };
    match value {
        ConstValue::Null => None,
        ConstValue::List(items) if type_name.starts_with('[') => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| no_object(registry, kind, item, format!("{path}.{index}"))),
        ConstValue::Object(fields) => fields.iter().find_map(|(name, value)| {
            no_object(registry, &input_fields.get(name.as_str())?.ty, value, format!("{path}.{name}"))
        }),
        _ => Some((path, kind.to_owned())),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The values found for errors about arguments on the first line, given by path and column.
    fn found(query: &str, variables: serde_json::Value, path: &str, column: usize) -> Option<serde_json::Value> {
        let sent = SentRequest::new(query, &Variables::from_json(variables));
        let message = format!("Invalid value for argument \"{path}\", expected type \"X\"");
        let error = ServerError::new(message, Some(Pos { line: 1, column }));
        let (document, registry) = (parse_query(query).ok()?, Registry::default());
        let value = sent.refused(&document, &error, &registry)?.value?;
        Some(value.into_owned().into_json().unwrap())
    }

    #[test]
    fn a_path_is_written_as_in_other_errors() {
        for (path, expected) in
            [("a", "a"), ("at.height", "at.height"), ("bins.1", "bins[1]"), ("a.0.b.12", "a[0].b[12]")]
        {
            assert_eq!(with_brackets(path), expected);
        }
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
