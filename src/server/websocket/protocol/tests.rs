use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// What is done, as it can be compared: texts as JSON, requests as their queries.
#[derive(Clone, Debug, PartialEq)]
enum Done {
    Send(Value),
    Start(String, String),
    Stop(String),
    End(String),
    Close(u16, String),
}

fn done(actions: Vec<Action>) -> Vec<Done> {
    let tell = |action| match action {
        Action::Authenticate(_) => None,
        Action::Send(id, text) => Some({
            let message: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(message.get("id").and_then(Value::as_str), id.as_deref(), "{text}");
            Done::Send(message)
        }),
        Action::Start(id, request) => Some(Done::Start(id.to_string(), request.query)),
        Action::Stop(id) => Some(Done::Stop(id.to_string())),
        Action::End(id) => Some(Done::End(id.to_string())),
        Action::Close(Closing { code, reason }) => Some(Done::Close(code, reason)),
    };
    actions.into_iter().filter_map(tell).collect()
}

fn say(protocol: &mut Protocol, message: &Value) -> Vec<Done> {
    done(protocol.on(&SocketInput::Text(&message.to_string())))
}

fn subscribe(id: &str) -> Value {
    json!({ "type": "subscribe", "id": id, "payload": { "query": format!("{{ {id} }}") } })
}

fn result(text: &'static str) -> Payload {
    Payload::Result(text.into())
}

