//! A line as an action.

use bitcoin::Amount;

use super::words::Words;
use super::{Action, Coins, Contents, Payment, Receiver};
use crate::support::scenario::wallet::kind_named;

const DEFAULT_FEE: Amount = Amount::from_sat(1_000);

/// What the words after each first word are.
const USAGE: &[(&str, &str)] = &[
    ("account", "account NAME is KIND [with the key of NAME]"),
    ("mine", "mine COUNT [to NAME] [withholding BTC] [with TX, TX / TX]"),
    ("duplicate", "duplicate coinbase of BLOCK"),
    ("send", PAYMENT),
    ("draft", PAYMENT),
    ("submit", "submit TX [refused REASON]"),
    ("pay", "pay all script types from NAME as NAME"),
    ("spend", "spend all script types to NAME as NAME"),
    ("evict", "evict TX"),
    ("reorg", "reorg COUNT [to COUNT] [with TX, TX / TX]"),
    ("shorten", "shorten COUNT"),
    ("back", "back to genesis"),
    ("return", "return to BLOCK"),
    ("restart", "restart [node [forgetting its mempool]]"),
    ("kill", "kill"),
    ("hold", "hold"),
    ("follow", "follow"),
    ("stop", "stop node|signals"),
    ("start", "start node|signals"),
    ("query", "query WHAT IT IS ABOUT"),
    ("subscribe", "subscribe NAME"),
    ("expect", "expect NAME COUNT"),
];
const PAYMENT: &str = "send|draft BTC from NAME to NAME|data \"TEXT\"[, BTC to ...] as NAME [spending TX:VOUT, ...|instead \
                       of TX] [fee SAT] [locktime N] [sequence N]";

pub(super) fn parse(line: &str) -> Result<Action, String> {
    let mut words = Words::of(line)?;
    let first = words.next("an action")?;
    let Some((_, usage)) = USAGE.iter().find(|(name, _)| *name == first) else {
        let names: Vec<_> = USAGE.iter().map(|(name, _)| *name).collect();
        return Err(format!("'{first}' is no action; there are {}", names.join(", ")));
    };
    if first == "query" {
        return Ok(Action::Query { document: String::new() });
    }
    if let Some((submit, reason)) = line.split_once(" refused ").filter(|_| first == "submit") {
        // the node's words, whatever they are
        let Ok(Action::Submit { name, .. }) = parse(submit) else { return Err(format!("it is: {usage}")) };
        return Ok(Action::Submit { name, refused: Some(reason.trim().to_owned()) });
    }
    let action = action(first, &mut words).and_then(|action| words.end().map(|()| action));
    action.map_err(|what| format!("{what}; it is: {usage}"))
}

fn action(first: &str, words: &mut Words<'_>) -> Result<Action, String> {
    Ok(match first {
        "account" => {
            let name = words.name()?;
            words.must("is")?;
            let kind = words.next("a kind")?;
            let kind = kind_named(kind).ok_or_else(|| format!("'{kind}' is no kind of script"))?;
            Action::Account { name, kind, key_of: words.take("with the key of").then(|| words.name()).transpose()? }
        }
        "mine" => Action::Mine {
            count: words.blocks()?,
            to: words.take("to").then(|| words.name()).transpose()?,
            withheld: if words.take("withholding") { words.amount()? } else { Amount::ZERO },
            with: words.take("with").then(|| contents(words)).transpose()?,
        },
        "duplicate" => {
            words.must("coinbase of")?;
            Action::DuplicateCoinbase { block: words.name()? }
        }
        "send" => Action::Send(payment(words)?),
        "draft" => Action::Draft(payment(words)?),
        "pay" => {
            words.must("all script types from")?;
            let from = words.name()?;
            words.must("as")?;
            Action::PayAllTypes { from, name: words.name()? }
        }
        "spend" => {
            words.must("all script types to")?;
            let to = words.name()?;
            words.must("as")?;
            Action::SpendAllTypes { to, name: words.name()? }
        }
        "submit" => Action::Submit { name: words.name()?, refused: None },
        "evict" => Action::Evict(words.name()?),
        "reorg" => {
            let count = words.blocks()?;
            let to = if words.take("to") { words.blocks()? } else { count + 1 };
            let with = if words.take("with") { contents(words)? } else { Contents::new() };
            Action::Reorg { count, to, with }
        }
        "shorten" => Action::Shorten(words.blocks()?),
        "back" => words.must("to genesis").map(|()| Action::BackToGenesis)?,
        "return" => {
            words.must("to")?;
            Action::ReturnTo(words.name()?)
        }
        "restart" if words.take("node") => Action::RestartNode { forgets: words.take("forgetting its mempool") },
        "restart" => Action::Restart,
        "kill" => Action::Kill,
        "hold" => Action::Stop,
        "follow" => Action::Follow,
        "stop" if words.take("signals") => Action::StopSignals,
        "stop" => words.must("node").map(|()| Action::StopNode)?,
        "start" if words.take("signals") => Action::StartSignals,
        "start" => words.must("node").map(|()| Action::StartNode)?,
        "subscribe" => Action::Subscribe { name: words.name()?, document: String::new() },
        "expect" => Action::Expect { name: words.name()?, count: words.number("number of events")? },
        other => return Err(format!("'{other}' is an action without a parser")),
    })
}

fn payment(words: &mut Words<'_>) -> Result<Payment, String> {
    let amount = words.amount()?;
    words.must("from")?;
    let from = words.name()?;
    words.must("to")?;
    let mut outputs = vec![(amount, receiver(words)?)];
    while words.take(",") {
        let amount = words.amount()?;
        words.must("to")?;
        outputs.push((amount, receiver(words)?));
    }
    words.must("as")?;
    let name = words.name()?;
    let coins = if words.take("instead of") {
        Coins::Of(words.name()?)
    } else if words.take("spending") {
        let mut coins = vec![coin(words)?];
        while words.take(",") {
            coins.push(coin(words)?);
        }
        Coins::Named(coins)
    } else {
        Coins::Oldest
    };
    Ok(Payment {
        from,
        outputs,
        name,
        coins,
        fee: if words.take("fee") { Amount::from_sat(words.number("fee in satoshis")?) } else { DEFAULT_FEE },
        lock_time: if words.take("locktime") { words.number("lock time")? } else { 0 },
        sequence: words.take("sequence").then(|| words.number("sequence number")).transpose()?,
    })
}

fn receiver(words: &mut Words<'_>) -> Result<Receiver, String> {
    if !words.take("data") {
        return Ok(Receiver::Account(words.name()?));
    }
    let word = words.next("a quoted text")?;
    let text = word.strip_prefix('"').ok_or_else(|| format!("'{word}' is no quoted text"))?;
    Ok(Receiver::Data(text.to_owned()))
}

fn coin(words: &mut Words<'_>) -> Result<(String, u32), String> {
    let word = words.next("a coin")?;
    let parsed = word.split_once(':').and_then(|(name, vout)| Some((name.to_owned(), vout.parse().ok()?)));
    parsed.ok_or_else(|| format!("'{word}' is no coin: it is the name of a transaction, a colon and a number"))
}

/// Lists of names with commas in them and slashes between them; `-` is an empty one.
fn contents(words: &mut Words<'_>) -> Result<Contents, String> {
    let mut blocks = Contents::new();
    loop {
        let mut names = Vec::new();
        if !words.take("-") {
            names.push(words.name()?);
            while words.take(",") {
                names.push(words.name()?);
            }
        }
        blocks.push(names);
        if !words.take("/") {
            return Ok(blocks);
        }
    }
}
