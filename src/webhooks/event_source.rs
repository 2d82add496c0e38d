//! The open stream of a hook, and how much of its next event is requested after failures.
//!
//! ```text
//!   all fields ── failed five times ──► only the position ── read ──► all fields, once more ──► sent
//!                                                                              └── failed ──► sent without them
//! ```
//!
//! A failure does not say whether the stream failed or a field of the event. Once the position is read, the stream works. If it has
//! another event first then, the one whose position was read is sent without its fields, and the stream continues behind it.

use super::message::HookMessage;
use super::subscription::EventDetail;
use crate::api::Events;

/// After so many failures of the same event it is sent with what there is of it, or without its fields.
const EVENT_FAILURES: u32 = 4;

/// The open stream of a hook, and what has failed since the last event.
#[derive(Default)]
pub(crate) struct EventSource {
    pub(crate) events: Option<Events>,
    failures: u32,
    /// Code and message of the last of them.
    failure: Option<(String, String)>,
    /// The event without its fields, while they are requested once more.
    bare: Option<HookMessage>,
}

impl EventSource {
    /// How much of the next event is requested.
    pub(crate) fn detail(&self) -> EventDetail {
        if self.failures <= EVENT_FAILURES || self.bare.is_some() { EventDetail::Full } else { EventDetail::Position }
    }

    /// How often the event has failed.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether an event is read again of which a field failed that may succeed in a moment.
    pub(crate) fn is_patient(&self) -> bool {
        self.failures < EVENT_FAILURES
    }

    /// Code and message of the last failure.
    pub(crate) fn last_failure(&self) -> Option<(String, String)> {
        self.failure.clone()
    }

    /// An event was read, with so much of it. Returns what is to be sent: an event without its fields is kept until they have
    /// failed once more, or until another event was read instead, which is read again behind it.
    pub(crate) fn receive(&mut self, detail: EventDetail, message: HookMessage) -> Option<HookMessage> {
        match detail {
            EventDetail::Full => {
                if let Some(bare) = self.bare.take_if(|bare| bare.cursor != message.cursor) {
                    *self = Self::default();
                    return Some(bare);
                }
                *self = Self { events: self.events.take(), ..Self::default() };
                Some(message)
            }
            EventDetail::Position => {
                self.events = None;
                self.bare = Some(message);
                None
            }
        }
    }

    /// The stream or the event failed. Returns the event without its fields, if it is to be sent so.
    pub(crate) fn fail(&mut self, code: String, message: String) -> Option<HookMessage> {
        if let Some(bare) = self.bare.take() {
            *self = Self::default();
            return Some(bare);
        }
        self.events = None;
        self.failures = self.failures.saturating_add(1);
        self.failure = Some((code, message));
        None
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::Value;
    use async_graphql::futures_util::{StreamExt, stream};

    use super::*;

    fn message(kind: &str) -> HookMessage {
        message_at("c", kind)
    }

    fn message_at(cursor: &str, kind: &str) -> HookMessage {
        HookMessage::of_event("shop", (kind.to_owned(), cursor.to_owned()), &Value::Null, &[], 0).unwrap()
    }

    /// One whose next event has failed with all fields as often as that is tried.
    fn failed() -> EventSource {
        let mut source = EventSource::default();
        for _ in 0..5 {
            assert_eq!(source.detail(), EventDetail::Full);
            assert_eq!(source.fail("RESOURCE_EXHAUSTED".to_owned(), "busy".to_owned()), None);
        }
        assert_eq!(source.detail(), EventDetail::Position);
        source
    }

    #[test]
    fn an_event_is_sent_with_its_fields_when_the_stream_works_again() {
        let mut source = failed();
        assert_eq!(source.receive(EventDetail::Position, message("bare")), None);
        assert_eq!(source.detail(), EventDetail::Full, "the stream had failed, and not a field");
        assert_eq!(source.receive(EventDetail::Full, message("whole")), Some(message("whole")));
        assert_eq!((source.failures(), source.last_failure()), (0, None));
        assert_eq!(source.detail(), EventDetail::Full);
    }

    #[test]
    fn an_event_is_not_lost_when_another_is_read_in_its_place() {
        let mut source = failed();
        assert_eq!(source.receive(EventDetail::Position, message("bare")), None);
        source.events = Some(Events::new(|_, _| stream::empty().boxed()));
        assert_eq!(source.receive(EventDetail::Full, message_at("d", "other")), Some(message("bare")));
        assert!(source.events.is_none(), "the other is read again behind it");
        assert_eq!((source.failures(), source.detail()), (0, EventDetail::Full));
        assert_eq!(source.receive(EventDetail::Full, message_at("d", "other")), Some(message_at("d", "other")));
    }

    #[test]
    fn an_event_whose_fields_fail_again_is_sent_without_them() {
        let mut source = failed();
        assert_eq!(source.last_failure(), Some(("RESOURCE_EXHAUSTED".to_owned(), "busy".to_owned())));
        assert_eq!(source.receive(EventDetail::Position, message("bare")), None);
        assert_eq!(source.fail("TIMEOUT".to_owned(), "late".to_owned()), Some(message("bare")));
        assert_eq!((source.failures(), source.last_failure(), source.detail()), (0, None, EventDetail::Full));
    }
}
