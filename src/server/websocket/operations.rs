//! The operations of one socket. They take turns, one payload each, so that one that always has something to say does
//! not keep others from being heard.
//!
//! Whenever the socket is woken all of them are asked, which is cheap for the few that a socket commonly has, and bounded
//! by how many it may have.

use std::task::{Context, Poll};

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;

use super::protocol::Id;
use crate::server::execution::payload::Payload;

#[derive(Default)]
pub(crate) struct RoundRobin {
    /// In the order of their turns.
    running: Vec<(Id, BoxStream<'static, Payload>)>,
    /// Whose turn it is.
    turn: usize,
}

impl RoundRobin {
    pub(crate) fn push(&mut self, id: Id, payloads: BoxStream<'static, Payload>) {
        self.running.push((id, payloads));
    }

    /// Drops an operation, if it is there.
    pub(crate) fn remove(&mut self, id: &Id) {
        if let Some(at) = self.running.iter().position(|(running, _)| running == id) {
            drop(self.running.remove(at));
            if at < self.turn {
                self.turn -= 1;
            }
        }
    }

    /// What the next operation says that has something to say; `None` if it was its last word, with which it is dropped.
    /// Pending if all are silent, also if there is none.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(Id, Option<Payload>)> {
        for _ in 0..self.running.len() {
            if self.turn >= self.running.len() {
                self.turn = 0;
            }
            let (id, payloads) = &mut self.running[self.turn];
            match payloads.poll_next_unpin(cx) {
                Poll::Pending => self.turn += 1,
                Poll::Ready(Some(payload)) => {
                    self.turn += 1;
                    return Poll::Ready((id.clone(), Some(payload)));
                }
                Poll::Ready(None) => {
                    let (id, _) = self.running.remove(self.turn);
                    return Poll::Ready((id, None));
                }
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use async_graphql::futures_util::stream;
    use proptest::prelude::*;

    use super::*;

    /// What is said until all are silent, at most so much; a capital is a last word.
    fn said(turns: &mut RoundRobin, most: usize) -> String {
        let mut cx = Context::from_waker(Waker::noop());
        let next = || match turns.poll_next(&mut cx) {
            Poll::Ready((id, Some(_))) => Some(id.to_string()),
            Poll::Ready((id, None)) => Some(id.to_uppercase()),
            Poll::Pending => None,
        };
        std::iter::from_fn(next).take(most).collect()
    }

    fn payload() -> Payload {
        Payload::Result("{}".into())
    }

    /// Says so much and then ends, or falls silent for ever.
    fn saying(count: usize, ends: bool) -> BoxStream<'static, Payload> {
        let payloads = stream::iter((0..count).map(|_| payload()));
        if ends { payloads.boxed() } else { payloads.chain(stream::pending()).boxed() }
    }

    #[test]
    fn one_that_always_has_something_to_say_leaves_others_their_turn() {
        let mut turns = RoundRobin::default();
        turns.push("a".into(), stream::repeat_with(payload).boxed());
        turns.push("b".into(), saying(2, true));
        turns.push("c".into(), saying(3, false));
        assert_eq!(said(&mut turns, 12), "abcabcaBcaaa");
    }

    #[test]
    fn one_that_is_removed_says_no_more_and_costs_nobody_a_turn() {
        let mut turns = RoundRobin::default();
        for id in ["a", "b", "c"] {
            turns.push(id.into(), saying(9, false));
        }
        assert_eq!(said(&mut turns, 2), "ab");
        turns.remove(&"a".into());
        turns.remove(&"x".into());
        assert_eq!(said(&mut turns, 4), "cbcb");
    }

    proptest! {
        #[test]
        fn everybody_says_all_there_is_to_say_and_nobody_is_ahead_by_more_than_one_while_others_can_speak(
            counts in prop::collection::vec((0..6_usize, any::<bool>()), 0..8),
        ) {
            let mut turns = RoundRobin::default();
            for (number, (count, ends)) in counts.iter().enumerate() {
                turns.push(number.to_string().as_str().into(), saying(*count, *ends));
            }
            let mut told = vec![0_usize; counts.len()];
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready((id, payload)) = turns.poll_next(&mut cx) {
                let number: usize = id.parse().unwrap();
                prop_assert!(payload.is_some() || counts[number].1);
                told[number] += usize::from(payload.is_some());
                for (other, (count, _)) in counts.iter().enumerate() {
                    prop_assert!(told[other] == *count || told[other] + 1 >= told[number]);
                }
            }
            prop_assert_eq!(told, counts.iter().map(|(count, _)| *count).collect::<Vec<_>>());
        }
    }
}
