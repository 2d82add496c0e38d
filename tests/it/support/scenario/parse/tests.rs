use bitcoin::Amount;
use btcgraph::sim::ScriptKind;

use super::*;

fn named(name: &str) -> String {
    name.to_owned()
}

fn actions(text: &str) -> Vec<Action> {
    parse(text).unwrap().steps.into_iter().map(|step| step.action).collect()
}

fn payment(amount: u64, from: &str, to: &str, name: &str) -> Payment {
    Payment {
        from: named(from),
        outputs: vec![(Amount::from_sat(amount), Receiver::Account(named(to)))],
        name: named(name),
        coins: Coins::Oldest,
        fee: Amount::from_sat(1_000),
        lock_time: 0,
        sequence: None,
    }
}

#[test]
fn a_scenario_is_read_line_by_line() {
    let text = "# what\nmine 2 to miner\n\nsend 0.5 from miner to alice as pay fee 7\nquery a b\n  {\n\n    tip\n  }\nreorg 1\n";
    let step = |line, text: &str, action| Step { line, text: text.to_owned(), action };
    let mine = Action::Mine { count: 2, to: Some(named("miner")), withheld: Amount::ZERO, with: None };
    let pay = Payment { fee: Amount::from_sat(7), ..payment(50_000_000, "miner", "alice", "pay") };
    let expected = [
        step(2, "mine 2 to miner", mine),
        step(4, "send 0.5 from miner to alice as pay fee 7", Action::Send(pay)),
        step(5, "query a b\n  {\n    tip\n  }", Action::Query { document: "  {\n    tip\n  }\n".to_owned() }),
        step(10, "reorg 1", Action::Reorg { count: 1, to: 2, with: vec![] }),
    ];
    assert_eq!(parse(text), Ok(Scenario { only_simulated: None, steps: expected.into() }));
}

#[test]
fn payments_say_what_they_spend_and_whom_they_pay() {
    let text = "send 1 from a to b as one\n\
                draft 1 from a to b, 0.2 to data \"x, y\" as two spending one:0, one:12 fee 3 locktime 9 sequence 5\n\
                send 1 from a to c as three instead of one";
    let two = Payment {
        outputs: vec![
            (Amount::from_sat(100_000_000), Receiver::Account(named("b"))),
            (Amount::from_sat(20_000_000), Receiver::Data(named("x, y"))),
        ],
        coins: Coins::Named(vec![(named("one"), 0), (named("one"), 12)]),
        fee: Amount::from_sat(3),
        lock_time: 9,
        sequence: Some(5),
        ..payment(0, "a", "b", "two")
    };
    let three = Payment { coins: Coins::Of(named("one")), ..payment(100_000_000, "a", "c", "three") };
    let expected = [Action::Send(payment(100_000_000, "a", "b", "one")), Action::Draft(two), Action::Send(three)];
    assert_eq!(actions(text), expected);
}

#[test]
fn blocks_state_their_content() {
    let drafts = "draft 1 from z to z as a\ndraft 1 from z to z as b\n";
    let mine = |count, withheld, with| Action::Mine { count, to: None, withheld: Amount::from_sat(withheld), with };
    let listed = || vec![vec![named("a"), named("b")], vec![], vec![named("a")]];
    for (line, expected) in [
        ("mine 3 with a, b / - / a", mine(3, 0, Some(listed()))),
        ("mine 1 with -", mine(1, 0, Some(vec![vec![]]))),
        ("mine 1 withholding 0.5 with a", mine(1, 50_000_000, Some(vec![vec![named("a")]]))),
        ("reorg 2 to 2 with a,b/-/a", Action::Reorg { count: 2, to: 2, with: listed() }),
        ("reorg 4", Action::Reorg { count: 4, to: 5, with: vec![] }),
    ] {
        assert_eq!(actions(&format!("{drafts}{line}"))[2..], [expected], "{line}");
    }
}

