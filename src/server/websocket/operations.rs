//! The operations of one socket, polled in turn for one payload each, so that one that is always ready does not starve
//! the others.
//!
//! Whenever the socket is woken all of them are polled, which is cheap for the few that a socket commonly has, and bounded
//! by how many it may have.

use std::task::{Context, Poll};

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;

use super::message::Id;
use crate::server::execution::payload::Payload;

#[derive(Default)]
pub(crate) struct RoundRobin {
    /// In the order of polling.
    running: Vec<(Id, BoxStream<'static, Payload>)>,
    /// The next to poll.
    next: usize,
}

impl RoundRobin {
    pub(crate) fn push(&mut self, id: Id, payloads: BoxStream<'static, Payload>) {
        self.running.push((id, payloads));
    }

    /// Drops an operation, if it is there.
    pub(crate) fn remove(&mut self, id: &Id) {
        if let Some(at) = self.running.iter().position(|(running, _)| running == id) {
            drop(self.running.remove(at));
            if at < self.next {
                self.next -= 1;
            }
        }
    }

    /// The next payload of an operation; `None` if it ends, with which it is dropped. Pending if none is ready.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(Id, Option<Payload>)> {
        for _ in 0..self.running.len() {
            if self.next >= self.running.len() {
                self.next = 0;
            }
            let (id, payloads) = &mut self.running[self.next];
            match payloads.poll_next_unpin(cx) {
                Poll::Pending => self.next += 1,
                Poll::Ready(Some(payload)) => {
                    self.next += 1;
                    return Poll::Ready((id.clone(), Some(payload)));
                }
                Poll::Ready(None) => {
                    let (id, _) = self.running.remove(self.next);
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

    /// The ids of what is polled until none is ready; a capital is the end of an operation.
    fn polled(operations: &mut RoundRobin, most: usize) -> String {
        let mut cx = Context::from_waker(Waker::noop());
        let next = || match operations.poll_next(&mut cx) {
            Poll::Ready((id, Some(_))) => Some(id.to_string()),
            Poll::Ready((id, None)) => Some(id.to_uppercase()),
            Poll::Pending => None,
        };
        std::iter::from_fn(next).take(most).collect()
    }

    fn payload() -> Payload {
        Payload::Result("{}".into())
    }

    /// Yields so many payloads and then ends, or stays pending.
    fn yielding(count: usize, ends: bool) -> BoxStream<'static, Payload> {
        let payloads = stream::iter((0..count).map(|_| payload()));
        if ends { payloads.boxed() } else { payloads.chain(stream::pending()).boxed() }
    }

    #[test]
    fn an_operation_that_is_always_ready_does_not_starve_others() {
        let mut operations = RoundRobin::default();
        operations.push("a".into(), stream::repeat_with(payload).boxed());
        operations.push("b".into(), yielding(2, true));
        operations.push("c".into(), yielding(3, false));
        assert_eq!(polled(&mut operations, 12), "abcabcaBcaaa");
    }

    #[test]
    fn a_removed_operation_yields_nothing_and_skips_no_other() {
        let mut operations = RoundRobin::default();
        for id in ["a", "b", "c"] {
            operations.push(id.into(), yielding(9, false));
        }
        assert_eq!(polled(&mut operations, 2), "ab");
        operations.remove(&"a".into());
        operations.remove(&"x".into());
        assert_eq!(polled(&mut operations, 4), "cbcb");
    }

    proptest! {
        #[test]
        fn all_payloads_are_yielded_and_no_operation_is_ahead_by_two(
            counts in prop::collection::vec((0..6_usize, any::<bool>()), 0..8),
        ) {
            let mut operations = RoundRobin::default();
            for (number, (count, ends)) in counts.iter().enumerate() {
                operations.push(number.to_string().as_str().into(), yielding(*count, *ends));
            }
            let mut yielded = vec![0_usize; counts.len()];
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready((id, payload)) = operations.poll_next(&mut cx) {
                let number: usize = id.parse().unwrap();
                prop_assert!(payload.is_some() || counts[number].1);
                yielded[number] += usize::from(payload.is_some());
                for (other, (count, _)) in counts.iter().enumerate() {
                    prop_assert!(yielded[other] == *count || yielded[other] + 1 >= yielded[number]);
                }
            }
            prop_assert_eq!(yielded, counts.iter().map(|(count, _)| *count).collect::<Vec<_>>());
        }
    }
}
