//! The subscription of a hook: its document, and what a response to it means.

use async_graphql::{Name, Request, Response, ServerError, Value, Variables};
use serde_json::{Map, json};

use super::hook::{Hook, HookWatch};
use super::limits::{FIELD_NESTING, FIELDS};
use crate::api::{Schema, code};

/// What every message needs, whatever fields are set.
const LEDGER_POSITION: &str = "seq cursor kind";
const CHAIN_POSITION: &str = "__typename seq cursor";

const LEDGER_FIELDS: &str = "depth reason replacedByTxid isCorrection isBackfill \
    matches { descriptorIndex derived { path branch index address } } \
    entry { net received spent balanceAfter touched transaction { txid confirmations block { height hash } } } \
    balance { confirmed unconfirmedDelta total spendable }";
const CHAIN_FIELDS: &str = "... on BlockConnected { block { height hash time txCount } } \
    ... on BlockDisconnected { block { height hash time txCount } }";

/// The cursor of the current state.
const SNAPSHOT: &str = "{ snapshot { cursor } }";

/// How much of an event is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventDetail {
    /// The fields of the hook.
    Full,
    /// Only where it is in the stream: for an event whose fields cannot be resolved.
    Position,
}

/// What a response of the stream is.
#[derive(Debug)]
pub(crate) enum StreamItem {
    /// An event, and the errors of its fields.
    Event { kind: String, cursor: String, event: Value, errors: Vec<ServerError> },
    /// The stream has no event: it ends with this.
    Failure { code: String, message: String },
}

impl HookWatch {
    /// The fields of an event if the hook sets none.
    #[must_use]
    pub fn default_fields(&self) -> &'static str {
        match self {
            Self::Blocks => CHAIN_FIELDS,
            Self::Ledger { .. } => LEDGER_FIELDS,
        }
    }
}

/// The request for the events of a hook behind a cursor, or from now on.
pub(crate) fn request(hook: &Hook, detail: EventDetail, after: Option<&str>) -> Request {
    let fields = match detail {
        EventDetail::Full => hook.fields.as_deref().unwrap_or(hook.watch.default_fields()),
        EventDetail::Position => "",
    };
    let mut variables = Map::new();
    variables.insert("after".to_owned(), json!(after));
    let document = match &hook.watch {
        HookWatch::Blocks => {
            format!("subscription ($after: String) {{ chainEvents(after: $after) {{ {CHAIN_POSITION} {fields} }} }}")
        }
        HookWatch::Ledger { addresses, scripts, descriptors, depths, kinds } => {
            let mut watch = Map::new();
            let descriptors: Vec<_> =
                descriptors.iter().map(|item| json!({ "text": item.text, "gapLimit": item.gap_limit })).collect();
            for (name, list) in
                [("addresses", json!(addresses)), ("scripts", json!(scripts)), ("descriptors", json!(descriptors))]
            {
                if list != json!([]) {
                    watch.insert(name.to_owned(), list);
                }
            }
            variables.insert("watch".to_owned(), watch.into());
            variables.insert("depths".to_owned(), json!(depths));
            if !kinds.is_empty() {
                variables.insert("kinds".to_owned(), json!(kinds));
            }
            format!(
                "subscription ($watch: LedgerInput!, $after: String, $depths: [Int!], $kinds: [LedgerEventKind!]) {{ \
                 ledgerEvents(watch: $watch, after: $after, depths: $depths, kinds: $kinds) \
                 {{ {LEDGER_POSITION} {fields} }} }}"
            )
        }
    };
    Request::new(document).variables(Variables::from_json(variables.into()))
}

/// What a response means.
pub(crate) fn read(response: Response) -> StreamItem {
    let Response { data, errors, .. } = response;
    let event = match data {
        Value::Object(fields) => fields.into_iter().next().map(|(_, event)| event),
        _ => None,
    };
    let found = event.and_then(|event| Some((kind(&event)?, text(&event, "cursor")?, event)));
    match found {
        Some((kind, cursor, event)) => StreamItem::Event { kind, cursor, event, errors },
        None => failure(&errors),
    }
}

/// The type of the message of an event, as in `ledger.confirmed` and `chain.block_connected`.
fn kind(event: &Value) -> Option<String> {
    if let Some(kind) = text(event, "kind") {
        return Some(format!("ledger.{}", kind.to_lowercase()));
    }
    match text(event, "__typename")?.as_str() {
        "BlockConnected" => Some("chain.block_connected".to_owned()),
        "BlockDisconnected" => Some("chain.block_disconnected".to_owned()),
        _ => None,
    }
}

fn text(event: &Value, name: &str) -> Option<String> {
    let Value::Object(fields) = event else { return None };
    match fields.get(&Name::new(name))? {
        Value::String(text) => Some(text.clone()),
        Value::Enum(name) => Some(name.to_string()),
        _ => None,
    }
}