#[test]
fn every_other_action_is_a_line() {
    let text = "only simulated: it repeats a coinbase\n\
                account carol is p2sh_p2wpkh\naccount bare is p2pk with the key of carol\npay all script types from a as zoo\nspend all script types to b as feast\n\
                submit zoo\nsubmit feast refused bad-txns-in, it says\nevict zoo\nduplicate coinbase of block1\n\
                shorten 3\nback to genesis\nreturn to block9b\nrestart\nkill\nhold\nfollow\nrestart node\n\
                restart node forgetting its mempool\nstop node\nstart node\nstop signals\nstart signals\nsubscribe news\n  subscription { newBlock { hash } }\nexpect news 2\n";
    let expected = [
        Action::Account { name: named("carol"), kind: ScriptKind::P2shP2wpkh, key_of: None },
        Action::Account { name: named("bare"), kind: ScriptKind::P2pk, key_of: Some(named("carol")) },
        Action::PayAllTypes { from: named("a"), name: named("zoo") },
        Action::SpendAllTypes { to: named("b"), name: named("feast") },
        Action::Submit { name: named("zoo"), refused: None },
        Action::Submit { name: named("feast"), refused: Some(named("bad-txns-in, it says")) },
        Action::Evict(named("zoo")),
        Action::DuplicateCoinbase { block: named("block1") },
        Action::Shorten(3),
        Action::BackToGenesis,
        Action::ReturnTo(named("block9b")),
        Action::Restart,
        Action::Kill,
        Action::Stop,
        Action::Follow,
        Action::RestartNode { forgets: false },
        Action::RestartNode { forgets: true },
        Action::StopNode,
        Action::StartNode,
        Action::StopSignals,
        Action::StartSignals,
        Action::Subscribe { name: named("news"), document: named("  subscription { newBlock { hash } }\n") },
        Action::Expect { name: named("news"), count: 2 },
    ];
    assert_eq!(actions(text), expected);
    let scenario = parse(text).unwrap();
    assert_eq!(scenario.only_simulated.as_deref(), Some("it repeats a coinbase"));
    assert!(scenario.needs_signals() && !parse("mine 1\nstop node\nstart node").unwrap().needs_signals());
}

#[test]
fn unreadable_input_is_reported_with_its_line() {
    for (text, expected) in [
        ("mine 1\nmind 2", "2: 'mind' is no action; there are account, mine, duplicate, send, "),
        ("mine 0", "1: '0' is no number of blocks from 1 to 1000; it is: mine COUNT [to NAME]"),
        ("mine 1 for a", "1: 'for' is not expected here; it is: mine COUNT"),
        ("mine 1 with", "1: a name is missing at the end; it is: mine COUNT"),
        ("mine 1 with a", "1: there is no transaction 'a' yet"),
        ("send 1 from a to b", "1: 'as' is missing at the end; it is: send|draft BTC from NAME"),
        ("send 1 from a to b for c", "1: 'as' is expected where 'for' stands; it is: send|draft BTC from NAME"),
        ("send 1 from a to b as c fee x", "1: 'x' is no fee in satoshis"),
        (
            "send 1 from A to b as c",
            "1: 'A' is no name: it begins with a letter, and small letters, digits and _ follow",
        ),
        ("send 1 from a to b as c\n\nsend 1 from a to b as c", "3: there is a transaction 'c' already"),
        ("send x from a to b as c", "1: 'x' is no amount in BTC"),
        ("send 1 from a to data b as c", "1: 'b' is no quoted text"),
        ("send 1 from a to data \"b as c", "1: a quoted text has no end"),
        ("send 1 from a to b as c spending d", "1: 'd' is no coin: it is the name of a transaction"),
        ("send 1 from a to b as c instead of d", "1: there is no transaction 'd' yet"),
        ("account a is p2xx", "1: 'p2xx' is no kind of script"),
        ("account a is p2pkh with the key of b", "1: there is no account 'b' yet"),
        ("mine 1 to a\naccount a is p2pkh", "2: there is an account 'a' already"),
        (
            "draft 1 from a to b as c\nsubmit c refused",
            "2: 'refused' is not expected here; it is: submit TX [refused REASON]",
        ),
        ("duplicate coinbase of block1", "1: a real node refuses this: begin with 'only simulated: WHY'"),
        ("mine 1\nonly simulated: x", "2: this comes once, and in front of all actions"),
        ("only simulated", "1: it is: only simulated: WHY"),
        ("stop", "1: 'node' is missing at the end; it is: stop node|signals"),
        ("expect news 1", "1: there is no subscription 'news'"),
        ("  mine 1", "1: only the lines of a query or subscription are indented"),
        ("mine 1\n  { tip }", "2: only the lines of a query or subscription are indented"),
        ("query q\nmine 1", "1: a document follows it, in indented lines"),
        ("mine 1\nsubscribe q\n", "2: a document follows it, in indented lines"),
    ] {
        let found = parse(text).map_err(|error| error.to_string());
        assert!(found.as_ref().is_err_and(|error| error.starts_with(expected)), "{found:?} of {text:?}");
    }
}
