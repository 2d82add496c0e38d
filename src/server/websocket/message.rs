//! The messages of clients: text in, message or what is wrong with it out. Pure.
//!
//! Rules: the message types of PROTOCOL.md of the projects graphql-ws and subscriptions-transport-ws. A field that it does not name is left alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_graphql::{Request, Variables};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::subprotocol::{MessageKind, Subprotocol};
use crate::execution::document::persisted::EXTENSION as PERSISTED_QUERY;

/// Names an operation among those of its socket. At most [`LONGEST_ID`] bytes.
pub(crate) type Id = Arc<str>;

/// The longest id of an operation, in bytes. The protocol has no such limit; clients commonly use 36.
pub(crate) const LONGEST_ID: usize = 256;

/// How much of a client's text an error repeats, in bytes.
const REPEATED: usize = 40;

/// A message of a client.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// `connection_init`, with `authorization` or `Authorization` of its payload.
    Init(Option<String>),
    /// `ping`, with the text of its payload.
    Ping(Option<String>),
    /// `pong`.
    Pong,
    /// `subscribe`: a query, a mutation or a subscription.
    Subscribe(Id, Box<Request>),
    /// `complete`: the operation is not of interest any more.
    Complete(Id),
    /// `connection_terminate`: the client leaves.
    Terminate,
}

/// The fields that are read, of messages and of what subscribe carries.
const READ: [&str; 7] = ["type", "id", "payload", "query", "operationName", "variables", "extensions"];

/// The fields of a message, each as its text.
#[derive(Default)]
struct MessageFields<'t> {
    fields: BTreeMap<String, &'t RawValue>,
    /// One of those that are read, and is there more than once. Readers of JSON differ in which of them they take (RFC 8259, section 4).
    twice: Option<String>,
}

impl<'t> MessageFields<'t> {
    fn get(&self, name: &str) -> Option<&'t RawValue> {
        self.fields.get(name).copied()
    }
}

impl<'de> Deserialize<'de> for MessageFields<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = MessageFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut read = MessageFields::default();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    if read.fields.insert(name.clone(), value).is_some() && READ.contains(&name.as_str()) {
                        read.twice = Some(name);
                    }
                }
                Ok(read)
            }
        }

        json.deserialize_map(Object)
    }
}

/// Reads a message. Errors: what is wrong with it, for the author of the client.
pub(crate) fn read(text: &str, subprotocol: Subprotocol) -> Result<ClientMessage, String> {
    let fields = object(text).map_err(|wrong| match wrong {
        NoObject::Json(error) => format!("the message is not JSON: {error}"),
        NoObject::Other => "the message is not an object".to_owned(),
        NoObject::Twice(name) => format!("{:?} is given twice", beginning(&name)),
    })?;
    let kind = fields.get("type").ok_or("the message has no type")?;
    let kind: String = serde_json::from_str(kind.get()).map_err(|_| "the type of the message is not a string")?;
    let about = |wrong: String| format!("{kind}: {wrong}");
    match subprotocol.kind(&kind) {
        Some(MessageKind::Init) => {
            optional_object(&fields, "payload").map(|payload| ClientMessage::Init(authorization(payload)))
        }
        Some(MessageKind::Ping) => {
            optional_object(&fields, "payload").map(|payload| ClientMessage::Ping(payload.map(str::to_owned)))
        }
        Some(MessageKind::Pong) => optional_object(&fields, "payload").map(|_| ClientMessage::Pong),
        Some(MessageKind::Subscribe) => {
            id(&fields).and_then(|id| Ok(ClientMessage::Subscribe(id, Box::new(request(&fields)?))))
        }
        Some(MessageKind::Complete) => id(&fields).map(ClientMessage::Complete),
        Some(MessageKind::Terminate) => Ok(ClientMessage::Terminate),
        Some(MessageKind::OfServer) => Err("only a server may send this message".to_owned()),
        None => return Err(format!("{:?} is not a message type of {}", beginning(&kind), subprotocol.name())),
    }
    .map_err(about)
}

enum NoObject {
    Json(serde_json::Error),
    Other,
    Twice(String),
}

fn object(text: &str) -> Result<MessageFields<'_>, NoObject> {
    let read: Result<MessageFields<'_>, _> = serde_json::from_str(text);
    match read {
        Ok(MessageFields { twice: Some(name), .. }) => Err(NoObject::Twice(name)),
        Ok(fields) => Ok(fields),
        Err(error) if error.is_data() => Err(NoObject::Other),
        Err(error) => Err(NoObject::Json(error)),
    }
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(REPEATED)]
}

/// The text of a field that is an object; `None` if it is null or missing.
fn optional_object<'t>(fields: &MessageFields<'t>, name: &str) -> Result<Option<&'t str>, String> {
    let Some(value) = fields.get(name).map(RawValue::get).filter(|text| *text != "null") else {
        return Ok(None);
    };
    // the text of a value begins without a space, and is valid JSON
    if value.starts_with('{') { Ok(Some(value)) } else { Err(format!("{name} is neither an object nor null")) }
}

