//! A message: what is sent for an event. Its id and body are made once, and are the same for every attempt.

use async_graphql::{ServerError, Value};
use bitcoin::hashes::{Hash, HashEngine, sha256};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A message of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HookMessage {
    /// The same for every attempt, so that a receiver can ignore one that it has.
    pub(crate) id: String,
    /// What happened, as in `ledger.confirmed`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// When it was made, in seconds since 1970.
    pub(crate) created_at: u64,
    /// What is sent, to the byte.
    pub(crate) body: String,
    /// Where the stream resumes once it is delivered.
    pub(crate) cursor: String,
    /// Whether the cursor is that of a state, and not of an event.
    pub(crate) is_snapshot: bool,
}

/// The body of a message.
#[derive(Serialize)]
struct MessageBody<'a, D> {
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: String,
    webhook: &'a str,
    data: &'a D,
    #[serde(skip_serializing_if = "<[ServerError]>::is_empty")]
    errors: &'a [ServerError],
}

/// The data of a message that says that events are missing.
#[derive(Serialize)]
struct GapData<'a> {
    code: &'a str,
    message: &'a str,
    /// The cursor that does not lead on.
    after: &'a str,
    /// That of the state behind which the events go on.
    cursor: &'a str,
}

/// The type of a message that says that events are missing.
pub(crate) const GAP: &str = "webhook.gap";

impl HookMessage {
    /// That of an event.
    ///
    /// Errors: serialising the event fails.
    pub(crate) fn of_event(
        hook: &str,
        (kind, cursor): (String, String),
        event: &Value,
        errors: &[ServerError],
        created_at: u64,
    ) -> Result<Self, serde_json::Error> {
        let body = MessageBody { kind: &kind, timestamp: timestamp(created_at), webhook: hook, data: event, errors };
        let body = serde_json::to_string(&body)?;
        Ok(Self { id: id(&[hook, &kind, &cursor]), kind, created_at, body, cursor, is_snapshot: false })
    }

    /// The notice that the stream does not go on behind the cursor `after`, but behind a state.
    ///
    /// Errors: serialising it fails.
    pub(crate) fn of_gap(
        hook: &str,
        (code, reason): (&str, &str),
        after: &str,
        cursor: String,
        created_at: u64,
    ) -> Result<Self, serde_json::Error> {
        let data = GapData { code, message: reason, after, cursor: &cursor };
        let body = MessageBody { kind: GAP, timestamp: timestamp(created_at), webhook: hook, data: &data, errors: &[] };
        let body = serde_json::to_string(&body)?;
        Ok(Self {
            id: id(&[hook, GAP, after, &cursor]),
            kind: GAP.to_owned(),
            created_at,
            body,
            cursor,
            is_snapshot: true,
        })
    }
}

/// The id of the message that these name.
fn id(parts: &[&str]) -> String {
    let mut engine = sha256::Hash::engine();
    for part in parts {
        engine.input(part.as_bytes());
        engine.input(&[0]);
    }
    let digest = sha256::Hash::from_engine(engine).to_string();
    format!("msg_{}", &digest[..32])
}

/// Seconds since 1970 as ISO 8601 writes them.
pub(crate) fn timestamp(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).ok();
    seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use async_graphql::value;

    use super::*;

    fn message(cursor: &str) -> HookMessage {
        let event = value!({ "seq": 3, "kind": "SEEN" });
        HookMessage::of_event("shop", ("ledger.seen".to_owned(), cursor.to_owned()), &event, &[], 1_700_000_000)
            .unwrap()
    }

    #[test]
    fn the_body_has_type_time_hook_and_the_event_in_its_order() {
        assert_eq!(
            message("c").body,
            r#"{"type":"ledger.seen","timestamp":"2023-11-14T22:13:20Z","webhook":"shop","data":{"seq":3,"kind":"SEEN"}}"#
        );
    }

    #[test]
    fn the_id_is_that_of_the_event() {
        assert_eq!(message("c"), message("c"));
        assert_ne!(message("c").id, message("d").id);
        assert!(message("c").id.starts_with("msg_") && message("c").id.len() == 36);
    }

    #[test]
    fn errors_of_fields_are_beside_the_event() {
        let errors = [ServerError::new("no node", None)];
        let made = HookMessage::of_event("shop", ("t".to_owned(), "c".to_owned()), &Value::Null, &errors, 0).unwrap();
        assert_eq!(
            made.body,
            r#"{"type":"t","timestamp":"1970-01-01T00:00:00Z","webhook":"shop","data":null,"errors":[{"message":"no node"}]}"#
        );
    }

    #[test]
    fn a_gap_leads_to_a_state() {
        let gap = HookMessage::of_gap("shop", ("CURSOR_EXPIRED", "why"), "old", "new".to_owned(), 0).unwrap();
        assert_eq!((gap.cursor.as_str(), gap.is_snapshot, gap.kind.as_str()), ("new", true, "webhook.gap"));
        assert!(gap.body.contains(r#""data":{"code":"CURSOR_EXPIRED","message":"why","after":"old","cursor":"new"}"#));
    }
}
