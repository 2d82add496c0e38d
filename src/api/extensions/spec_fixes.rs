//! Where the engine answers otherwise than the GraphQL specification says, mended from outside.
//!
//! - `@skip` and `@include` do not see the default of a variable: defaults are filled in before execution.
//! - A variable without a value that needs one is found missing by the fields that use it: it is reported before.
//! - The path of an error that passes items of lists on its way up ends at the topmost of them, and an error of a field
//!   that an interface resolves has none: the path is kept in the error where it is made, and put back at the end.
//! - A schema cannot have a description of its own: introspection has one in the place of the engine's, and the schema definition
//!   language has it in front of `schema`, where the engine's parser does not read it.

use std::sync::Arc;

use async_graphql::parser::types::ExecutableDocument;
use async_graphql::{PathSegment, QueryPathNode, QueryPathSegment, Request, ServerError, Value};

use super::operation::operation;

/// The description of the schema, which tools greet with.
const SCHEMA_DESCRIPTION: &str = "Blocks, transactions, addresses, scripts and the mempool of a Bitcoin Core node, from an index \
    of its chain. All fields of a response are from one state (`snapshot`). Amounts are in satoshis, feerates in sat/vB, sizes in \
    bytes, vbytes or weight units, times in UTC, hashes in display byte order. Lists are Relay connections. Subscriptions resume \
    after a cursor. An error has a code in its `extensions`. Begin with `{ tip { height hash time txCount } }`.";

/// The description of the schema if that is what a field with this name is.
pub(crate) fn schema_description(parent_type: &str, field: &str) -> Option<Value> {
    (parent_type == "__Schema" && field == "description").then(|| SCHEMA_DESCRIPTION.into())
}

/// Where the definition of the schema begins, which the engine writes last.
const SCHEMA_DEFINITION: &str = "\nschema {";

/// The schema definition language of the engine, with the description of the schema.
pub(crate) fn describe_schema(sdl: &str) -> String {
    let described = format!("\n\"\"\"\n{SCHEMA_DESCRIPTION}\n\"\"\"{SCHEMA_DEFINITION}");
    sdl.replacen(SCHEMA_DEFINITION, &described, 1)
}

/// The definitions of types and directives alone, for the engine's parser.
pub(crate) fn without_schema(sdl: &str) -> &str {
    let described = sdl.find(SCHEMA_DESCRIPTION).and_then(|start| sdl.get(..start)?.rfind("\"\"\""));
    described.and_then(|start| sdl.get(..start)).unwrap_or(sdl)
}

/// Gives each variable of the operation that has a default and no value that default.
pub(crate) fn fill_defaults(request: &mut Request) {
    let name = request.operation_name.clone();
    // a document that is none is refused when it is parsed again
    let Ok(document) = request.parsed_query() else { return };
    let defaults = defaults(document, name.as_deref());
    for (variable, value) in defaults {
        request.variables.entry(variable).or_insert(value);
    }
}

fn defaults(document: &ExecutableDocument, name: Option<&str>) -> Vec<(async_graphql::Name, async_graphql::Value)> {
    let variables = operation(document, name).into_iter().flat_map(|operation| &operation.node.variable_definitions);
    variables
        .filter_map(|variable| {
            let variable = &variable.node;
            Some((variable.name.node.clone(), variable.default_value.as_ref()?.node.clone()))
        })
        .collect()
}

/// Why the request is refused if a variable that must not be null is, or has no value. The engine would refuse the first
/// field that uses it. To be asked after defaults are filled in.
pub(crate) fn missing_variable(request: &mut Request) -> Option<ServerError> {
    let name = request.operation_name.clone();
    let required: Vec<_> = operation(request.parsed_query().ok()?, name.as_deref())?
        .node
        .variable_definitions
        .iter()
        .filter(|variable| !variable.node.var_type.node.nullable)
        .map(|variable| (variable.node.name.node.clone(), variable.node.var_type.node.to_string(), variable.pos))
        .collect();
    let variables = &request.variables;
    let (name, kind, at) =
        required.into_iter().find(|(name, ..)| variables.get(name).is_none_or(|value| *value == Value::Null))?;
    let mut error = ServerError::new(format!("the variable ${name} of type {kind} has no value"), Some(at));
    error.extensions.get_or_insert_default().set("variable", name.to_string());
    Some(error)
}

/// The names in a path, as the refusal of a worst case names a field: `blocks.nodes.hash`.
pub(crate) fn names_at(at: Option<&QueryPathNode<'_>>) -> String {
    let nodes = std::iter::successors(at, |node| node.parent);
    let mut names: Vec<_> = nodes
        .filter_map(|node| match node.segment {
            QueryPathSegment::Index(_) => None,
            QueryPathSegment::Name(name) => Some(name),
        })
        .collect();
    names.reverse();
    names.join(".")
}

/// The path of what failed.
struct FullPath(Vec<PathSegment>);

/// Keeps the path of the field or item that failed, unless it is kept already.
pub(crate) fn keep_path(mut error: ServerError, at: Option<&QueryPathNode<'_>>) -> ServerError {
    if error.source::<FullPath>().is_none() {
        let nodes = std::iter::successors(at, |node| node.parent);
        let mut path: Vec<_> = nodes
            .map(|node| match node.segment {
                QueryPathSegment::Index(index) => PathSegment::Index(index),
                QueryPathSegment::Name(name) => PathSegment::Field(name.to_owned()),
            })
            .collect();
        path.reverse();
        error.source = Some(Arc::new(FullPath(path)));
    }
    error
}

/// Puts the path back that was kept.
pub(crate) fn restore_path(error: &mut ServerError) {
    if let Some(FullPath(path)) = error.source::<FullPath>() {
        error.path = path.clone();
    }
}
