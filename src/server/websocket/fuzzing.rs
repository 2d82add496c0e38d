//! A conversation for `fuzz/`, which sees no more of the websocket's state machine than this. Built with `--cfg fuzzing`
//! alone, as cargo-fuzz does.

use std::collections::BTreeSet;

use super::message::Id;
use super::protocol::{Action, Protocol, SocketInput};
use super::subprotocol::Subprotocol;
use crate::execution::payload::{Payload, Refused};

/// How many operations the socket may have at once.
const LIMIT: usize = 3;

/// Lets each line happen to a socket of each subprotocol that was just opened: the lines named below are what its
/// operations and its clock do, the eldest operation first, and all others are messages of its client.
///
/// # Panics
///
/// If the protocol is broken.
pub fn converse(lines: &str) {
    for subprotocol in Subprotocol::ALL {
        converse_in(subprotocol, lines);
    }
}

fn converse_in(subprotocol: Subprotocol, lines: &str) {
    let (result, refusal) = (Payload::Result("{}".into()), Payload::Refused(Refused("[]".into())));
    let (mut protocol, mut running, mut is_closed) = (Protocol::new(subprotocol, LIMIT), BTreeSet::<Id>::new(), false);
    for line in lines.lines() {
        let eldest = running.first().cloned().unwrap_or_else(|| "none".into());
        let input = match line {
            "next" => SocketInput::Yielded(&eldest, &result),
            "refuse" => SocketInput::Yielded(&eldest, &refusal),
            "end" => SocketInput::Ended(&eldest),
            "init due" => SocketInput::InitDue,
            "binary" => SocketInput::Binary,
            text => SocketInput::Text(text),
        };
        if matches!(line, "refuse" | "end") {
            running.remove(&eldest);
        }
        for action in protocol.on(&input) {
            assert!(!is_closed, "{action:?} after it was closed");
            match action {
                Action::Start(id, _) => assert!(running.insert(id.clone()), "{id} is started twice"),
                Action::Stop(id) => drop(running.remove(&id)),
                Action::Close(closing) => {
                    assert!(closing.reason.len() <= 123, "{closing:?}");
                    is_closed = true;
                }
                Action::Send(_, text) => {
                    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text} is no JSON");
                }
                Action::Authenticate(_) => {}
            }
        }
        assert!(running.len() <= LIMIT, "{running:?}");
    }
}
