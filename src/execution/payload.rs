//! What an operation yields, as it is sent to clients: encoded as JSON once, for however many clients.

use std::sync::Arc;

use async_graphql::{Response, ServerError, Value};
pub(crate) use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::error::{internal_error, is_refusal, known_code};
use crate::api::ResumePoint;
use crate::execution::document::refusal::RequestRefusal;
use crate::execution::memory::{MemoryBudget, Reservation};
use crate::metrics::server_metrics::OK;

/// One response to an operation. A clone shares the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Payload {
    /// An execution result as JSON: data, and errors of its fields.
    Result(Utf8Bytes),
    /// The same of an event with a cursor, behind which a client resumes.
    Event(Utf8Bytes, Arc<str>),
    /// The request is not executed. There is no other response to it.
    Refused(Refused),
}

/// A payload of a subscription, what it costs, and where a subscriber that leaves a shared stream resumes alone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubscriptionPayload {
    pub(crate) payload: Payload,
    /// What each subscriber pays for it.
    pub(crate) cost: u64,
    /// Behind this payload, if the subscription can resume.
    pub(crate) resume_point: Option<ResumePoint>,
    /// Before the first payload.
    pub(crate) start: Option<ResumePoint>,
}

impl From<Payload> for SubscriptionPayload {
    fn from(payload: Payload) -> Self {
        Self { payload, cost: 0, resume_point: None, start: None }
    }
}

/// A payload on its way to one client.
#[derive(Debug)]
pub(crate) struct ClientPayload {
    pub(crate) payload: Payload,
    /// Its bytes among those that clients have not read, unless they are few.
    pub(crate) reservation: Option<Reservation>,
}

impl ClientPayload {
    /// Errors: RESOURCE_EXHAUSTED, if clients have too many bytes that they have not read.
    pub(crate) fn reserve(payload: Payload, memory: &MemoryBudget) -> Result<Self, ServerError> {
        let reservation = memory.reserve_large(payload.bytes())?;
        Ok(Self { payload, reservation })
    }

    /// The only response to a request that is not executed. It is small, and small ones are not counted.
    pub(crate) fn refused(reason: ServerError) -> Self {
        Payload::Refused(reason.into()).into()
    }

    /// Whether the request is executed.
    pub(crate) fn is_result(&self) -> bool {
        self.payload.is_result()
    }
}

impl From<Payload> for ClientPayload {
    fn from(payload: Payload) -> Self {
        Self { payload, reservation: None }
    }
}

/// Why a request is not executed: a JSON array of GraphQL errors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refused(pub(crate) Utf8Bytes);

impl Payload {
    /// The response to a query or a mutation.
    pub(crate) fn new(response: &Response) -> Self {
        if is_refusal(response) { Self::Refused(Refused::new(&response.errors)) } else { Self::result(response) }
    }

    /// A response of a subscription. `may_refuse`: it is the first, and no event is being executed. Then it is a refusal if
    /// it is no event: nothing but errors, none of them below the field that is subscribed to. That field fails when the
    /// source of its events cannot be set up, or ends with an error before it has one.
    pub(crate) fn event(response: &Response, may_refuse: bool) -> Self {
        let is_refused = may_refuse
            && response.data == Value::Null
            && !response.errors.is_empty()
            && response.errors.iter().all(|error| error.path.len() <= 1);
        if is_refused { Self::Refused(Refused::new(&response.errors)) } else { Self::result(response) }
    }

    /// An event with its cursor. A refusal has none.
    pub(crate) fn at(self, cursor: Option<&Arc<str>>) -> Self {
        match (self, cursor) {
            (Self::Result(json), Some(cursor)) => Self::Event(json, Arc::clone(cursor)),
            (payload, _) => payload,
        }
    }

    /// The cursor of the event.
    pub(crate) fn cursor(&self) -> Option<&str> {
        match self {
            Self::Event(_, cursor) => Some(cursor),
            Self::Result(_) | Self::Refused(_) => None,
        }
    }

