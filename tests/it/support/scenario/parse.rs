//! The text of a scenario: one action a line, and queries as indented blocks.
//!
//! ```text
//! # A comment.
//! mine 101 to miner                              blocks, one after the other; to nobody in particular without `to`
//! send 1.5 from miner to alice as pay            BTC; the change goes back, the fee is 1000 sat
//! send 0.2 from alice to bob as tip fee 500      or this many sat
//! reorg 2                                        takes the 2 newest blocks out and mines 3 empty ones instead
//! restart                                        stops btcgraph and starts it again
//! restart node                                   the same with the node
//! query what alice has
//!   { address(address: "$address.alice") { balance { confirmed } } }
//! ```

use std::collections::BTreeSet;
use std::fmt;

use bitcoin::{Amount, Denomination};

/// What is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Mine { count: u32, to: Option<String> },
    Send { amount: Amount, from: String, to: String, name: String, fee: Amount },
    Reorg(u32),
    Restart,
    RestartNode,
    Query { document: String },
}

/// An action as it stands in the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) action: Action,
}

/// Why a text is no scenario.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.line, self.what)
    }
}

/// More blocks than this in one action are a slip of the pen.
const MOST_BLOCKS: u32 = 1_000;
const DEFAULT_FEE: Amount = Amount::from_sat(1_000);

/// The actions of a scenario in their order.
pub(crate) fn parse(text: &str) -> Result<Vec<Step>, Malformed> {
    let mut steps: Vec<Step> = Vec::new();
    let mut sent = BTreeSet::new();
    let mut in_query = false;
    for (line, content) in (1..).zip(text.lines()) {
        let malformed = |what: String| Malformed { line, what };
        if content.trim().is_empty() {
            continue;
        }
        if content.starts_with([' ', '\t']) {
            let Some(Step { text, action: Action::Query { document }, .. }) = steps.last_mut().filter(|_| in_query)
            else {
                return Err(malformed("only the lines of a query are indented".to_owned()));
            };
            text.push('\n');
            text.push_str(content.trim_end());
            document.push_str(content);
            document.push('\n');
            continue;
        }
        if content.starts_with('#') {
            continue;
        }
        complete(steps.last())?;
        let action = action(content).map_err(malformed)?;
        if let Action::Send { name, .. } = &action
            && !sent.insert(name.clone())
        {
            return Err(malformed(format!("there is a transaction '{name}' already")));
        }
        in_query = matches!(action, Action::Query { .. });
        steps.push(Step { line, text: content.trim_end().to_owned(), action });
    }
    complete(steps.last())?;
    Ok(steps)
}

/// A query has a document.
fn complete(step: Option<&Step>) -> Result<(), Malformed> {
    match step {
        Some(Step { line, action: Action::Query { document }, .. }) if document.is_empty() => {
            Err(Malformed { line: *line, what: "the lines of a query follow it, indented".to_owned() })
        }
        _ => Ok(()),
    }
}

fn action(content: &str) -> Result<Action, String> {
    let words: Vec<&str> = content.split_whitespace().collect();
    match words.as_slice() {
        ["mine", count] => Ok(Action::Mine { count: blocks(count)?, to: None }),
        ["mine", count, "to", to] => Ok(Action::Mine { count: blocks(count)?, to: Some(name(to)?) }),
        ["send", amount, "from", from, "to", to, "as", as_] => send(amount, from, to, as_, DEFAULT_FEE),
        ["send", amount, "from", from, "to", to, "as", as_, "fee", fee] => {
            let fee = fee.parse().map_err(|_| format!("'{fee}' is no fee in satoshis"))?;
            send(amount, from, to, as_, Amount::from_sat(fee))
        }
        ["reorg", count] => Ok(Action::Reorg(blocks(count)?)),
        ["restart"] => Ok(Action::Restart),
        ["restart", "node"] => Ok(Action::RestartNode),
        ["query", ..] => Ok(Action::Query { document: String::new() }),
        [first, ..] => Err(match *first {
            "mine" => "it is: mine COUNT [to NAME]".to_owned(),
            "send" => "it is: send BTC from NAME to NAME as NAME [fee SAT]".to_owned(),
            "reorg" => "it is: reorg COUNT".to_owned(),
            "restart" => "it is: restart [node]".to_owned(),
            other => format!("'{other}' is no action; there are mine, send, reorg, restart and query"),
        }),
        [] => Err("an empty line".to_owned()),
    }
}

