//! Where the engine answers otherwise than the GraphQL specification says, mended from outside.
//!
//! - `@skip` and `@include` do not see the default of a variable: defaults are filled in before execution.
//! - The path of an error that passes items of lists on its way up ends at the topmost of them, and an error of a field
//!   that an interface resolves has none: the path is kept in the error where it is made, and put back at the end.

use std::sync::Arc;

use async_graphql::parser::types::{DocumentOperations, ExecutableDocument};
use async_graphql::{PathSegment, QueryPathNode, QueryPathSegment, Request, ServerError};

/// Gives each variable of the operation that has a default and no value that default.
pub(super) fn fill_defaults(request: &mut Request) {
    let name = request.operation_name.clone();
    // a document that is none is refused when it is parsed again
    let Ok(document) = request.parsed_query() else { return };
    let defaults = defaults(document, name.as_deref());
    for (variable, value) in defaults {
        request.variables.entry(variable).or_insert(value);
    }
}

fn defaults(document: &ExecutableDocument, name: Option<&str>) -> Vec<(async_graphql::Name, async_graphql::Value)> {
    let operation = match (&document.operations, name) {
        (DocumentOperations::Single(operation), _) => Some(operation),
        (DocumentOperations::Multiple(operations), Some(name)) => operations.get(name),
        (DocumentOperations::Multiple(_), None) => None,
    };
    let variables = operation.iter().flat_map(|operation| &operation.node.variable_definitions);
    variables
        .filter_map(|variable| {
            let variable = &variable.node;
            Some((variable.name.node.clone(), variable.default_value.as_ref()?.node.clone()))
        })
        .collect()
}

/// The path of what failed.
struct FullPath(Vec<PathSegment>);

/// Keeps the path of the field or item that failed, unless it is kept already.
pub(super) fn keep_path(mut error: ServerError, at: &QueryPathNode<'_>) -> ServerError {
    if error.source::<FullPath>().is_none() {
        let nodes = std::iter::successors(Some(at), |node| node.parent);
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
pub(super) fn restore_path(error: &mut ServerError) {
    if let Some(FullPath(path)) = error.source::<FullPath>() {
        error.path = path.clone();
    }
}