    /// The last response to an operation that fails while it is executed.
    pub(crate) fn failed(error: ServerError) -> Self {
        Self::result(&Response::from_errors(vec![error]))
    }

    fn result(response: &Response) -> Self {
        json(response).map_or_else(Self::Refused, Self::Result)
    }

    /// Whether the request is executed.
    pub(crate) fn is_result(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Event(..))
    }

    /// The code of the first error of a refusal. A result with an error of a field is `OK`.
    pub(crate) fn outcome(&self) -> &'static str {
        let Self::Refused(Refused(errors)) = self else { return OK };
        let errors: serde_json::Value = serde_json::from_str(errors).unwrap_or_default();
        known_code(errors[0]["extensions"]["code"].as_str().unwrap_or_default())
    }

    /// The length of its text.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Result(json) | Self::Event(json, _) | Self::Refused(Refused(json)) => json.len(),
        }
    }

    /// As an execution result, for transports that have no message for refusals.
    pub(crate) fn into_result(self) -> Utf8Bytes {
        match self {
            Self::Result(json) | Self::Event(json, _) => json,
            Self::Refused(Refused(errors)) => format!(r#"{{"errors":{}}}"#, errors.as_str()).into(),
        }
    }
}

impl Refused {
    fn new(errors: &[ServerError]) -> Self {
        json(errors).map_or_else(|unencodable| unencodable, Self)
    }
}

impl From<ServerError> for Refused {
    fn from(error: ServerError) -> Self {
        Self::new(&[error])
    }
}

impl From<RequestRefusal> for Refused {
    fn from(refusal: RequestRefusal) -> Self {
        tracing::debug!(%refusal, "a query was refused");
        Self::new(&[refusal.into()])
    }
}

/// Refuses an operation on a socket that has as many as it may.
pub(crate) fn too_many_operations(limit: usize) -> RequestRefusal {
    RequestRefusal::TooLarge {
        which: "operationsPerSocket",
        what: "operations on its websocket",
        limit,
        actual: limit.saturating_add(1),
    }
}

/// The errors of a response that cannot be encoded, which is none that the schema gives.
const UNENCODABLE: &str =
    r#"[{"message":"the response cannot be encoded","extensions":{"code":"INTERNAL_SERVER_ERROR"}}]"#;

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Utf8Bytes, Refused> {
    serde_json::to_string(value).map(Utf8Bytes::from).map_err(|error| {
        let errors = serde_json::to_string(&[internal_error(&error)]);
        Refused(errors.map_or_else(|_| Utf8Bytes::from_static(UNENCODABLE), Utf8Bytes::from))
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
    fn a_subscription_is_also_refused_by_errors_of_its_field() {
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
    fn a_refusal_as_a_result_has_errors_and_no_data() {
        let payload = Payload::new(&Response::from_errors(vec![error(&[])]));
        let Payload::Refused(Refused(errors)) = &payload else { panic!("it is a refusal") };
        let errors: serde_json::Value = serde_json::from_str(errors).unwrap();
        assert_eq!(errors[0]["message"], "no");
        let result: serde_json::Value = serde_json::from_str(&payload.into_result()).unwrap();
        assert_eq!(result, serde_json::json!({ "errors": errors }));
    }

    #[test]
    fn the_outcome_of_a_refusal_is_a_code_of_this_server() {
        let refused =
            |code: &str| Payload::Refused(Refused(format!(r#"[{{"extensions":{{"code":"{code}"}}}}]"#).into()));
        assert_eq!(refused("NOT_READY").outcome(), crate::api::code::NOT_READY);
        assert_eq!(refused("EVIL").outcome(), "OTHER");
        assert_eq!(Payload::Refused(Refused("[]".into())).outcome(), "OTHER");
        assert_eq!(Payload::Result("{}".into()).outcome(), "OK");
    }
}
