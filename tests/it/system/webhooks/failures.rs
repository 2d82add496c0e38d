//! Receivers that fail, and what that does to the events behind, to other hooks and to the server.

use std::fs::File;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use btcgraph::limits::Limits;
use btcgraph::webhooks::{DeadLetters, HookWatch, Resent, resend};
use serde_json::json;

use super::receiver::{Reaction, Receiver};
use super::stage::{Stage, connected, heights, hook};
use crate::support::bitcoind::wait_for;

#[test]
fn a_message_is_sent_again_until_it_is_taken_and_the_next_wait() {
    let mut stage = Stage::with_blocks(1);
    let receiver = Receiver::start(Reaction::Refuse(503));
    let running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    stage.mine(3);
    receiver.wait_for_attempts(4);
    let attempts = receiver.received();
    assert!(attempts.iter().all(|attempt| attempt.id == attempts[0].id && attempt.body == attempts[0].body));
    attempts.iter().for_each(super::receiver::Received::verify);
    receiver.react(Reaction::Accept);
    assert_eq!(heights(&receiver.wait_for(3)), connected(2..=4));
    let metrics = &running.metrics[0];
    wait_for("the hook to have caught up", Duration::from_secs(20), || (metrics.lag_seconds() == 0).then_some(()));
    assert_eq!((metrics.delivered(), metrics.dead_letters()), (3, 0));
    assert!(metrics.failures() >= 4 && metrics.retries() == metrics.failures());
}

#[test]
fn a_message_that_is_never_taken_is_a_dead_letter_and_can_be_sent_again() {
    let mut stage = Stage::with_blocks(1);
    let receiver = Receiver::start(Reaction::RefuseWith("\"height\":3,".to_owned()));
    let mut impatient = hook("shop", &receiver.url(), HookWatch::Blocks);
    impatient.timing.attempts = 3;
    let running = stage.deliver(vec![impatient.clone()]);
    stage.mine(4);
    let taken = receiver.wait_for(3);
    assert_eq!(heights(&taken), [connected([2]), connected(4..=5)].concat());
    let letters = stage.dead_letters("shop");
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((&letter["attempts"], &letter["type"]), (&json!(3), &json!("chain.block_connected")));
    assert_eq!(letter["error"], json!("the host responded 500 Internal Server Error"));
    let refused: Vec<_> = receiver.received().into_iter().filter(|message| !message.is_accepted).collect();
    assert_eq!(
        (refused.len(), json!(refused[0].id), json!(refused[0].body)),
        (3, letter["id"].clone(), letter["body"].clone())
    );
    assert_eq!(running.metrics[0].dead_letters(), 1);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let again = || runtime.block_on(resend(&impatient, None, stage.directory())).unwrap();
    let left = again();
    assert_eq!((left.delivered, left.left), (0, 1), "it is refused again: {left:?}");
    receiver.react(Reaction::Accept);
    assert_eq!(again(), Resent { delivered: 1, left: 0, error: None });
    let last = receiver.accepted().pop().unwrap();
    assert_eq!(json!(last.id), letter["id"]);
    last.verify();
    assert_eq!(again(), Resent { delivered: 0, left: 0, error: None });
    assert!(!DeadLetters::new(stage.directory(), "shop").path().exists());
}

/// Adds dead letters with these numbers to those of the hook `shop`.
fn add_letters(directory: &Path, numbers: RangeInclusive<u32>) {
    let mut file = File::options().create(true).append(true).open(directory.join("shop.dead-letters.jsonl")).unwrap();
    for number in numbers {
        let letter = json!({
            "failed_at": "2026-11-24T04:05:06Z", "attempts": 1, "error": "", "id": format!("msg_{number}"),
            "type": "chain.block_connected", "created_at": 1, "body": format!("{{\"number\":{number}}}"), "cursor": "",
            "is_snapshot": false,
        });
        writeln!(file, "{letter}").unwrap();
    }
}

/// Sends the dead letters of the hook `shop` to this receiver.
fn resend_to(receiver: &Receiver, directory: &Path) -> Resent {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let shop = hook("shop", &receiver.url(), HookWatch::Blocks);
    runtime.block_on(resend(&shop, None, directory)).unwrap()
}

#[test]
fn any_number_of_dead_letters_is_sent_again() {
    for count in [99, 100, 101, 200] {
        let directory = tempfile::tempdir().unwrap();
        add_letters(directory.path(), 1..=count);
        let receiver = Receiver::start(Reaction::Accept);
        let count = usize::try_from(count).unwrap();
        assert_eq!(resend_to(&receiver, directory.path()), Resent { delivered: count, left: 0, error: None });
        assert_eq!(receiver.accepted().len(), count);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no file of them is left");
    }
}

