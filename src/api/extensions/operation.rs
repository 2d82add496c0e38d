//! The operation of a document that a request asks for.

use async_graphql::Positioned;
use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, OperationDefinition};

/// The operation that a request asks for: the one of that name, or the only one. `None` if there is no such operation.
pub(crate) fn operation<'d>(
    document: &'d ExecutableDocument,
    name: Option<&str>,
) -> Option<&'d Positioned<OperationDefinition>> {
    match (&document.operations, name) {
        (DocumentOperations::Single(operation), _) => Some(operation),
        (DocumentOperations::Multiple(operations), Some(name)) => operations.get(name),
        // the name of the only operation is optional
        (DocumentOperations::Multiple(operations), None) if operations.len() == 1 => operations.values().next(),
        (DocumentOperations::Multiple(_), None) => None,
    }
}
