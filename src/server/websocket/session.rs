//! Runs the conversation of one socket: does what the [`Protocol`] says, and reports to it what operations yield. Nothing is
//! taken from operations that there is no space for.
//!
//! Whenever the socket is woken its operations are polled, beginning with any of them, so that one that is always ready does
//! not starve the others; their shares are left to chance. That is cheap for the few that a socket commonly has, and bounded
//! by how many it may have.

use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_graphql::Request;
use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use tokio_stream::StreamMap;

use super::auth::SocketAuth;
use super::message::Id;
use super::outbox::{MessageCause, Outbox};
use super::protocol::{Action, Protocol, SocketInput};
use crate::api::Include;
use crate::execution::client::Client;
use crate::execution::document::admission::{Admission, RequestSender};
use crate::execution::document::persisted::Persisted;
use crate::execution::memory::Reservation;
use crate::execution::operation_queue::OperationQueue;
use crate::execution::payload::{ClientPayload, Payload, Refused};
use crate::execution::service::GraphqlService;
use crate::metrics::server_metrics::Transport;
use crate::server::middleware::rate_limit::OperationRate;

/// Operations that run, each with its payloads, and `None` when it ends.
pub(crate) type Operations = StreamMap<Id, BoxStream<'static, Option<ClientPayload>>>;

/// One client's conversation.
pub(crate) struct Session {
    pub(crate) protocol: Protocol,
    pub(crate) client: Arc<Client>,
    pub(crate) auth: SocketAuth,
    pub(crate) rate: OperationRate,
    pub(crate) persisted: Arc<Persisted>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) service: GraphqlService,
    pub(crate) queue: Arc<OperationQueue>,
    pub(crate) operations: Operations,
}

impl Session {
    /// The client sent a text.
    pub(crate) fn receive_text(&mut self, text: &str, outbox: &mut Outbox) {
        self.on(&SocketInput::Text(text), MessageCause::Reply, None, outbox);
    }

    /// The client sent bytes.
    pub(crate) fn receive_binary(&mut self, outbox: &mut Outbox) {
        self.on(&SocketInput::Binary, MessageCause::Reply, None, outbox);
    }

    /// The time for `connection_init` is over.
    pub(crate) fn init_due(&mut self, outbox: &mut Outbox) {
        self.on(&SocketInput::InitDue, MessageCause::Reply, None, outbox);
    }

    /// Sends what operations yield, as far as there is space, and wakes the task when there is more.
    pub(crate) fn poll_operations(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) {
        while outbox.has_room_for_results() {
            let Poll::Ready(Some((id, yielded))) = self.operations.poll_next_unpin(cx) else { return };
            match yielded {
                Some(ClientPayload { payload, reservation }) => {
                    self.on(&SocketInput::Yielded(&id, &payload), MessageCause::Result, reservation, outbox);
                }
                None => self.on(&SocketInput::Ended(&id), MessageCause::Result, None, outbox),
            }
        }
    }

    fn start(&self, request: Request) -> Result<BoxStream<'static, ClientPayload>, Refused> {
        let resolved = self.rate.count().and_then(|()| self.persisted.resolve(request));
        let (request, unstored) =
            resolved.inspect_err(|reason| self.service.count_refused(Transport::Websocket, reason))?;
        let (client, include) = (self.client.clone(), Include::default());
        let admitted =
            self.admission.admit(request, RequestSender { client, transport: Transport::Websocket, include })?;
        let payloads = self.service.subscribe(admitted, Some(&self.queue))?;
        Ok(self.persisted.store_after_result(unstored, payloads, ClientPayload::is_result))
    }

    /// Does what follows from this. The reservation is for the message that it leads to.
    fn on(
        &mut self,
        input: &SocketInput<'_>,
        cause: MessageCause,
        mut reservation: Option<Reservation>,
        outbox: &mut Outbox,
    ) {
        for action in self.protocol.on(input) {
            match action {
                Action::Authenticate(authorization) => match self.auth.authenticate(authorization.as_deref()) {
                    Ok(client) => self.client = client,
                    Err(closing) => {
                        if let Some(reason) = self.protocol.authentication_error(&closing) {
                            outbox.push(None, cause, reason, None);
                        }
                        return outbox.end(closing);
                    }
                },
                Action::Send(about, text) => outbox.push(about, cause, text, reservation.take()),
                Action::Start(id, request) => match self.start(*request) {
                    Ok(payloads) => add(&mut self.operations, id, payloads),
                    Err(refused) => {
                        self.on(&SocketInput::Yielded(&id, &Payload::Refused(refused)), cause, None, outbox);
                    }
                },
                Action::Stop(id) => {
                    self.operations.remove(&id);
                    outbox.withdraw(&id);
                }
                Action::End(id) => drop(self.operations.remove(&id)),
                Action::Close(closing) => outbox.close(closing),
            }
        }
    }
}