fn failure(errors: &[ServerError]) -> StreamItem {
    let Some(error) = errors.first() else {
        let message = "a response has neither an event nor an error".to_owned();
        return StreamItem::Failure { code: code::INTERNAL_SERVER_ERROR.to_owned(), message };
    };
    StreamItem::Failure { code: code_of(error), message: error.message.clone() }
}

/// The code of an error.
pub(crate) fn code_of(error: &ServerError) -> String {
    match error.extensions.as_ref().and_then(|extensions| extensions.get("code")) {
        Some(Value::String(code)) => code.clone(),
        _ => code::INTERNAL_SERVER_ERROR.to_owned(),
    }
}

/// An error with a code, as fields have them.
pub(crate) fn error(code: String, message: String) -> ServerError {
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code);
    error
}

/// The cursor of the current state.
///
/// Errors: code and message of the error.
pub(crate) async fn snapshot_cursor(schema: &Schema) -> Result<String, (String, String)> {
    let response = async_graphql::Executor::execute(schema, Request::new(SNAPSHOT)).await;
    if let Value::Object(fields) = &response.data
        && let Some(snapshot) = fields.get(&Name::new("snapshot"))
        && let Some(cursor) = text(snapshot, "cursor")
    {
        return Ok(cursor);
    }
    match failure(&response.errors) {
        StreamItem::Failure { code, message } => Err((code, message)),
        StreamItem::Event { .. } => Err((code::INTERNAL_SERVER_ERROR.to_owned(), String::new())),
    }
}

/// Checks that the fields of a hook can be a part of a document: their length, and how deep they nest, because the engine's
/// parser recurses.
///
/// Errors: what is wrong.
pub(crate) fn check_fields(fields: &str) -> Result<(), String> {
    if fields.len() > FIELDS {
        return Err(format!("fields has {} bytes, at most {FIELDS} are allowed", fields.len()));
    }
    let mut nesting = 0_usize;
    for byte in fields.bytes() {
        match byte {
            b'{' | b'[' | b'(' => nesting += 1,
            b'}' | b']' | b')' => {
                nesting = nesting.checked_sub(1).ok_or("fields closes a bracket that it does not open")?;
            }
            _ => {}
        }
        if nesting > FIELD_NESTING {
            return Err(format!("fields nests brackets more than {FIELD_NESTING} deep"));
        }
    }
    if nesting == 0 { Ok(()) } else { Err("fields opens a bracket that it does not close".to_owned()) }
}

#[cfg(test)]
mod tests {
    use async_graphql::value;

    use super::*;

    fn read_event(event: &Value) -> Option<(String, String)> {
        match read(Response::new(value!({ "someField": (event.clone()) }))) {
            StreamItem::Event { kind, cursor, .. } => Some((kind, cursor)),
            StreamItem::Failure { .. } => None,
        }
    }

    #[test]
    fn the_type_of_a_message_is_that_of_the_event() {
        let read = |event: Value| read_event(&event).unwrap().0;
        assert_eq!(read(value!({ "cursor": "c", "kind": "DEPTH_REACHED" })), "ledger.depth_reached");
        assert_eq!(read(value!({ "cursor": "c", "__typename": "BlockConnected" })), "chain.block_connected");
        assert_eq!(read(value!({ "cursor": "c", "__typename": "BlockDisconnected" })), "chain.block_disconnected");
        assert_eq!(read_event(&value!({ "cursor": "c", "__typename": "Other" })), None);
        assert_eq!(read_event(&value!({ "kind": "SEEN" })), None);
    }

    #[test]
    fn a_response_without_an_event_is_a_failure_with_its_code() {
        let error = error("CURSOR_EXPIRED".to_owned(), "gone".to_owned());
        match read(Response::from_errors(vec![error])) {
            StreamItem::Failure { code, message } => {
                assert_eq!((code.as_str(), message.as_str()), ("CURSOR_EXPIRED", "gone"));
            }
            event @ StreamItem::Event { .. } => panic!("{event:?}"),
        }
    }

    #[test]
    fn brackets_of_fields_must_match_and_not_nest_too_deep() {
        for fields in ["", "entry { net }", "a(x: [1]) { b { c } }", &("{".repeat(64) + &"}".repeat(64))] {
            assert_eq!(check_fields(fields), Ok(()), "{fields}");
        }
        for (fields, error) in [
            ("entry {", "fields opens a bracket that it does not close"),
            ("} } { a {", "fields closes a bracket that it does not open"),
            (&"{".repeat(65), "fields nests brackets more than 64 deep"),
            (&"x".repeat(16_385), "fields has 16385 bytes, at most 16384 are allowed"),
        ] {
            assert_eq!(check_fields(fields), Err(error.to_owned()));
        }
    }
}