#[test]
fn what_an_interrupted_command_left_is_sent_and_then_newer_dead_letters() {
    let directory = tempfile::tempdir().unwrap();
    add_letters(directory.path(), 1..=3);
    let receiver = Receiver::start(Reaction::RefuseWith("\"number\":2}".to_owned()));
    let resent = || {
        let Resent { delivered, left, error } = resend_to(&receiver, directory.path());
        (delivered, left, error.is_some())
    };
    assert_eq!(resent(), (1, 2, true));
    // the server adds one in the meantime
    add_letters(directory.path(), 4..=4);
    assert_eq!(resent(), (0, 3, true), "the newer one is left, too");
    receiver.react(Reaction::Accept);
    assert_eq!(resent(), (3, 0, false));
    // a crash while a line was added, before the command took the file
    std::fs::write(directory.path().join("shop.resending.jsonl"), "{\"id\":").unwrap();
    add_letters(directory.path(), 5..=5);
    assert_eq!(resent(), (1, 0, false));
    let ids: Vec<_> = receiver.accepted().into_iter().map(|message| message.id).collect();
    assert_eq!(ids, ["msg_1", "msg_2", "msg_3", "msg_4", "msg_5"]);
}

#[test]
fn a_receiver_that_stalls_delays_no_other_hook_and_no_request() {
    let mut stage = Stage::with_blocks(1);
    let (stalling, receiver) = (Receiver::start(Reaction::Stall), Receiver::start(Reaction::Accept));
    let mut closed = Receiver::start(Reaction::Accept);
    closed.stop();
    let hooks = vec![
        hook("stalling", &stalling.url(), HookWatch::Blocks),
        hook("closed", &closed.url(), HookWatch::Blocks),
        hook("shop", &receiver.url(), HookWatch::Blocks),
    ];
    let running = stage.deliver(hooks);
    let started = Instant::now();
    stage.mine(10);
    assert_eq!(heights(&receiver.wait_for(10)), connected(2..=11));
    assert_eq!(stage.api.data("{ tip { height } }")["tip"]["height"], json!(11));
    // the receiver stalls for as long as the hook waits
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    stalling.react(Reaction::Accept);
    closed.resume();
    assert_eq!(heights(&closed.wait_for(10)), connected(2..=11));
    assert_eq!(heights(&stalling.wait_for(10)), connected(2..=11));
    assert!(running.metrics[1].failures() > 0 && running.metrics[2].failures() == 0);
}

#[test]
fn a_hook_that_waits_for_its_receiver_keeps_no_old_state() {
    let mut stage = Stage::with_blocks(1);
    let receiver = Receiver::start(Reaction::Stall);
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    stage.mine(1);
    receiver.wait_for_attempts(1);
    stage.mine(20);
    wait_for("old states to be released", Duration::from_secs(20), || (stage.api.live_heads() <= 1).then_some(()));
}

#[test]
fn redirects_are_not_followed_and_long_bodies_are_not_read() {
    let mut stage = Stage::with_blocks(1);
    let other = Receiver::start(Reaction::Accept);
    let receiver = Receiver::start(Reaction::Redirect(other.address));
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    stage.mine(3);
    receiver.wait_for_attempts(3);
    assert_eq!(other.received().len(), 0);
    receiver.react(Reaction::AcceptAtLength);
    assert_eq!(heights(&receiver.wait_for(3)), connected(2..=4));
}

#[test]
fn a_receiver_that_restarts_gets_every_event() {
    let mut stage = Stage::with_blocks(1);
    let mut receiver = Receiver::start(Reaction::Accept);
    let _running = stage.deliver(vec![hook("shop", &receiver.url(), HookWatch::Blocks)]);
    for round in 1..=4 {
        stage.mine(3);
        receiver.wait_for(6 * round - 3);
        receiver.stop();
        stage.mine(3);
        receiver.resume();
        receiver.wait_for(6 * round);
    }
    assert_eq!(heights(&receiver.wait_for(24)), connected(2..=25));
}

#[test]
fn an_event_whose_field_fails_is_sent_with_the_error() {
    let mut stage = Stage::within(&Limits { transaction_bytes: 100, ..Limits::default() });
    let receiver = Receiver::start(Reaction::Accept);
    let mut whole = hook("shop", &receiver.url(), HookWatch::Blocks);
    whole.fields = Some("... on BlockConnected { block { height rawHex } }".to_owned());
    let _running = stage.deliver(vec![whole]);
    stage.mine(2);
    let messages = receiver.wait_for(2);
    assert_eq!(heights(&messages), connected(1..=2));
    for message in messages {
        let json = message.json();
        assert_eq!(json["data"]["block"]["rawHex"], json!(null));
        assert_eq!(json["errors"][0]["extensions"]["code"], json!("QUERY_LIMIT_EXCEEDED"));
    }
}