/// The authorization in a payload. A value that is no text is an unknown token.
fn authorization(payload: Option<&str>) -> Option<String> {
    let fields = object(payload?).ok()?;
    let value = ["authorization", "Authorization"].iter().find_map(|name| fields.get(name))?;
    if value.get() == "null" {
        return None;
    }
    Some(serde_json::from_str(value.get()).unwrap_or_default())
}

fn id(fields: &MessageFields<'_>) -> Result<Id, String> {
    let id = fields.get("id").ok_or("there is no id")?;
    let id: String = serde_json::from_str(id.get()).map_err(|_| "id is not a string")?;
    match id.len() {
        0 => Err("id is empty".to_owned()),
        1..=LONGEST_ID => Ok(id.into()),
        _ => Err(format!("id is longer than {LONGEST_ID} bytes")),
    }
}

fn request(fields: &MessageFields<'_>) -> Result<Request, String> {
    let payload = fields.get("payload").ok_or("there is no payload")?;
    let payload = object(payload.get()).map_err(|wrong| match wrong {
        NoObject::Twice(name) => format!("payload.{} is given twice", beginning(&name)),
        NoObject::Json(_) | NoObject::Other => "payload is not an object".to_owned(),
    })?;
    let query = payload.get("query").map(|query| serde_json::from_str::<String>(query.get())).transpose();
    let query = query.map_err(|_| "payload.query is not a string")?;
    let has_query = query.is_some();
    let mut request = Request::new(query.unwrap_or_default());
    if let Some(name) = payload.get("operationName") {
        request.operation_name =
            serde_json::from_str(name.get()).map_err(|_| "payload.operationName is neither a string nor null")?;
    }
    if let Some(variables) = optional_object(&payload, "variables").map_err(|wrong| format!("payload.{wrong}"))? {
        request = request.variables(Variables::from_json(value(variables, "payload.variables")?));
    }
    if let Some(extensions) = optional_object(&payload, "extensions").map_err(|wrong| format!("payload.{wrong}"))? {
        request.extensions =
            serde_json::from_str(extensions).map_err(|error| format!("payload.extensions: {error}"))?;
    }
    // the server may know it by its hash
    if !has_query && !request.extensions.contains_key(PERSISTED_QUERY) {
        return Err("payload.query is missing".to_owned());
    }
    Ok(request)
}

