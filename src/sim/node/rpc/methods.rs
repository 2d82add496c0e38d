//! The table of all methods with their parameters.

use super::super::backend::Backend;
use super::super::error::{RpcFailure, RpcResult, code};
use super::super::{
    blocks, chain, coins, control, deployments, estimates, mempool, mining, packages, submit, template, transactions,
};
use super::envelope::Call;
use super::params::ParamType::{Any, Array, Bool, Number, Text};
use super::params::{ParamType, Parameter, Params};

type Method = fn(&Backend, &Params) -> RpcResult;

/// A method: its name, its parameters, and its handler.
struct MethodEntry {
    name: &'static str,
    parameters: &'static [Parameter],
    method: Method,
}

const fn required(name: &'static str, kind: ParamType) -> Parameter {
    Parameter { name, kind, required: true }
}

const fn optional(name: &'static str, kind: ParamType) -> Parameter {
    Parameter { name, kind, required: false }
}

const fn entry(name: &'static str, parameters: &'static [Parameter], method: Method) -> MethodEntry {
    MethodEntry { name, parameters, method }
}

const METHODS: &[MethodEntry] = &[
    entry(
        "estimatesmartfee",
        &[required("conf_target", Number), optional("estimate_mode", Text)],
        estimates::estimatesmartfee,
    ),
    entry("generateblock", &[required("output", Text), required("transactions", Array)], mining::generateblock),
    entry(
        "generatetoaddress",
        &[required("nblocks", Number), required("address", Text), optional("maxtries", Number)],
        mining::generatetoaddress,
    ),
    entry("getbestblockhash", &[], chain::getbestblockhash),
    entry("getblock", &[required("blockhash", Text), optional("verbosity", Any)], blocks::getblock),
    entry("getblockchaininfo", &[], chain::getblockchaininfo),
    entry("getblockcount", &[], chain::getblockcount),
    entry("getblockfilter", &[required("blockhash", Text), optional("filtertype", Text)], chain::getblockfilter),
    entry("getblockhash", &[required("height", Number)], chain::getblockhash),
    entry("getblockheader", &[required("blockhash", Text), optional("verbose", Bool)], chain::getblockheader),
    entry("getblocktemplate", &[required("template_request", Any)], template::getblocktemplate),
    entry("getchaintips", &[], chain::getchaintips),
    entry("getchaintxstats", &[optional("nblocks", Number), optional("blockhash", Text)], chain::getchaintxstats),
    entry("getdeploymentinfo", &[optional("blockhash", Text)], deployments::getdeploymentinfo),
    entry("getmempoolentry", &[required("txid", Text)], mempool::getmempoolentry),
    entry("getmempoolinfo", &[], mempool::getmempoolinfo),
    entry("getnetworkinfo", &[], control::getnetworkinfo),
    entry("getrawmempool", &[optional("verbose", Bool), optional("mempool_sequence", Bool)], mempool::getrawmempool),
    entry(
        "getrawtransaction",
        &[required("txid", Text), optional("verbosity", Any), optional("blockhash", Text)],
        transactions::getrawtransaction,
    ),
    entry(
        "gettxout",
        &[required("txid", Text), required("n", Number), optional("include_mempool", Bool)],
        coins::gettxout,
    ),
    entry(
        "gettxoutsetinfo",
        &[optional("hash_type", Text), optional("hash_or_height", Any), optional("use_index", Bool)],
        coins::gettxoutsetinfo,
    ),
    entry("getzmqnotifications", &[], control::getzmqnotifications),
    entry("invalidateblock", &[required("blockhash", Text)], mining::invalidateblock),
    entry("reconsiderblock", &[required("blockhash", Text)], mining::reconsiderblock),
    entry(
        "sendrawtransaction",
        &[required("hexstring", Text), optional("maxfeerate", Any), optional("maxburnamount", Any)],
        submit::sendrawtransaction,
    ),
    entry(
        "submitpackage",
        &[required("package", Array), optional("maxfeerate", Any), optional("maxburnamount", Any)],
        packages::submitpackage,
    ),
    entry("testmempoolaccept", &[required("rawtxs", Array), optional("maxfeerate", Any)], submit::testmempoolaccept),
    entry("uptime", &[], control::uptime),
];

/// Answers a call.
pub(in crate::sim::node) fn answer(node: &Backend, call: Call) -> RpcResult {
    node.count_call(&call.method);
    if let Some(progress) = node.switches().warming_up {
        return Err(RpcFailure::new(code::IN_WARMUP, progress));
    }
    let entry = METHODS.iter().find(|entry| entry.name == call.method);
    let entry = entry.ok_or_else(|| RpcFailure::new(code::METHOD_NOT_FOUND, "Method not found"))?;
    let params = Params::check(entry.name, entry.parameters, call.params)?;
    (entry.method)(node, &params)
}
