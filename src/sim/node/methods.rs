//! The table of all methods, with what they take.

use super::backend::Backend;
use super::envelope::Call;
use super::failure::{Answer, Failure, code};
use super::params::Kind::{Any, Bool, Number, Text};
use super::params::{Kind, Parameter, Params};
use super::{blocks, chain, coins, control, transactions};

type Method = fn(&Backend, &Params) -> Answer;

/// A method that can be called: its name, what it takes, and what answers it.
struct Entry {
    name: &'static str,
    parameters: &'static [Parameter],
    method: Method,
}

const fn required(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, required: true }
}

const fn optional(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, required: false }
}

const fn entry(name: &'static str, parameters: &'static [Parameter], method: Method) -> Entry {
    Entry { name, parameters, method }
}

const METHODS: &[Entry] = &[
    entry("getbestblockhash", &[], chain::getbestblockhash),
    entry("getblock", &[required("blockhash", Text), optional("verbosity", Any)], blocks::getblock),
    entry("getblockchaininfo", &[], chain::getblockchaininfo),
    entry("getblockcount", &[], chain::getblockcount),
    entry("getblockhash", &[required("height", Number)], chain::getblockhash),
    entry("getblockheader", &[required("blockhash", Text), optional("verbose", Bool)], chain::getblockheader),
    entry("getchaintips", &[], chain::getchaintips),
    entry("getnetworkinfo", &[], control::getnetworkinfo),
    entry(
        "getrawtransaction",
        &[required("txid", Text), optional("verbosity", Any), optional("blockhash", Text)],
        transactions::getrawtransaction,
    ),
    entry(
        "gettxoutsetinfo",
        &[optional("hash_type", Text), optional("hash_or_height", Any), optional("use_index", Bool)],
        coins::gettxoutsetinfo,
    ),
    entry("getzmqnotifications", &[], control::getzmqnotifications),
    entry("uptime", &[], control::uptime),
];

/// Answers a call.
pub(super) fn answer(node: &Backend, call: Call) -> Answer {
    if let Some(progress) = node.switches().warming_up {
        return Err(Failure::new(code::IN_WARMUP, progress));
    }
    let entry = METHODS.iter().find(|entry| entry.name == call.method);
    let entry = entry.ok_or_else(|| Failure::new(code::METHOD_NOT_FOUND, "Method not found"))?;
    let params = Params::check(entry.name, entry.parameters, call.params)?;
    (entry.method)(node, &params)
}
