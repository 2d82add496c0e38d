//! The text of a scenario: one action a line, and GraphQL documents as indented blocks.
//!
//! ```text
//! # A comment.
//! only simulated: why                            in front of all actions: no real node would do what this asks
//! account carol is p2wpkh                        a kind of `ScriptKind`; p2tr_key for accounts that are just named
//! account bare is p2pk with the key of carol     another script of the same key
//!
//! mine 101 to miner                              blocks with what waits in the mempool; to nobody without `to`
//! mine 2 with pay, tip / -                       exactly these in this order, then none; blocks beyond are empty
//! mine 1 to miner withholding 0.5                BTC that the coinbase does not claim
//! duplicate coinbase of block7                   a block whose coinbase is that of an earlier block once more (BIP30)
//!
//! send 1.5 from miner to alice as pay            BTC; the change goes back, the fee is 1000 sat
//! send 1 from alice to bob, 2 to data "hi" as two spending pay:0, tip:1 fee 500 locktime 9 sequence 5
//! send 1.5 from miner to bob as cheat instead of pay       spends the very coins that `pay` spends
//! draft …                                        the same, signed and kept: for `mine … with` and `submit`
//! submit cheat                                   gives a draft to the node,
//! submit cheat refused missingorspent            which refuses it, and says this among other things
//! pay all script types from miner as zoo         an output of 0.01 BTC to each kind; the accounts have the kinds' names
//! spend all script types to bob as feast         all of these that can be spent. Both are drafts: mine them with `with`
//! evict pay                                      the node forgets what waits
//!
//! reorg 2                                        takes the 2 newest blocks out and mines 3 empty ones instead,
//! reorg 2 to 2 with - / tip, pay                 or so many, with these transactions
//! shorten 3                                      takes the 3 newest blocks out; the chain is shorter then
//! back to genesis                                takes all blocks out
//! return to block104                             leaves the branch of now for an earlier one, up to its last block
//!
//! restart                                        stops btcgraph and starts it again
//! kill                                           the same with SIGKILL
//! hold                                           stops btcgraph;
//! follow                                         starts it, and it catches up with all that happened meanwhile
//! restart node                                   the node is away until btcgraph knows it, and then it is back,
//! restart node forgetting its mempool            or begins again with nothing in its mempool
//! stop node                                      the node is away;
//! start node                                     it is back
//! stop signals                                   the signals (ZMQ) of the node no longer arrive; it sends them only in
//! start signals                                  scenarios with these lines; they arrive again
//!
//! query what alice has
//!   { address(address: "$address.alice") { balance { confirmed } } }
//! subscribe news
//!   subscription { newBlock { height } }
//! expect news 3                                  the next 3 events of that subscription, which must have come by now
//! ```
//!
//! A payment that names no coins spends the oldest that can be spent. `hold` goes with `follow`, and `stop
//! node` with `start node`; meanwhile nothing can be asked of the one, or done to the other.
//!
//! Transactions that wait are mined by feerate. Two of the same feerate are in an arbitrary order: give them
//! different fees, or list the transactions of the block.

mod action;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;
use std::fmt;

use bitcoin::Amount;
use btcgraph::sim::ScriptKind;

/// What is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Account { name: String, kind: ScriptKind, key_of: Option<String> },
    Mine { count: u32, to: Option<String>, withheld: Amount, with: Option<Contents> },
    DuplicateCoinbase { block: String },
    Send(Payment),
    Draft(Payment),
    Submit { name: String, refused: Option<String> },
    PayAllTypes { from: String, name: String },
    SpendAllTypes { to: String, name: String },
    Evict(String),
    Reorg { count: u32, to: u32, with: Contents },
    Shorten(u32),
    BackToGenesis,
    ReturnTo(String),
    Restart,
    Kill,
    Stop,
    Follow,
    RestartNode { forgets: bool },
    StopNode,
    StartNode,
    StopSignals,
    StartSignals,
    Query { document: String },
    Subscribe { name: String, document: String },
    Expect { name: String, count: usize },
}

/// The names of the transactions of blocks that follow each other.
pub(crate) type Contents = Vec<Vec<String>>;

/// A transaction to be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) from: String,
    /// Amounts and whom they go to.
    pub(crate) outputs: Vec<(Amount, Receiver)>,
    pub(crate) name: String,
    pub(crate) coins: Coins,
    pub(crate) fee: Amount,
    pub(crate) lock_time: u32,
    /// Of all inputs; as final as can be if none, or not quite where there is a lock time.
    pub(crate) sequence: Option<u32>,
}

/// Whom an output pays.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Receiver {
    Account(String),
    /// OP_RETURN and this text.
    Data(String),
}

/// Which coins a payment spends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Coins {
    /// The oldest of the payer that can be spent.
    Oldest,
    /// These outputs of named transactions.
    Named(Vec<(String, u32)>),
    /// Those that a named transaction spends.
    Of(String),
}

/// An action as it stands in the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) action: Action,
}

