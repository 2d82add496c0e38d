//! What an operation yields, as it goes to clients: written as JSON once, however many are sent it.

use std::fmt::Display;

use async_graphql::{Response, ServerError, Value};
pub(crate) use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::api::{ResumePoint, code};
use crate::server::document::guard::Refusal;
use crate::server::http::response::{error, is_refusal};

/// One answer to an operation. A clone shares the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Payload {
    /// An execution result, as JSON: data, and errors of its fields.
    Result(Utf8Bytes),
    /// The request is not executed, and there is no other answer to it.
    Refused(Refused),
}

/// What one reader of a subscription is told that several have, and where he is with that.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedPayload {
    pub(crate) payload: Payload,
    /// From where a reader who has this could go on by himself, if that can be.
    pub(crate) place: Option<ResumePoint>,
    /// The same for one who has nothing yet.
    pub(crate) start: Option<ResumePoint>,
}

impl From<Payload> for SharedPayload {
    fn from(payload: Payload) -> Self {
        Self { payload, place: None, start: None }
    }
}

/// Why a request is not executed: a JSON array of GraphQL errors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refused(pub(crate) Utf8Bytes);

impl Payload {
    /// The answer to a query or a mutation.
    pub(crate) fn new(response: &Response) -> Self {
        if is_refusal(response) { Self::Refused(Refused::new(&response.errors)) } else { Self::result(response) }
    }

    /// What a subscription yields. `may_refuse`: it has yielded nothing, and no event of it is being executed. It is refused
    /// then if what it yields is no event: nothing but errors, none of them below the field that is subscribed to. That
    /// field fails when the source of its events cannot be set up, or ends with an error before it has one.
    pub(crate) fn event(response: &Response, may_refuse: bool) -> Self {
        let is_refused = may_refuse
            && response.data == Value::Null
            && !response.errors.is_empty()
            && response.errors.iter().all(|error| error.path.len() <= 1);
        if is_refused { Self::Refused(Refused::new(&response.errors)) } else { Self::result(response) }
    }

    /// The last answer to an operation that was executed up to there.
    pub(crate) fn failed(error: ServerError) -> Self {
        Self::result(&Response::from_errors(vec![error]))
    }

    fn result(response: &Response) -> Self {
        json(response).map_or_else(Self::Refused, Self::Result)
    }

    /// Whether the request was executed.
    pub(crate) fn is_result(&self) -> bool {
        matches!(self, Self::Result(_))
    }

    /// How long its text is.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Result(json) | Self::Refused(Refused(json)) => json.len(),
        }
    }

    /// As an execution result, by which transports without a message for errors say that a request is refused.
    pub(crate) fn into_result(self) -> Utf8Bytes {
        match self {
            Self::Result(json) => json,
            Self::Refused(Refused(errors)) => format!(r#"{{"errors":{}}}"#, errors.as_str()).into(),
        }
    }
}

impl Refused {
    fn new(errors: &[ServerError]) -> Self {
        json(errors).map_or_else(|unwritten| unwritten, Self)
    }
}

/// Refuses an operation on a socket that has as many open as it may.
pub(crate) fn too_many_operations(limit: usize) -> Refusal {
    Refusal::TooLarge { which: "operations on its websocket", limit, actual: limit.saturating_add(1) }
}

impl From<ServerError> for Refused {
    fn from(error: ServerError) -> Self {
        Self::new(&[error])
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        tracing::debug!(%refusal, "a query was refused");
        Self::new(&[refusal.into()])
    }
}

/// A internal_error of ours: the client is told an id, and the log what it was.
pub(crate) fn internal_error(what: &dyn Display) -> ServerError {
    let id = getrandom::u64().map_or_else(|_| "unknown".to_owned(), |id| format!("{id:016x}"));
    tracing::error!(%id, error = %what, "a request failed");
    let message = format!("the server failed to answer; the reason is in its log under id {id}");
    let mut error = error(code::INTERNAL_SERVER_ERROR, message);
    error.extensions.get_or_insert_default().set("id", id);
    error
}

/// What is said instead of an answer that cannot be written, which is no answer that the schema can give.
const UNWRITTEN: &str =
    r#"[{"message":"the response cannot be encoded","extensions":{"code":"INTERNAL_SERVER_ERROR"}}]"#;

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Utf8Bytes, Refused> {
    serde_json::to_string(value).map(Utf8Bytes::from).map_err(|error| {
        let told = serde_json::to_string(&[internal_error(&error)]);
        Refused(told.map_or_else(|_| Utf8Bytes::from_static(UNWRITTEN), Utf8Bytes::from))
    })
}

#[cfg(test)]
mod tests {
    use async_graphql::{PathSegment, value};

    use super::*;

    fn error(path: &[&str]) -> ServerError {
        let path = path.iter().map(|name| PathSegment::Field((*name).to_owned())).collect();
        ServerError { path, ..ServerError::new("no", None) }
    }

    fn is_refused(payload: &Payload) -> bool {
        matches!(payload, Payload::Refused(_))
    }

    #[test]
    fn a_request_is_refused_by_errors_of_its_own_and_a_subscription_also_by_its_field() {
        let failed = |path: &[&str]| Response::from_errors(vec![error(path)]);
        let mut partial = Response::new(value!({ "tip": null }));
        partial.errors.push(error(&["tip"]));
        let mut mixed = failed(&[]);
        mixed.errors.push(error(&["tip", "hash"]));
        for (response, of_request, of_subscription) in [
            (failed(&[]), true, true),
            (failed(&["tip"]), false, true),
            (failed(&["tip", "hash"]), false, false),
            (mixed, false, false),
            (partial, false, false),
            (Response::new(Value::Null), false, false),
        ] {
            assert_eq!(is_refused(&Payload::new(&response)), of_request, "{response:?}");
            assert_eq!(is_refused(&Payload::event(&response, true)), of_subscription, "{response:?}");
            assert!(!is_refused(&Payload::event(&response, false)), "{response:?}");
        }
    }

    #[test]
    fn a_refusal_is_an_array_of_errors_and_as_a_result_an_object_without_data() {
        let payload = Payload::new(&Response::from_errors(vec![error(&[])]));
        let Payload::Refused(Refused(errors)) = &payload else { panic!("it is a refusal") };
        let errors: serde_json::Value = serde_json::from_str(errors).unwrap();
        assert_eq!(errors[0]["message"], "no");
        let result: serde_json::Value = serde_json::from_str(&payload.into_result()).unwrap();
        assert_eq!(result, serde_json::json!({ "errors": errors }));
    }
}
