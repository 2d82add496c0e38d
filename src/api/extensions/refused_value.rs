//! The value that the engine refuses, which its messages do not show, and the rule for it.
//!
//! Validation names an argument, a path in it and a type. It lets a value through that is no object where one belongs, and a variable
//! without a value within one that needs it, and each field with it would fail by itself: both are found here, once, while the
//! document is read.

use std::borrow::Cow;

use async_graphql::indexmap::IndexMap;
use async_graphql::parser::parse_query;
use async_graphql::parser::types::ExecutableDocument;
use async_graphql::registry::{MetaInputValue, MetaType, MetaTypeName, Registry};
use async_graphql::{ServerError, Variables};
use async_graphql_value::{ConstValue, Value};

use super::longest_list::{LongestList, longest_list};
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

    /// The list with the most rows if every page is full; of this document, if another than the one that was sent is counted.
    pub(crate) fn longest_list(
        &self,
        counted: Option<&ExecutableDocument>,
        registry: &Registry,
    ) -> Option<LongestList> {
        match counted {
            Some(document) => longest_list(document, &self.variables, registry),
            None => longest_list(&parse_query(&self.query).ok()?, &self.variables, registry),
        }
    }

    /// What validation would say of the first value that is no object where one belongs.
    pub(crate) fn misplaced(&self, document: &ExecutableDocument, registry: &Registry) -> Option<ServerError> {
        find_argument(document, registry, |SentArgument { places: [_, at, _], name, value, type_name }| {
            let type_name = type_name.filter(|type_name| input_fields(registry, type_name).is_some())?;
            let (path, kind) = no_object(registry, type_name, &self.constant(value)?, name.to_owned())?;
            Some(ServerError::new(format!("{OF_ARGUMENT}{path}\", expected type \"{kind}\""), Some(at)))
        })
    }

    /// What validation would say of the first variable without a value that is an item of a list, or a field of an input, which must
    /// not be null. Of a document with several operations, it is not known which of them the variables are for.
    pub(crate) fn unset_variable(&self, document: &ExecutableDocument, registry: &Registry) -> Option<ServerError> {
        if document.operations.iter().nth(1).is_some() {
            return None;
        }
        find_argument(document, registry, |SentArgument { places: [_, at, _], name, value, type_name }| {
            // what is missing as a whole is reported by the engine
            let whole = matches!(value, Value::Variable(_));
            let type_name = type_name.filter(|_| !whole)?;
            let (path, kind, variable) = self.unset_variable_within(registry, type_name, value, name.to_owned())?;
            let message = format!("{OF_ARGUMENT}{path}\", expected type \"{kind}\": ${variable} has no value");
            Some(ServerError::new(message, Some(at)))
        })
    }

    fn unset_variable_within<'a>(
        &self,
        registry: &Registry,
        type_name: &str,
        value: &'a Value,
        path: String,
    ) -> Option<(String, String, &'a str)> {
        let nullable = type_name.strip_suffix('!').unwrap_or(type_name);
        match value {
            Value::Variable(variable) => {
                let is_set = self.variables.get(variable).is_some_and(|value| *value != ConstValue::Null);
                (type_name.ends_with('!') && !is_set).then(|| (path, type_name.to_owned(), variable.as_str()))
            }
            Value::List(items) => {
                let item_type = nullable.strip_prefix('[')?.strip_suffix(']')?;
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| {
                    self.unset_variable_within(registry, item_type, item, format!("{path}.{index}"))
                })
            }
            Value::Object(fields) => {
                let MetaType::InputObject { input_fields, oneof, .. } = registry.types.get(nullable)? else {
                    return None;
                };
                fields.iter().find_map(|(name, value)| {
                    let declared = &input_fields.get(name.as_str())?.ty;
                    // the one field that is given must have a value
                    let needed = if *oneof { format!("{declared}!") } else { declared.clone() };
                    self.unset_variable_within(registry, &needed, value, format!("{path}.{name}"))
                })
            }
            _ => None,
        }
    }

    /// What validation refuses, explained. The costs of fields are computed there from values that are refused: what their parsers
    /// say is left out where something else is known, such as a misplaced value.
    pub(crate) fn explained(
        &self,
        mut errors: Vec<ServerError>,
        misplaced: Option<&ServerError>,
        registry: &Registry,
    ) -> Vec<ServerError> {
        if misplaced.is_some() || !errors.iter().all(is_of_parser) {
            errors.retain(|error| !is_of_parser(error));
        }
        if errors.is_empty() {
            errors.extend(misplaced.cloned());
        }
        self.explain(&mut errors, registry);
        for error in &mut errors {
            if let Some(argument) = missing_or_unknown(&error.message).map(ToOwned::to_owned) {
                error.extensions.get_or_insert_default().set("argument", argument);
            }
        }
        errors
    }

    /// Adds to each error that is about the value of an argument what is wrong with it.
    fn explain(&self, errors: &mut [ServerError], registry: &Registry) {
        if !errors.iter().any(|error| path_of_argument(&error.message).is_some()) {
            return;
        }
        // it was parsed before, so this fails for none
        let Ok(document) = parse_query(&self.query) else { return };
        for error in errors {
            let Some(path) = path_of_argument(&error.message) else { continue };
            let argument = with_brackets(path);
            let refused = self.refused(&document, error, registry).unwrap_or_default();
            // as the other errors write a path
            error.message = error.message.replacen(path, &argument, 1);
            explain(&mut error.message, refused.value.as_deref(), refused.kind);
            error.extensions.get_or_insert_default().set("argument", argument);
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
}

/// How the engine's validation begins what it says of the value of an argument.
const OF_ARGUMENT: &str = "Invalid value for argument \"";

fn path_of_argument(message: &str) -> Option<&str> {
    message.strip_prefix(OF_ARGUMENT)?.split_once('"').map(|(path, _)| path)
}

/// The argument that the engine's validation misses, or does not know.
fn missing_or_unknown(message: &str) -> Option<&str> {
    let unknown = message.strip_prefix("Unknown argument \"");
    let missing = || {
        let behind = message.split_once("\" argument \"")?.1;
        (message.starts_with("Field \"") || message.starts_with("Directive \""))
            .then_some(behind)
            .filter(|_| message.ends_with(" is required but not provided"))
    };
    unknown.or_else(missing)?.split_once('"').map(|(name, _)| name)
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

/// The fields of the input object that a type is, or is a list of.
fn input_fields<'r>(registry: &'r Registry, type_name: &str) -> Option<&'r IndexMap<String, MetaInputValue>> {
    match registry.types.get(MetaTypeName::concrete_typename(type_name))? {
        MetaType::InputObject { input_fields, .. } => Some(input_fields),
        _ => None,
    }
}

/// The first value within one that should be an object and is none: its path, and the name of the type that it should have.
fn no_object(registry: &Registry, type_name: &str, value: &ConstValue, path: String) -> Option<(String, String)> {
    let (kind, input_fields) = (MetaTypeName::concrete_typename(type_name), input_fields(registry, type_name)?);
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
    use async_graphql::Pos;
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
    fn an_argument_is_named_that_is_missing_or_unknown() {
        for (message, argument) in [
            (r#"Field "search" argument "text" of type "Query" is required but not provided"#, Some("text")),
            (r#"Directive "@skip" argument "if" of type "Boolean!" is required but not provided"#, Some("if")),
            (r#"Unknown argument "depht" on field "block" of type "Query". Did you mean "depth"?"#, Some("depht")),
            (r#"Unknown argument "x" on directive "skip"."#, Some("x")),
            (r#"Unknown field "argument" on type "Query"."#, None),
            (r#"Invalid value for argument "a", expected type "Int""#, None),
        ] {
            assert_eq!(missing_or_unknown(message), argument, "{message}");
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
