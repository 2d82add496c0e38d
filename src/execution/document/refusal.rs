//! Why a request is refused before the engine sees it, and the error that its client receives.

use async_graphql::{Pos, ServerError};

use crate::api::code;

/// Why a document is not executed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestRefusal {
    /// It is larger than a limit.
    #[error("a request has at most {limit} {what}, and this one has {actual}")]
    TooLarge {
        /// The limit: the name of a field of `server { limits }`, but for that of introspection lists, which is fixed.
        which: &'static str,
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: usize,
        /// How much there is, as far as was counted.
        actual: usize,
    },
    /// A string that does not end.
    #[error("a string that begins at byte {at} does not end")]
    OpenString {
        /// Where it begins.
        at: usize,
    },
    /// It is not GraphQL.
    #[error("{0}")]
    Syntax(ServerError),
    /// A fragment that spreads itself, however far around.
    #[error("the fragment {name:?} spreads itself")]
    Cycle {
        /// The fragment.
        name: String,
    },
    /// A subscription that is not one field.
    #[error("a subscription has exactly one field on its root, outside of fragments")]
    SubscriptionRoot,
    /// It selects very many fields that their types do not have.
    #[error(
        "Unknown field \"{field}\" on type \"{on}\", after too many others, or with too long a name: the server \
         checks no more"
    )]
    UnknownFields {
        /// The first that is one too many.
        field: String,
        /// The type that does not have it.
        on: String,
        /// Where it is selected.
        at: Pos,
    },
}

impl RequestRefusal {
    /// The code of the error that it becomes.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            RequestRefusal::TooLarge { .. } => code::QUERY_LIMIT_EXCEEDED,
            RequestRefusal::OpenString { .. } | RequestRefusal::Syntax(_) => code::GRAPHQL_PARSE_FAILED,
            RequestRefusal::Cycle { .. } | RequestRefusal::SubscriptionRoot | RequestRefusal::UnknownFields { .. } => {
                code::GRAPHQL_VALIDATION_FAILED
            }
        }
    }
}

impl From<RequestRefusal> for ServerError {
    fn from(refusal: RequestRefusal) -> Self {
        let mut error = match &refusal {
            RequestRefusal::Syntax(error) => error.clone(),
            RequestRefusal::UnknownFields { at, .. } => ServerError::new(refusal.to_string(), Some(*at)),
            refusal => ServerError::new(refusal.to_string(), None),
        };
        let extensions = error.extensions.get_or_insert_default();
        extensions.set("code", refusal.code());
        if let RequestRefusal::TooLarge { which, limit, actual, .. } = refusal {
            extensions.set("which", which);
            extensions.set("limit", limit);
            extensions.set("actual", actual);
        }
        error
    }
}
