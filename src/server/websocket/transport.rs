//! `graphql-transport-ws` with the engine behind it: what the protocol says is to be done is done here, and what
//! operations yield is told to it. Nothing is taken from them that there is no room for.

use std::task::{Context, Poll};

use super::super::executor::Guarded;
use super::super::payload::Payload;
use super::outgoing::{Cause, Outgoing};
use super::protocol::{Action, Input, Protocol};
use super::socket::{Dialogue, Heard};
use super::turns::Turns;

pub(super) struct Transport {
    protocol: Protocol,
    executor: Guarded,
    running: Turns,
}

impl Transport {
    pub(super) fn new(executor: Guarded, limit: usize) -> Self {
        Self { protocol: Protocol::new(limit), executor, running: Turns::default() }
    }

    fn on(&mut self, input: &Input<'_>, cause: Cause, outgoing: &mut Outgoing) {
        for action in self.protocol.on(input) {
            match action {
                Action::Send(about, text) => outgoing.push(about, cause, text),
                Action::Start(id, request) => match self.executor.subscribe(*request, None) {
                    Ok(payloads) => self.running.push(id, payloads),
                    Err(refused) => self.on(&Input::Yielded(&id, &Payload::Refused(refused)), cause, outgoing),
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
        self.on(&input, Cause::Reply, outgoing);
    }

    fn can_hear(&self) -> bool {
        true
    }

    fn init_due(&mut self, outgoing: &mut Outgoing) {
        self.on(&Input::InitDue, Cause::Reply, outgoing);
    }

    fn speak(&mut self, cx: &mut Context<'_>, outgoing: &mut Outgoing) {
        while outgoing.has_room_for_results() {
            let Poll::Ready((id, payload)) = self.running.poll_next(cx) else { return };
            let input = payload.as_ref().map_or(Input::Ended(&id), |payload| Input::Yielded(&id, payload));
            self.on(&input, Cause::Result, outgoing);
        }
    }
}
