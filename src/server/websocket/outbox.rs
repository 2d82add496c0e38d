//! The messages that wait to be sent on one socket, bounded up to one message above the bound.
//!
//! Results and replies have bounds of their own: a client that is slow to read its results can still stop an operation, and
//! of one that sends and never reads no more messages are read.

use std::collections::VecDeque;

use super::message::Id;
use super::protocol::Closing;
use crate::execution::memory::Reservation;
use crate::execution::payload::Utf8Bytes;

/// Results are added up to so many.
const RESULTS: usize = 64;
/// Results are added up to so many bytes. One alone may be larger.
const RESULT_BYTES: usize = 64 << 10;
/// Replies are added up to so many.
const REPLIES: usize = 256;
/// Replies are added up to so many bytes.
const REPLY_BYTES: usize = 256 << 10;

/// Why a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageCause {
    /// An operation yielded something.
    Result,
    /// The client sent something.
    Reply,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: VecDeque<QueuedMessage>,
    results: Total,
    replies: Total,
    closing: Option<Closing>,
    is_closing: bool,
    /// Of what is popped, and not yet sent.
    sending: Vec<Reservation>,
}

#[derive(Debug)]
struct QueuedMessage {
    about: Option<Id>,
    cause: MessageCause,
    text: Utf8Bytes,
    reservation: Option<Reservation>,
}

#[derive(Debug, Default)]
struct Total {
    count: usize,
    bytes: usize,
}

/// The next message on the wire.
#[derive(Debug, PartialEq)]
pub(crate) enum OutboxItem {
    Text(Utf8Bytes),
    Close(Closing),
}

impl Outbox {
    /// Adds a message about an operation, with a reservation until it is sent.
    pub(crate) fn push(
        &mut self,
        about: Option<Id>,
        cause: MessageCause,
        text: impl Into<Utf8Bytes>,
        reservation: Option<Reservation>,
    ) {
        if self.is_closing {
            return;
        }
        let text = text.into();
        let total = self.total(cause);
        total.count += 1;
        total.bytes = total.bytes.saturating_add(text.len());
        self.messages.push_back(QueuedMessage { about, cause, text, reservation });
    }

    /// Whether operations may be polled.
    pub(crate) fn has_room_for_results(&self) -> bool {
        !self.is_closing && self.results.count < RESULTS && self.results.bytes < RESULT_BYTES
    }

    /// Whether messages of the client may be read.
    pub(crate) fn has_room_for_replies(&self) -> bool {
        self.replies.count < REPLIES && self.replies.bytes < REPLY_BYTES
    }

    /// Removes the messages about an operation.
    pub(crate) fn withdraw(&mut self, id: &Id) {
        let (results, replies) = (&mut self.results, &mut self.replies);
        self.messages.retain(|waiting| {
            let stays = waiting.about.as_ref() != Some(id);
            if !stays {
                waiting.leave(results, replies);
            }
            stays
        });
    }

    /// Closes the socket, and sends nothing before that.
    pub(crate) fn close(&mut self, closing: Closing) {
        *self = Self { closing: Some(closing), is_closing: true, ..Self::default() };
    }

    /// Closes the socket after what is waiting.
    pub(crate) fn end(&mut self, closing: Closing) {
        self.is_closing = true;
        self.closing = Some(closing);
    }

    /// The client closed the socket: nothing is to be sent.
    pub(crate) fn abandon(&mut self) {
        *self = Self { is_closing: true, ..Self::default() };
    }

    /// Whether nothing is added any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.closing.is_none()
    }

    /// Removes the next message.
    pub(crate) fn pop(&mut self) -> Option<OutboxItem> {
        let Some(mut waiting) = self.messages.pop_front() else { return self.closing.take().map(OutboxItem::Close) };
        waiting.leave(&mut self.results, &mut self.replies);
        self.sending.extend(waiting.reservation.take());
        Some(OutboxItem::Text(waiting.text))
    }

    /// What was popped is sent.
    pub(crate) fn sent(&mut self) {
        self.sending.clear();
    }

    fn total(&mut self, cause: MessageCause) -> &mut Total {
        match cause {
            MessageCause::Result => &mut self.results,
            MessageCause::Reply => &mut self.replies,
        }
    }
}

impl QueuedMessage {
    fn leave(&self, results: &mut Total, replies: &mut Total) {
        let total = match self.cause {
            MessageCause::Result => results,
            MessageCause::Reply => replies,
        };
        total.count = total.count.saturating_sub(1);
        total.bytes = total.bytes.saturating_sub(self.text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(outbox: &mut Outbox) -> Vec<OutboxItem> {
        std::iter::from_fn(|| outbox.pop()).collect()
    }

    fn text(text: &'static str) -> OutboxItem {
        OutboxItem::Text(text.into())
    }

    #[test]
    fn messages_leave_in_their_order_and_make_room() {
        let mut outbox = Outbox::default();
        outbox.push(None, MessageCause::Reply, "a", None);
        outbox.push(Some("1".into()), MessageCause::Result, "b", None);
        assert_eq!(all(&mut outbox), [text("a"), text("b")]);
        assert!(outbox.is_empty() && outbox.results.count == 0 && outbox.replies.bytes == 0);
    }

    #[test]
    fn results_and_replies_have_a_room_of_their_own_in_number_and_in_bytes() {
        let full = |cause, size: usize| {
            let mut outbox = Outbox::default();
            let has_room = |outbox: &Outbox| match cause {
                MessageCause::Result => outbox.has_room_for_results(),
                MessageCause::Reply => outbox.has_room_for_replies(),
            };
            let mut count = 0;
            while has_room(&outbox) {
                outbox.push(None, cause, "x".repeat(size), None);
                count += 1;
            }
            (count, outbox)
        };
        for size in [1, 10_000, 1_000_000] {
            let (results, outbox) = full(MessageCause::Result, size);
            assert_eq!(results, RESULTS.min(RESULT_BYTES.div_ceil(size)));
            assert!(outbox.has_room_for_replies());
            let (replies, outbox) = full(MessageCause::Reply, size);
            assert_eq!(replies, REPLIES.min(REPLY_BYTES.div_ceil(size)));
            assert!(outbox.has_room_for_results());
        }
    }

    #[test]
    fn what_is_about_an_operation_can_be_taken_back() {
        let mut outbox = Outbox::default();
        for (about, message) in [(None, "ack"), (Some("a"), "a1"), (Some("b"), "b1"), (Some("a"), "a2")] {
            outbox.push(about.map(Id::from), MessageCause::Result, message, None);
        }
        outbox.withdraw(&"a".into());
        assert_eq!((outbox.results.count, outbox.results.bytes), (2, 5));
        assert_eq!(all(&mut outbox), [text("ack"), text("b1")]);
    }

    #[test]
    fn a_close_frame_is_the_last_and_the_only_one_unless_it_waits_for_the_rest() {
        let closing = || Closing::new(1012, "the server stops".to_owned());
        for (at_once, before) in [(true, vec![]), (false, vec![text("a")])] {
            let mut outbox = Outbox::default();
            outbox.push(None, MessageCause::Result, "a", None);
            if at_once {
                outbox.close(closing());
            } else {
                outbox.end(closing());
            }
            outbox.push(None, MessageCause::Result, "b", None);
            assert!(outbox.is_closing() && !outbox.has_room_for_results());
            assert_eq!(all(&mut outbox), before.into_iter().chain([OutboxItem::Close(closing())]).collect::<Vec<_>>());
        }
    }
}
