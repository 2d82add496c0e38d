//! Errors as clients receive them: a GraphQL error with a code of [`code`], and what a response with errors means.
//!
//! `payload.rs` encodes them, and of `server` `http/response.rs` and the protocol of websockets.

use std::fmt::Display;

use async_graphql::{Response, ServerError, Value};

use crate::api::code;
use crate::metrics::server_metrics::OK;

/// The outcome whose code is none of [`code::ALL`].
const OTHER: &str = "OTHER";

/// An error with one of the codes of [`code`].
pub(crate) fn error(code: &str, message: impl Into<String>) -> ServerError {
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code);
    error
}

/// A bug or a failure of the server: the client receives an id, the log the id and the reason.
pub(crate) fn internal_error(reason: &dyn Display) -> ServerError {
    let id = random_id();
    tracing::error!(%id, error = %reason, "a request failed");
    let message = format!("the server failed to answer; the reason is in its log under id {id}");
    let mut error = error(code::INTERNAL_SERVER_ERROR, message);
    error.extensions.get_or_insert_default().set("id", id);
    error
}

/// An id that is in the log and at the client: 16 hexadecimal digits.
pub(crate) fn random_id() -> String {
    getrandom::u64().map_or_else(|_| "unknown".to_owned(), |id| format!("{id:016x}"))
}

/// Whether nothing is executed. Errors of fields have paths, and others precede the first field.
pub(crate) fn is_refusal(response: &Response) -> bool {
    !response.errors.is_empty()
        && response.data == Value::Null
        && response.errors.iter().all(|error| error.path.is_empty())
}

/// The code of the first error of a response, as the operation's outcome.
pub(crate) fn outcome(response: &Response) -> &'static str {
    response.errors.first().map_or(OK, outcome_of)
}

/// The code of an error, as the operation's outcome.
pub(crate) fn outcome_of(error: &ServerError) -> &'static str {
    code_of(error).map_or(OTHER, known_code)
}

/// The text of the code of the first error.
pub(crate) fn first_code(response: &Response) -> Option<&str> {
    code_of(response.errors.first()?)
}

fn code_of(error: &ServerError) -> Option<&str> {
    match error.extensions.as_ref()?.get("code")? {
        Value::String(code) => Some(code),
        _ => None,
    }
}

/// A code as a label, which is never text that a client makes up.
pub(crate) fn known_code(code: &str) -> &'static str {
    code::ALL.into_iter().find(|known| *known == code).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_the_code_of_the_first_error() {
        assert_eq!(outcome(&Response::new(Value::Null)), "OK");
        assert_eq!(outcome(&Response::from_errors(vec![error(code::TIMEOUT, "late")])), code::TIMEOUT);
        assert_eq!(outcome(&Response::from_errors(vec![error("EVIL", "no")])), "OTHER");
        assert_eq!(outcome(&Response::from_errors(vec![ServerError::new("no", None)])), "OTHER");
    }
}