/// It is JSON, but may be nested too deep or hold numbers too large to be read.
fn value(text: &str, what: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClientMessage, String> {
        super::read(text, Subprotocol::Transport)
    }

    #[test]
    fn a_subscribe_message_carries_the_whole_request() {
        let text = r#" {"type":"subscribe","id":"a","payload":{"query":"query Q { a }","operationName":"Q",
            "variables":{"x":[1,null]},"extensions":{"y":{"z":1}},"more":1},"and":"more"} "#;
        let Ok(ClientMessage::Subscribe(id, request)) = read(text) else { panic!("it is a request") };
        assert_eq!(
            (&*id, request.query.as_str(), request.operation_name.as_deref()),
            ("a", "query Q { a }", Some("Q"))
        );
        assert_eq!(serde_json::to_string(&request.variables).unwrap(), r#"{"x":[1,null]}"#);
        assert_eq!(serde_json::to_string(&request.extensions).unwrap(), r#"{"y":{"z":1}}"#);
    }

    #[test]
    fn a_query_may_be_named_by_its_hash() {
        let text = r#"{"type":"subscribe","id":"a","payload":{"extensions":{"persistedQuery":{}}}}"#;
        assert!(matches!(read(text), Ok(ClientMessage::Subscribe(_, request)) if request.query.is_empty()));
    }

    #[test]
    fn what_may_be_left_out_of_a_request_may_be_null() {
        for rest in ["", r#","variables":null,"operationName":null,"extensions":null"#] {
            let text = format!(r#"{{"type":"subscribe","id":"a","payload":{{"query":"{{a}}"{rest}}}}}"#);
            let Ok(ClientMessage::Subscribe(_, request)) = read(&text) else { panic!("{text}") };
            assert_eq!((request.variables.len(), request.operation_name, request.extensions.len()), (0, None, 0));
        }
    }

    #[test]
    fn the_payload_of_a_ping_is_kept_as_it_was_written() {
        let payload = r#"{"b": 1.00, "a":12345678901234567890123}"#;
        let text = format!(r#"{{"payload" : {payload} , "type":"ping"}}"#);
        assert!(matches!(read(&text), Ok(ClientMessage::Ping(Some(kept))) if kept == payload));
        for text in [r#"{"type":"ping"}"#, r#"{"type":"ping","payload":null}"#] {
            assert!(matches!(read(text), Ok(ClientMessage::Ping(None))));
        }
    }

    #[test]
    fn what_is_wrong_with_a_message_is_named() {
        let subscribe = |fields: &str| format!(r#"{{"type":"subscribe",{fields}}}"#);
        let payload = |fields: &str| subscribe(&format!(r#""id":"1","payload":{{{fields}}}"#));
        let deep = format!(r#""query":"","variables":{{"x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        for (text, wrong) in [
            (String::new(), "not JSON"),
            ("{".to_owned(), "not JSON"),
            ("{} {}".to_owned(), "not JSON"),
            (r#"{"type":"ping"} x"#.to_owned(), "not JSON"),
            ("[]".to_owned(), "the message is not an object"),
            (r#""ping""#.to_owned(), "the message is not an object"),
            ("null".to_owned(), "the message is not an object"),
            ("{}".to_owned(), "no type"),
            (r#"{"type":"ping","type":"ping"}"#.to_owned(), r#""type" is given twice"#),
            (payload(r#""query":"{ a }","query":"{ b }""#), "subscribe: payload.query is given twice"),
            (r#"{"type":1}"#.to_owned(), "type of the message is not a string"),
            (r#"{"type":"start"}"#.to_owned(), r#""start" is not a message type of graphql-transport-ws"#),
            (format!(r#"{{"type":"{}"}}"#, "é".repeat(100)), "is not a message type"),
            (r#"{"type":"next","id":"1"}"#.to_owned(), "next: only a server"),
            (r#"{"type":"error","id":"1"}"#.to_owned(), "error: only a server"),
            (r#"{"type":"connection_ack"}"#.to_owned(), "connection_ack: only a server"),
            (r#"{"type":"connection_init","payload":[]}"#.to_owned(), "connection_init: payload is neither"),
            (r#"{"type":"ping","payload":"x"}"#.to_owned(), "ping: payload is neither"),
            (r#"{"type":"pong","payload":0}"#.to_owned(), "pong: payload is neither"),
            (r#"{"type":"complete"}"#.to_owned(), "complete: there is no id"),
            (r#"{"type":"complete","id":1}"#.to_owned(), "complete: id is not a string"),
            (r#"{"type":"complete","id":""}"#.to_owned(), "complete: id is empty"),
            (subscribe(r#""payload":{"query":""}"#), "subscribe: there is no id"),
            (subscribe(r#""id":null,"payload":{"query":""}"#), "subscribe: id is not a string"),
            (subscribe(r#""id":"","payload":{"query":""}"#), "subscribe: id is empty"),
            (subscribe(&format!(r#""id":"{}""#, "x".repeat(257))), "subscribe: id is longer than 256 bytes"),
            (subscribe(r#""id":"1""#), "subscribe: there is no payload"),
            (subscribe(r#""id":"1","payload":"{ a }""#), "subscribe: payload is not an object"),
            (payload(""), "subscribe: payload.query is missing"),
            (payload(r#""extensions":{"other":{}}"#), "subscribe: payload.query is missing"),
            (payload(r#""query":null"#), "subscribe: payload.query is not a string"),
            (payload(r#""query":"","operationName":1"#), "subscribe: payload.operationName is neither"),
            (payload(r#""query":"","variables":[]"#), "subscribe: payload.variables is neither"),
            (payload(r#""query":"","variables":"{}""#), "subscribe: payload.variables is neither"),
            (payload(r#""query":"","extensions":true"#), "subscribe: payload.extensions is neither"),
            (payload(&deep), "subscribe: payload.variables: recursion limit"),
        ] {
            let found = read(&text).map(|_| ()).expect_err(&text);
            assert!(found.contains(wrong), "{text}: {found}");
        }
    }

    #[test]
    fn each_dialect_has_messages_of_its_own() {
        let payload = r#""id":"1","payload":{"query":"{ a }"}"#;
        for (kind, fields, transport, legacy) in [
            ("connection_init", "", true, true),
            ("ping", "", true, false),
            ("pong", "", true, false),
            ("subscribe", payload, true, false),
            ("start", payload, false, true),
            ("complete", r#""id":"1""#, true, false),
            ("stop", r#""id":"1""#, false, true),
            ("connection_terminate", "", false, true),
            ("connection_ack", "", false, false),
            ("next", payload, false, false),
            ("data", payload, false, false),
            ("error", payload, false, false),
        ] {
            let separator = if fields.is_empty() { "" } else { "," };
            let text = format!(r#"{{"type":"{kind}"{separator}{fields}}}"#);
            for (subprotocol, is_known) in [(Subprotocol::Transport, transport), (Subprotocol::Legacy, legacy)] {
                assert_eq!(super::read(&text, subprotocol).is_ok(), is_known, "{subprotocol:?} {text}");
            }
        }
    }
}