fn add(operations: &mut Operations, id: Id, payloads: BoxStream<'static, ClientPayload>) {
    // the id is free, or that of an operation whose end was reported
    operations.insert(id, payloads.map(Some).chain(stream::once(ready(None))).boxed());
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    fn payload() -> ClientPayload {
        Payload::Result("{}".into()).into()
    }

    /// Yields so many payloads and then ends, or stays pending.
    fn yielding(count: usize, ends: bool) -> BoxStream<'static, ClientPayload> {
        let payloads = stream::iter((0..count).map(|_| payload()));
        if ends { payloads.boxed() } else { payloads.chain(stream::pending()).boxed() }
    }

    /// The ids of what is polled until none is ready; a capital is the end of an operation.
    fn polled(operations: &mut Operations, most: usize) -> String {
        let mut cx = Context::from_waker(Waker::noop());
        let next = || match operations.poll_next_unpin(&mut cx) {
            Poll::Ready(Some((id, Some(_)))) => Some(id.to_string()),
            Poll::Ready(Some((id, None))) => Some(id.to_uppercase()),
            Poll::Ready(None) | Poll::Pending => None,
        };
        std::iter::from_fn(next).take(most).collect()
    }

    #[test]
    fn an_operation_that_is_always_ready_does_not_starve_others() {
        let mut operations = Operations::default();
        add(&mut operations, "a".into(), stream::repeat_with(payload).boxed());
        add(&mut operations, "b".into(), yielding(2, true));
        add(&mut operations, "c".into(), yielding(3, false));
        // a chance of one in 10^50 that it is not enough
        let polled = polled(&mut operations, 1_000).replace('a', "");
        assert_eq!(polled.replace('c', ""), "bbB");
        assert_eq!(polled.replace(['b', 'B'], ""), "ccc");
    }

    #[test]
    fn an_operation_may_have_the_id_of_one_that_ended() {
        let mut operations = Operations::default();
        add(&mut operations, "a".into(), yielding(1, true));
        assert_eq!(polled(&mut operations, 2), "aA");
        add(&mut operations, "a".into(), yielding(2, false));
        assert_eq!(polled(&mut operations, 9), "aa");
    }

    #[test]
    fn a_removed_operation_yields_nothing_and_skips_no_other() {
        let mut operations = Operations::default();
        for id in ["a", "b", "c"] {
            add(&mut operations, id.into(), yielding(9, false));
        }
        let before = polled(&mut operations, 2);
        operations.remove("a");
        operations.remove("x");
        let after = polled(&mut operations, 100);
        let all = before + &after;
        assert!(!after.contains('a'));
        assert_eq!([all.matches('b').count(), all.matches('c').count()], [9, 9]);
    }

    proptest! {
        #[test]
        fn all_payloads_are_yielded_and_then_the_end(
            counts in prop::collection::vec((0..6_usize, any::<bool>()), 0..8),
        ) {
            let mut operations = Operations::default();
            for (number, (count, ends)) in counts.iter().enumerate() {
                add(&mut operations, number.to_string().as_str().into(), yielding(*count, *ends));
            }
            let mut yielded = vec![(0_usize, false); counts.len()];
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready(Some((id, payload))) = operations.poll_next_unpin(&mut cx) {
                let (count, has_ended) = &mut yielded[id.parse::<usize>().unwrap()];
                prop_assert!(!*has_ended);
                *count += usize::from(payload.is_some());
                *has_ended = payload.is_none();
            }
            prop_assert_eq!(yielded, counts);
        }
    }
}
