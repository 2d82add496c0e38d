//! Methods about the node itself.

use std::net::Ipv4Addr;

use serde::Serialize;

use super::backend::Backend;
use super::error::{RpcResult, json};
use super::publisher::HIGH_WATER_MARK;
use super::rpc::params::Params;

#[derive(Serialize)]
struct NetworkInfoJson {
    version: u32,
    subversion: String,
    protocolversion: u32,
    localrelay: bool,
    timeoffset: i64,
    networkactive: bool,
    connections: u32,
    connections_in: u32,
    connections_out: u32,
    warnings: [&'static str; 0],
}

pub(super) fn getnetworkinfo(node: &Backend, _: &Params) -> RpcResult {
    let version = node.options.version;
    let (major, minor, build) = (version / 10_000, version / 100 % 100, version % 100);
    json(NetworkInfoJson {
        version,
        subversion: format!("/Satoshi:{major}.{minor}.{build}/btcgraph-sim:{}/", env!("CARGO_PKG_VERSION")),
        protocolversion: 70_016,
        localrelay: true,
        timeoffset: 0,
        networkactive: false,
        connections: 0,
        connections_in: 0,
        connections_out: 0,
        warnings: [],
    })
}

pub(super) fn uptime(node: &Backend, _: &Params) -> RpcResult {
    json(node.uptime().as_secs())
}

#[derive(Serialize)]
struct ZmqNotificationJson {
    #[serde(rename = "type")]
    kind: &'static str,
    address: String,
    hwm: usize,
}

pub(super) fn getzmqnotifications(node: &Backend, _: &Params) -> RpcResult {
    let port = node.notifier().open_port();
    let notification = |port| ZmqNotificationJson {
        kind: "pubsequence",
        address: format!("tcp://{}:{port}", Ipv4Addr::LOCALHOST),
        hwm: HIGH_WATER_MARK,
    };
    json(port.map(notification).into_iter().collect::<Vec<_>>())
}
