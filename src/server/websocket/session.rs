//! Either subprotocol with the engine behind it: what the protocol says is to be done is done here, and what
//! operations yield is told to it. Nothing is taken from them that there is no room for.

use std::task::{Context, Poll};

use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Request, ServerError};

use super::auth::Door;
use super::operations::Turns;
use super::outbox::{Cause, Outgoing};
use super::protocol::{Action, Input, Protocol};
use super::socket::{Dialogue, Heard};
use crate::api::Include;
use crate::server::execution::payload::{Payload, Refused};
use crate::server::execution::service::Guarded;
use crate::server::limits::memory::{Claim, Held};
use crate::server::metrics::server_metrics::Transport as Way;
use crate::server::middleware::rate_limit::Meter;

pub(crate) struct Transport {
    protocol: Protocol,
    executor: Guarded,
    meter: Meter,
    held: Held,
    running: Turns,
    door: Door,
}

impl Transport {
    pub(crate) fn new(protocol: Protocol, executor: Guarded, meter: Meter, held: Held, door: Door) -> Self {
        Self { protocol, executor, meter, held, running: Turns::default(), door }
    }

    fn start(&self, request: Request) -> Result<BoxStream<'static, Payload>, Refused> {
        self.meter.ask()?;
        self.executor.subscribe(request)
    }

    /// What is to be sent because of this has that claim.
    fn on(&mut self, input: &Input<'_>, cause: Cause, mut claim: Option<Claim>, outgoing: &mut Outgoing) {
        for action in self.protocol.on(input) {
            match action {
                Action::Introduce(authorization) => match self.door.admit(authorization.as_deref()) {
                    Ok(caller) => {
                        self.executor = self.executor.on_behalf(caller, Way::Websocket, Include::default());
                    }
                    Err(closing) => {
                        if let Some(reason) = self.protocol.not_let_in(&closing) {
                            outgoing.push(None, cause, reason, None);
                        }
                        return outgoing.end(closing);
                    }
                },
                Action::Send(about, text) => outgoing.push(about, cause, text, claim.take()),
                Action::Start(id, request) => match self.start(*request) {
                    Ok(payloads) => self.running.push(id, payloads),
                    Err(refused) => self.on(&Input::Yielded(&id, &Payload::Refused(refused)), cause, None, outgoing),
                },
                Action::Stop(id) => {
                    self.running.remove(&id);
                    outgoing.withdraw(&id);
                }
                Action::Close(closing) => outgoing.close(closing),
            }
        }
    }
}

impl Dialogue for Transport {
    fn hear(&mut self, heard: Heard<'_>, outgoing: &mut Outgoing) {
        let input = match heard {
            Heard::Text(text) => Input::Text(text),
            Heard::Binary(_) => Input::Binary,
        };
        self.on(&input, Cause::Reply, None, outgoing);
    }

    fn can_hear(&self) -> bool {
        true
    }

    fn init_due(&mut self, outgoing: &mut Outgoing) {
        self.on(&Input::InitDue, Cause::Reply, None, outgoing);
    }

    fn speak(&mut self, cx: &mut Context<'_>, outgoing: &mut Outgoing) {
        while outgoing.has_room_for_results() {
            let Poll::Ready((id, mut payload)) = self.running.poll_next(cx) else { return };
            let claim = match self.held.claim(payload.as_ref().map_or(0, Payload::bytes)) {
                Ok(claim) => claim,
                Err(reason) => {
                    payload = Some(Payload::Refused(ServerError::from(reason).into()));
                    None
                }
            };
            let input = payload.as_ref().map_or(Input::Ended(&id), |payload| Input::Yielded(&id, payload));
            self.on(&input, Cause::Result, claim, outgoing);
        }
    }
}