fn refusal() -> Payload {
    Payload::Refused(Refused(r#"[{"message":"no"}]"#.into()))
}

fn yielded(protocol: &mut Protocol, id: &str, payload: &Payload) -> Vec<Done> {
    done(protocol.on(&SocketInput::Yielded(&id.into(), payload)))
}

fn ended(protocol: &mut Protocol, id: &str) -> Vec<Done> {
    done(protocol.on(&SocketInput::Ended(&id.into())))
}

/// A socket on which these operations run.
fn running(ids: &[&str]) -> Protocol {
    let mut protocol = Protocol::new(Subprotocol::Transport, 3);
    assert_eq!(
        say(&mut protocol, &json!({ "type": "connection_init", "payload": { "as": "you like" } })),
        [Done::Send(json!({ "type": "connection_ack" }))]
    );
    for id in ids {
        let start = Done::Start((*id).to_owned(), format!("{{ {id} }}"));
        assert_eq!(say(&mut protocol, &subscribe(id)), [start]);
    }
    protocol
}

fn closes(protocol: &mut Protocol, input: &SocketInput<'_>, with: u16) -> String {
    let done = done(protocol.on(input));
    let [Done::Close(code, reason)] = done.as_slice() else { panic!("{done:?}") };
    assert_eq!(*code, with, "{reason}");
    reason.clone()
}

#[test]
fn an_operation_is_started_answered_and_completed_and_its_id_is_free_again() {
    let mut protocol = running(&["a"]);
    for height in [r#"{"data":{"height":1}}"#, r#"{"data":null,"errors":[{"path":["tip"]}]}"#] {
        let reported = json!({ "type": "next", "id": "a", "payload": serde_json::from_str::<Value>(height).unwrap() });
        assert_eq!(yielded(&mut protocol, "a", &result(height)), [Done::Send(reported)]);
    }
    assert_eq!(ended(&mut protocol, "a"), [Done::Send(json!({ "type": "complete", "id": "a" }))]);
    assert_eq!(say(&mut protocol, &subscribe("a")), [Done::Start("a".to_owned(), "{ a }".to_owned())]);
}

#[test]
fn an_operation_that_is_refused_gets_one_error_and_nothing_else_and_its_id_is_free_again() {
    let mut protocol = running(&["a"]);
    let error = Done::Send(json!({ "type": "error", "id": "a", "payload": [{ "message": "no" }] }));
    assert_eq!(yielded(&mut protocol, "a", &refusal()), [Done::End("a".to_owned()), error]);
    assert_eq!(yielded(&mut protocol, "a", &result("{}")), []);
    assert_eq!(yielded(&mut protocol, "a", &refusal()), []);
    assert_eq!(ended(&mut protocol, "a"), []);
    assert_eq!(say(&mut protocol, &subscribe("a")), [Done::Start("a".to_owned(), "{ a }".to_owned())]);
}

#[test]
fn an_operation_that_the_client_completes_is_stopped_without_an_echo_and_its_id_is_free_again() {
    let mut protocol = running(&["a", "b"]);
    assert_eq!(say(&mut protocol, &json!({ "type": "complete", "id": "a" })), [Done::Stop("a".to_owned())]);
    assert_eq!(yielded(&mut protocol, "a", &result("{}")), []);
    assert_eq!(yielded(&mut protocol, "a", &refusal()), []);
    assert_eq!(ended(&mut protocol, "a"), []);
    assert_eq!(say(&mut protocol, &subscribe("a")), [Done::Start("a".to_owned(), "{ a }".to_owned())]);
    assert_eq!(ended(&mut protocol, "b"), [Done::Send(json!({ "type": "complete", "id": "b" }))]);
}

#[test]
fn to_complete_what_does_not_run_sends_nothing() {
    let mut protocol = Protocol::new(Subprotocol::Transport, 3);
    for _ in 0..2 {
        assert_eq!(say(&mut protocol, &json!({ "type": "complete", "id": "a" })), [Done::Stop("a".to_owned())]);
    }
}

#[test]
fn a_ping_is_answered_with_its_payload_at_any_time_and_a_pong_with_nothing() {
    for mut protocol in [Protocol::new(Subprotocol::Transport, 3), running(&["a"])] {
        let pings = [json!({ "type": "ping" }), json!({ "type": "ping", "payload": null })];
        for ping in &pings {
            assert_eq!(say(&mut protocol, ping), [Done::Send(json!({ "type": "pong" }))]);
        }
        let asked = json!({ "type": "ping", "payload": { "sent": [1, { "at": 2 }] } });
        let answered = json!({ "type": "pong", "payload": { "sent": [1, { "at": 2 }] } });
        assert_eq!(say(&mut protocol, &asked), [Done::Send(answered.clone())]);
        assert_eq!(say(&mut protocol, &answered), []);
    }
}

#[test]
fn an_id_is_any_text_and_comes_back_as_it_was() {
    for id in ["\"", "\\", "a\nb", "ü", "{}", "\u{1f600}"] {
        let mut protocol = running(&[]);
        assert_eq!(say(&mut protocol, &subscribe(id)), [Done::Start(id.to_owned(), format!("{{ {id} }}"))]);
        let reported = json!({ "type": "next", "id": id, "payload": { "data": 1 } });
        assert_eq!(yielded(&mut protocol, id, &result(r#"{"data":1}"#)), [Done::Send(reported)]);
    }
}

#[test]
fn an_operation_too_many_is_an_error_of_its_own_until_another_ends() {
    let mut protocol = running(&["a", "b", "c"]);
    let refused = say(&mut protocol, &subscribe("d"));
    let [Done::Send(message)] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!((&message["type"], &message["id"]), (&json!("error"), &json!("d")));
    let extensions = json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "operationsPerSocket", "limit": 3, "actual": 4 });
    assert_eq!(message["payload"][0]["extensions"], extensions);
    assert_eq!(ended(&mut protocol, "d"), []);
    ended(&mut protocol, "b");
    assert_eq!(say(&mut protocol, &subscribe("d")), [Done::Start("d".to_owned(), "{ d }".to_owned())]);
}

#[test]
fn every_way_to_break_the_protocol_has_its_close_code_and_ends_everything() {
    let init = json!({ "type": "connection_init" }).to_string();
    let (first, nonsense) = (subscribe("a").to_string(), json!({ "type": "start" }).to_string());
    for (mut protocol, input, code, reason) in [
        (Protocol::new(Subprotocol::Transport, 3), SocketInput::Text(&first), 4401, "Unauthorized"),
        (Protocol::new(Subprotocol::Transport, 3), SocketInput::InitDue, 4408, "Connection initialisation timeout"),
        (
            Protocol::new(Subprotocol::Transport, 3),
            SocketInput::Text("x"),
            4400,
            "the message is not JSON: expected value at line 1 column 1",
        ),
        (Protocol::new(Subprotocol::Transport, 3), SocketInput::Binary, 4400, "the message is binary: send text"),
        (running(&["a"]), SocketInput::Binary, 4400, "the message is binary: send text"),
        (
            running(&["a"]),
            SocketInput::Text(&nonsense),
            4400,
            "\"start\" is not a message type of graphql-transport-ws",
        ),
        (running(&["a"]), SocketInput::Text(&init), 4429, "Too many initialisation requests"),
        (running(&["a"]), SocketInput::Text(&first), 4409, "Subscriber for a already exists"),
    ] {
        assert_eq!(closes(&mut protocol, &input, code), reason);
        for after in
            [SocketInput::Text(&init), SocketInput::Binary, SocketInput::InitDue, SocketInput::Ended(&"a".into())]
        {
            assert_eq!(done(protocol.on(&after)), [], "{after:?} after {code}");
        }
        assert_eq!(yielded(&mut protocol, "a", &result("{}")), []);
    }
}

#[test]
fn the_wait_for_connection_init_is_over_once_it_came() {
    assert_eq!(done(running(&[]).on(&SocketInput::InitDue)), []);
}

#[test]
fn a_reason_is_cut_to_what_a_close_frame_holds() {
    assert_eq!(Closing::new(4400, "é".repeat(100)).reason.len(), 122);
    let id = "ü".repeat(message::LONGEST_ID / 2);
    let mut protocol = running(&[&id]);
    let again = subscribe(&id).to_string();
    let reason = closes(&mut protocol, &SocketInput::Text(&again), 4409);
    assert!(reason.len() <= 123 && reason.ends_with("ü already exists"), "{reason}");
}

fn legacy(ids: &[&str]) -> Protocol {
    let mut protocol = Protocol::new(Subprotocol::Legacy, 3);
    assert_eq!(
        say(&mut protocol, &json!({ "type": "connection_init" })),
        [Done::Send(json!({ "type": "connection_ack" }))]
    );
    for id in ids {
        assert_eq!(say(&mut protocol, &start(id)), [Done::Start((*id).to_owned(), format!("{{ {id} }}"))]);
    }
    protocol
}

fn start(id: &str) -> Value {
    json!({ "type": "start", "id": id, "payload": { "query": format!("{{ {id} }}") } })
}

#[test]
fn the_older_dialect_has_data_and_one_error_and_answers_a_stop() {
    let mut protocol = legacy(&["a", "b", "c"]);
    let data = json!({ "type": "data", "id": "a", "payload": { "data": 1 } });
    assert_eq!(yielded(&mut protocol, "a", &result(r#"{"data":1}"#)), [Done::Send(data)]);
    assert_eq!(ended(&mut protocol, "a"), [Done::Send(json!({ "type": "complete", "id": "a" }))]);
    let error = json!({ "type": "error", "id": "b", "payload": { "message": "no", "errors": [{ "message": "no" }] } });
    assert_eq!(yielded(&mut protocol, "b", &refusal()), [Done::End("b".to_owned()), Done::Send(error)]);
    assert_eq!(ended(&mut protocol, "b"), []);
    let stop = json!({ "type": "stop", "id": "c" });
    let complete = Done::Send(json!({ "type": "complete", "id": "c" }));
    assert_eq!(say(&mut protocol, &stop), [Done::Stop("c".to_owned()), complete]);
    assert_eq!(say(&mut protocol, &stop), [Done::Stop("c".to_owned())]);
}

#[test]
fn the_older_dialect_starts_another_operation_in_the_place_of_one_with_its_id() {
    let mut protocol = legacy(&["a"]);
    let again = [Done::Stop("a".to_owned()), Done::Start("a".to_owned(), "{ a }".to_owned())];
    assert_eq!(say(&mut protocol, &start("a")), again);
    assert_eq!(ended(&mut protocol, "a"), [Done::Send(json!({ "type": "complete", "id": "a" }))]);
}

#[test]
fn the_older_dialect_says_why_it_refuses_a_client() {
    let closing = Closing::new(close::FORBIDDEN, "Forbidden".to_owned());
    let reason: Value = serde_json::from_str(&legacy(&[]).authentication_error(&closing).unwrap()).unwrap();
    assert_eq!(reason, json!({ "type": "connection_error", "payload": { "message": "Forbidden" } }));
    assert_eq!(running(&[]).authentication_error(&closing), None);
    let leave = json!({ "type": "connection_terminate" }).to_string();
    assert_eq!(closes(&mut legacy(&["a"]), &SocketInput::Text(&leave), 1000), "");
    assert_eq!(
        closes(&mut Protocol::new(Subprotocol::Legacy, 3), &SocketInput::Text(&start("a").to_string()), 4401),
        "Unauthorized"
    );
}

/// Anything that can happen, about few ids so that they meet.
fn anything() -> impl Strategy<Value = (u8, usize, String)> {
    (0..12_u8, 0..4_usize, ".{0,12}")
}

proptest! {
    #[test]
    fn whatever_happens_each_start_has_at_most_one_end_and_nothing_follows_a_close(
        steps in prop::collection::vec(anything(), 1..60),
    ) {
        const IDS: [&str; 4] = ["a", "b", "c", "d"];
        let mut protocol = Protocol::new(Subprotocol::Transport, 3);
        let (mut open, mut acknowledged, mut closed) = (HashSet::<String>::new(), false, false);
        for (kind, which, text) in steps {
            let id: Id = IDS[which].into();
            let (data, no) = (result(r#"{"data":{}}"#), refusal());
            let message = match kind {
                0 => json!({ "type": "connection_init" }).to_string(),
                1..=3 => subscribe(&id).to_string(),
                4 | 5 => json!({ "type": "complete", "id": &*id }).to_string(),
                6 => json!({ "type": "ping", "payload": { "x": text } }).to_string(),
                _ => text,
            };
            let input = match kind {
                8 => SocketInput::Yielded(&id, &data),
                9 => SocketInput::Yielded(&id, &no),
                10 => SocketInput::Ended(&id),
                11 if which == 0 => SocketInput::InitDue,
                11 if which == 1 => SocketInput::Binary,
                _ => SocketInput::Text(&message),
            };
            let done = done(protocol.on(&input));
            prop_assert!(!closed || done.is_empty());
            for done in done {
                match done {
                    Done::Start(id, _) => {
                        prop_assert!(acknowledged && open.insert(id));
                        prop_assert!(open.len() <= 3);
                    }
                    Done::Stop(_) => { open.remove(&*id); }
                    Done::End(_) => prop_assert!(kind == 9 && open.contains(&*id)),
                    Done::Close(code, reason) => {
                        prop_assert!(reason.len() <= 123 && (4400..4500).contains(&code));
                        closed = true;
                    }
                    Done::Send(message) => match message["type"].as_str().unwrap() {
                        "connection_ack" => { prop_assert!(!acknowledged); acknowledged = true; }
                        "next" => prop_assert!(open.contains(message["id"].as_str().unwrap())),
                        "complete" => prop_assert!(open.remove(message["id"].as_str().unwrap())),
                        "error" => {
                            let was_open = open.remove(message["id"].as_str().unwrap());
                            prop_assert!(was_open || open.len() == 3);
                        }
                        "pong" => {}
                        other => prop_assert!(false, "{other}"),
                    },
                }
            }
        }
    }
}
