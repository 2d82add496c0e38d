//! The operation of a document that a request asks for.

use async_graphql::Positioned;
use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, OperationDefinition, OperationType};
use async_graphql::registry::{MetaType, Registry};

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

/// The type that the fields on the root of an operation belong to.
pub(crate) fn root_type(registry: &Registry, kind: OperationType) -> Option<&MetaType> {
    let name = match kind {
        OperationType::Query => Some(&registry.query_type),
        OperationType::Mutation => registry.mutation_type.as_ref(),
        OperationType::Subscription => registry.subscription_type.as_ref(),
    };
    registry.types.get(name?)
}