/// A whole file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scenario {
    /// Why no real node plays it.
    pub(crate) only_simulated: Option<String>,
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    /// Whether the node has to send signals (ZMQ).
    pub(crate) fn needs_signals(&self) -> bool {
        self.steps.iter().any(|step| step.action == Action::StopSignals)
    }
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

/// The actions of a scenario in their order.
pub(crate) fn parse(text: &str) -> Result<Scenario, Malformed> {
    let mut scenario = Scenario::default();
    let steps = &mut scenario.steps;
    let mut known = Known::default();
    // whether indented lines may follow
    let mut open = false;
    for (line, content) in (1..).zip(text.lines()) {
        let malformed = |what: String| Malformed { line, what };
        if content.trim().is_empty() {
            continue;
        }
        if content.starts_with([' ', '\t']) {
            let Some((text, document)) = steps.last_mut().filter(|_| open).and_then(document_of) else {
                return Err(malformed("only the lines of a query or subscription are indented".to_owned()));
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
        if let Some(reason) = content.strip_prefix("only simulated") {
            let reason = reason.strip_prefix(':').map(str::trim).filter(|reason| !reason.is_empty());
            let reason = reason.ok_or_else(|| malformed("it is: only simulated: WHY".to_owned()))?;
            if !steps.is_empty() || scenario.only_simulated.is_some() {
                return Err(malformed("this comes once, and in front of all actions".to_owned()));
            }
            scenario.only_simulated = Some(reason.to_owned());
            continue;
        }
        let action = action::parse(content).map_err(malformed)?;
        known.check(&action).map_err(malformed)?;
        if matches!(action, Action::DuplicateCoinbase { .. }) && scenario.only_simulated.is_none() {
            return Err(malformed("a real node refuses this: begin with 'only simulated: WHY'".to_owned()));
        }
        open = matches!(action, Action::Query { .. } | Action::Subscribe { .. });
        steps.push(Step { line, text: content.trim_end().to_owned(), action });
    }
    complete(steps.last())?;
    Ok(scenario)
}

/// The text of a step and the document in it, where it has one.
fn document_of(step: &mut Step) -> Option<(&mut String, &mut String)> {
    match step {
        Step { text, action: Action::Query { document } | Action::Subscribe { document, .. }, .. } => {
            Some((text, document))
        }
        _ => None,
    }
}

/// A query or subscription has a document.
fn complete(step: Option<&Step>) -> Result<(), Malformed> {
    match step {
        Some(Step { line, action: Action::Query { document } | Action::Subscribe { document, .. }, .. })
            if document.is_empty() =>
        {
            Err(Malformed { line: *line, what: "a document follows it, in indented lines".to_owned() })
        }
        _ => Ok(()),
    }
}

/// What the actions so far have named.
#[derive(Default)]
struct Known {
    accounts: BTreeSet<String>,
    transactions: BTreeSet<String>,
    subscriptions: BTreeSet<String>,
}

impl Known {
    /// Takes note of what an action names. Errors: it names what is named already, or means what is not.
    fn check(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Account { name, key_of, .. } => {
                if let Some(other) = key_of.as_ref().filter(|other| !self.accounts.contains(*other)) {
                    return Err(format!("there is no account '{other}' yet"));
                }
                fresh(&mut self.accounts, "account", name)
            }
            Action::Send(payment) | Action::Draft(payment) => {
                let Payment { from, outputs, name, coins, .. } = payment;
                self.accounts.insert(from.clone());
                for (_, receiver) in outputs {
                    if let Receiver::Account(account) = receiver {
                        self.accounts.insert(account.clone());
                    }
                }
                if let Coins::Of(other) = coins {
                    self.transaction(other)?;
                }
                fresh(&mut self.transactions, "transaction", name)
            }
            Action::PayAllTypes { name, .. } | Action::SpendAllTypes { name, .. } => {
                fresh(&mut self.transactions, "transaction", name)
            }
            Action::Mine { to, with, .. } => {
                self.accounts.extend(to.clone());
                with.iter().flatten().flatten().try_for_each(|name| self.transaction(name))
            }
            Action::Reorg { with, .. } => with.iter().flatten().try_for_each(|name| self.transaction(name)),
            Action::Submit { name, .. } | Action::Evict(name) => self.transaction(name),
            Action::Subscribe { name, .. } => fresh(&mut self.subscriptions, "subscription", name),
            Action::Expect { name, .. } if !self.subscriptions.contains(name) => {
                Err(format!("there is no subscription '{name}'"))
            }
            _ => Ok(()),
        }
    }

    fn transaction(&self, name: &str) -> Result<(), String> {
        if self.transactions.contains(name) { Ok(()) } else { Err(format!("there is no transaction '{name}' yet")) }
    }
}

fn fresh(names: &mut BTreeSet<String>, kind: &str, name: &str) -> Result<(), String> {
    if names.insert(name.to_owned()) {
        Ok(())
    } else {
        Err(format!("there is {} {kind} '{name}' already", article(kind)))
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with('a') { "an" } else { "a" }
}