fn send(amount: &str, from: &str, to: &str, as_: &str, fee: Amount) -> Result<Action, String> {
    let sats = Amount::from_str_in(amount, Denomination::Bitcoin);
    let amount = sats.map_err(|_| format!("'{amount}' is no amount in BTC"))?;
    Ok(Action::Send { amount, from: name(from)?, to: name(to)?, name: name(as_)?, fee })
}

fn blocks(count: &str) -> Result<u32, String> {
    let number = count.parse().ok().filter(|count| (1..=MOST_BLOCKS).contains(count));
    number.ok_or_else(|| format!("'{count}' is no number of blocks from 1 to {MOST_BLOCKS}"))
}

fn name(word: &str) -> Result<String, String> {
    let starts = word.starts_with(|first: char| first.is_ascii_lowercase());
    if starts && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
        Ok(word.to_owned())
    } else {
        Err(format!("'{word}' is no name: it begins with a letter, and small letters, digits and _ follow"))
    }
}

#[test]
fn a_scenario_is_read_line_by_line() {
    let text = "# what\nmine 2 to miner\n\nsend 0.5 from miner to alice as pay fee 7\nquery a b\n  {\n\n    tip\n  }\nreorg 1\n";
    let step = |line, text: &str, action| Step { line, text: text.to_owned(), action };
    let named = |name: &str| name.to_owned();
    let pay = Action::Send {
        amount: Amount::from_sat(50_000_000),
        from: named("miner"),
        to: named("alice"),
        name: named("pay"),
        fee: Amount::from_sat(7),
    };
    assert_eq!(
        parse(text).unwrap(),
        [
            step(2, "mine 2 to miner", Action::Mine { count: 2, to: Some(named("miner")) }),
            step(4, "send 0.5 from miner to alice as pay fee 7", pay),
            step(5, "query a b\n  {\n    tip\n  }", Action::Query { document: "  {\n    tip\n  }\n".to_owned() }),
            step(10, "reorg 1", Action::Reorg(1)),
        ]
    );
}

#[test]
fn what_cannot_be_read_is_told_with_its_line() {
    for (text, expected) in [
        ("mine 1\nmind 2", "2: 'mind' is no action; there are mine, send, reorg, restart and query"),
        ("mine 0", "1: '0' is no number of blocks from 1 to 1000"),
        ("mine 1 for a", "1: it is: mine COUNT [to NAME]"),
        ("send 1 from a to b", "1: it is: send BTC from NAME to NAME as NAME [fee SAT]"),
        ("send 1 from a to b as c fee x", "1: 'x' is no fee in satoshis"),
        (
            "send 1 from A to b as c",
            "1: 'A' is no name: it begins with a letter, and small letters, digits and _ follow",
        ),
        ("send 1 from a to b as c\n\nsend 1 from a to b as c", "3: there is a transaction 'c' already"),
        ("send x from a to b as c", "1: 'x' is no amount in BTC"),
        ("  mine 1", "1: only the lines of a query are indented"),
        ("mine 1\n  { tip }", "2: only the lines of a query are indented"),
        ("query q\nmine 1", "1: the lines of a query follow it, indented"),
        ("mine 1\nquery q\n", "2: the lines of a query follow it, indented"),
    ] {
        assert!(
            parse(text).is_err_and(|error| error.to_string().starts_with(expected)),
            "{:?} of {text:?}",
            parse(text)
        );
    }
}
