//! What makes two requests the same: their document, operation and variables.

use async_graphql::Request;

/// Equal for requests with the same responses. It does not include extensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestKey {
    document: String,
    operation: Option<String>,
    /// As JSON, the fields of objects in the order of their names.
    variables: String,
}

impl RequestKey {
    /// `None` if the variables cannot be encoded as JSON.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let variables = serde_json::to_value(&request.variables).ok()?.to_string();
        Some(Self { document: request.query.clone(), operation: request.operation_name.clone(), variables })
    }

    /// The length of its texts.
    pub(crate) fn bytes(&self) -> usize {
        self.document.len() + self.operation.as_ref().map_or(0, String::len) + self.variables.len()
    }
}
