//! Either subprotocol with the engine behind it: what the protocol says is to be done is done here, and what
//! operations yield is told to it. Nothing is taken from them that there is no room for.

use std::task::{Context, Poll};

use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Request, ServerError};

use super::auth::SocketAuth;
use super::operations::RoundRobin;
use super::outbox::{Cause, Outbox};
use super::protocol::{Action, Input, Protocol};
use super::socket::{Dialogue, Heard};
use crate::api::Include;
use crate::server::execution::payload::{Payload, Refused};
use crate::server::execution::service::GraphqlService;
use crate::server::limits::memory::{MemoryBudget, Reservation};
use crate::server::metrics::server_metrics::Transport;
use crate::server::middleware::rate_limit::OperationMeter;

pub(crate) struct Session {
    protocol: Protocol,
    executor: GraphqlService,
    meter: OperationMeter,
    held: MemoryBudget,
    running: RoundRobin,
    door: SocketAuth,
}

impl Session {
    pub(crate) fn new(
        protocol: Protocol,
        executor: GraphqlService,
        meter: OperationMeter,
        held: MemoryBudget,
        door: SocketAuth,
    ) -> Self {
        Self { protocol, executor, meter, held, running: RoundRobin::default(), door }
    }

    fn start(&self, request: Request) -> Result<BoxStream<'static, Payload>, Refused> {
        self.meter.ask()?;
        self.executor.subscribe(request)
    }

    /// What is to be sent because of this has that claim.
    fn on(&mut self, input: &Input<'_>, cause: Cause, mut claim: Option<Reservation>, outbox: &mut Outbox) {
        for action in self.protocol.on(input) {
            match action {
                Action::Introduce(authorization) => match self.door.admit(authorization.as_deref()) {
                    Ok(caller) => {
                        self.executor = self.executor.on_behalf(caller, Transport::Websocket, Include::default());
                    }
                    Err(closing) => {
                        if let Some(reason) = self.protocol.not_let_in(&closing) {
                            outbox.push(None, cause, reason, None);
                        }
                        return outbox.end(closing);
                    }
                },
                Action::Send(about, text) => outbox.push(about, cause, text, claim.take()),
                Action::Start(id, request) => match self.start(*request) {
                    Ok(payloads) => self.running.push(id, payloads),
                    Err(refused) => self.on(&Input::Yielded(&id, &Payload::Refused(refused)), cause, None, outbox),
                },
                Action::Stop(id) => {
                    self.running.remove(&id);
                    outbox.withdraw(&id);
                }
                Action::Close(closing) => outbox.close(closing),
            }
        }
    }
}

impl Dialogue for Session {
    fn hear(&mut self, heard: Heard<'_>, outbox: &mut Outbox) {
        let input = match heard {
            Heard::Text(text) => Input::Text(text),
            Heard::Binary(_) => Input::Binary,
        };
        self.on(&input, Cause::Reply, None, outbox);
    }

    fn can_hear(&self) -> bool {
        true
    }

    fn init_due(&mut self, outbox: &mut Outbox) {
        self.on(&Input::InitDue, Cause::Reply, None, outbox);
    }

    fn speak(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) {
        while outbox.has_room_for_results() {
            let Poll::Ready((id, mut payload)) = self.running.poll_next(cx) else { return };
            let claim = match self.held.claim(payload.as_ref().map_or(0, Payload::bytes)) {
                Ok(claim) => claim,
                Err(reason) => {
                    payload = Some(Payload::Refused(ServerError::from(reason).into()));
                    None
                }
            };
            let input = payload.as_ref().map_or(Input::Ended(&id), |payload| Input::Yielded(&id, payload));
            self.on(&input, Cause::Result, claim, outbox);
        }
    }
}
