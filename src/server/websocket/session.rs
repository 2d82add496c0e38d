//! Runs the conversation of one socket: does what the [`Protocol`] says, and reports to it what operations yield. Nothing is
//! taken from operations that there is no space for.

use std::sync::Arc;
use std::task::{Context, Poll};

use async_graphql::Request;
use async_graphql::futures_util::stream::BoxStream;

use super::auth::SocketAuth;
use super::operations::RoundRobin;
use super::outbox::{MessageCause, Outbox};
use super::protocol::{Action, Protocol, SocketInput};
use crate::api::Include;
use crate::server::auth::authenticator::Client;
use crate::server::document::admission::{Admission, RequestSender};
use crate::server::document::persisted::Persisted;
use crate::server::execution::operation_queue::OperationQueue;
use crate::server::execution::payload::{Payload, Refused};
use crate::server::execution::service::GraphqlService;
use crate::server::limits::memory::{MemoryBudget, Reservation};
use crate::server::metrics::server_metrics::Transport;
use crate::server::middleware::rate_limit::OperationRate;

/// One client's conversation.
pub(crate) struct Session {
    pub(crate) protocol: Protocol,
    pub(crate) client: Arc<Client>,
    pub(crate) auth: SocketAuth,
    pub(crate) rate: OperationRate,
    pub(crate) persisted: Arc<Persisted>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) service: GraphqlService,
    pub(crate) memory: MemoryBudget,
    pub(crate) queue: Arc<OperationQueue>,
    pub(crate) operations: RoundRobin,
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
            let Poll::Ready((id, mut payload)) = self.operations.poll_next(cx) else { return };
            let reservation = match self.memory.reserve_large(payload.as_ref().map_or(0, Payload::bytes)) {
                Ok(reservation) => reservation,
                Err(reason) => {
                    payload = Some(Payload::Refused(reason.into()));
                    None
                }
            };
            let input = payload.as_ref().map_or(SocketInput::Ended(&id), |payload| SocketInput::Yielded(&id, payload));
            self.on(&input, MessageCause::Result, reservation, outbox);
        }
    }

    fn start(&self, request: Request) -> Result<BoxStream<'static, Payload>, Refused> {
        self.rate.count()?;
        let (request, unstored) = self.persisted.resolve(request)?;
        let (client, include) = (self.client.clone(), Include::default());
        let admitted =
            self.admission.admit(request, RequestSender { client, transport: Transport::Websocket, include })?;
        let payloads = self.service.subscribe(admitted, Some(&self.queue))?;
        Ok(self.persisted.store_after_result(unstored, payloads, Payload::is_result))
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
                    Ok(payloads) => self.operations.push(id, payloads),
                    Err(refused) => {
                        self.on(&SocketInput::Yielded(&id, &Payload::Refused(refused)), cause, None, outbox);
                    }
                },
                Action::Stop(id) => {
                    self.operations.remove(&id);
                    outbox.withdraw(&id);
                }
                Action::Close(closing) => outbox.close(closing),
            }
        }
    }
}
