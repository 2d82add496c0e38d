//! The address at which the node publishes its signals: from the settings, or reported by the node.

use std::net::{IpAddr, Ipv6Addr};

use serde::Deserialize;
use tracing::warn;
use ureq::http::Uri;

use crate::node::error::NodeError;
use crate::node::node::Node;
use crate::node::rpc::code;

/// The type of the socket that publishes the topic, as `getzmqnotifications` names it.
const KIND: &str = "pubsequence";

/// The address of a reachable publisher: `tcp://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// An IPv6 address is in brackets.
    host: String,
    port: u16,
}

/// An item of the answer of `getzmqnotifications`.
#[derive(Deserialize)]
struct ZmqNotification {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

impl Endpoint {
    /// Parses `tcp://host:port` with a port other than 0.
    pub(super) fn parse(text: &str) -> Option<Endpoint> {
        let (host, port) = text.strip_prefix("tcp://")?.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        // brackets separate an IPv6 address from its port
        let is_host = !host.is_empty() && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')));
        is_host.then(|| Endpoint { host: host.to_owned(), port })
    }

    /// The endpoint of the setting `node.zmq`.
    ///
    /// Errors: [`NodeError::Settings`] for another form, or for a wildcard, which no client can connect to.
    pub(super) fn of_setting(text: &str) -> Result<Endpoint, NodeError> {
        Endpoint::parse(text).filter(|endpoint| !endpoint.is_wildcard()).ok_or_else(|| NodeError::Settings {
            setting: "node.zmq",
            problem: format!(
                "{text:?} is not of the form tcp://host:port; give the address of the node's -zmqpubsequence as this \
                 machine reaches it"
            ),
        })
    }

    /// `host:port`.
    pub(super) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }

    /// Whether the node listens on all of its addresses.
    fn is_wildcard(&self) -> bool {
        self.host == "*" || self.ip().is_some_and(|ip| ip.is_unspecified())
    }
}

/// The first reported address that a client can connect to, if the RPC server is at `rpc_host`. The reported addresses
/// are those of the node's own machine.
fn choose(notifications: &[ZmqNotification], rpc_host: &str) -> Option<Endpoint> {
    let mut published = notifications.iter().filter(|notification| notification.kind == KIND);
    let reachable = |ZmqNotification { address, .. }: &ZmqNotification| {
        let Some(mut endpoint) = Endpoint::parse(address) else {
            warn!(address, "the node publishes its signals at an unsupported address; use tcp:// in -zmqpubsequence");
            return None;
        };
        if endpoint.is_wildcard() {
            rpc_host.clone_into(&mut endpoint.host);
        } else if is_this_machine(&endpoint.host) && !is_this_machine(rpc_host) {
            warn!(
                address,
                "the node publishes its signals on its own machine only; use a reachable address in -zmqpubsequence"
            );
            return None;
        }
        Some(endpoint)
    };
    published.find_map(reachable)
}

fn is_this_machine(host: &str) -> bool {
    let ip: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    host.eq_ignore_ascii_case("localhost")
        || ip.is_some_and(|ip| match ip {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip == Ipv6Addr::LOCALHOST,
        })
}

impl Node {
    /// The address at which the node publishes its signals, for [`Signals::start`](super::Signals::start):
    /// [`NodeOptions::zmq`](crate::node::NodeOptions::zmq), or else the one that the node reports. `None` when the node
    /// does not publish them (`-zmqpubsequence`) at a reachable address: then it has to be polled.
    pub fn signal_endpoint(&self) -> Result<Option<String>, NodeError> {
        let url = |endpoint: &Endpoint| format!("tcp://{}", endpoint.address());
        if let Some(given) = &self.options().zmq {
            return Endpoint::of_setting(given).map(|endpoint| Some(url(&endpoint)));
        }
        let notifications: Vec<ZmqNotification> = match self.call("getzmqnotifications", &[]) {
            // a node built without ZMQ
            Err(NodeError::Rpc { code: code::METHOD_NOT_FOUND, .. }) => Vec::new(),
            answer => answer?,
        };
        let rpc_host = self.options().rpc_url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
        // connecting has validated that it is a URL with a host
        Ok(choose(&notifications, &rpc_host.unwrap_or_default()).as_ref().map(url))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
    use super::super::super::options::NodeOptions;
    use super::*;

    fn chosen(addresses: &[&str], rpc_host: &str) -> Option<String> {
        let notification = |address: &&str| ZmqNotification { kind: KIND.to_owned(), address: (*address).to_owned() };
        choose(&addresses.iter().map(notification).collect::<Vec<_>>(), rpc_host).map(|endpoint| endpoint.address())
    }

    #[test]
    fn a_wildcard_is_the_host_of_the_rpc_server() {
        for wildcard in ["tcp://0.0.0.0:28332", "tcp://*:28332", "tcp://[::]:28332"] {
            assert_eq!(chosen(&[wildcard], "node").as_deref(), Some("node:28332"));
            assert_eq!(chosen(&[wildcard], "[fd00::1]").as_deref(), Some("[fd00::1]:28332"));
        }
        assert_eq!(chosen(&["tcp://10.0.0.5:1"], "node").as_deref(), Some("10.0.0.5:1"));
    }

    #[test]
    fn a_loopback_address_is_used_on_the_same_machine_only() {
        for own in ["tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1"] {
            assert!(chosen(&[own], "127.0.0.1").is_some() && chosen(&[own], "localhost").is_some(), "{own}");
            assert_eq!(chosen(&[own], "node"), None, "{own}");
        }
        assert_eq!(chosen(&["tcp://127.0.0.1:1", "tcp://10.0.0.5:2"], "node").as_deref(), Some("10.0.0.5:2"));
        assert_eq!(chosen(&["ipc:///run/node.sock", "tcp://10.0.0.5:2"], "node").as_deref(), Some("10.0.0.5:2"));
        assert_eq!(chosen(&[], "node"), None);
    }

    #[test]
    fn an_endpoint_setting_of_another_form_is_refused() {
        for right in ["tcp://127.0.0.1:28332", "tcp://node.example:1", "tcp://[::1]:65535"] {
            assert_eq!(format!("tcp://{}", Endpoint::of_setting(right).unwrap().address()), right);
        }
        for wrong in [
            "",
            "127.0.0.1:1",
            "tcp://",
            "tcp://node",
            "tcp://node:",
            "tcp://node:0",
            "tcp://node:65536",
            "tcp://:1",
            "tcp://::1:1",
            "tcp://0.0.0.0:1",
            "tcp://*:1",
            "ipc:///a",
            "http://node:1",
        ] {
            let error = Endpoint::of_setting(wrong).unwrap_err();
            assert!(matches!(error, NodeError::Settings { setting: "node.zmq", .. }), "{wrong}: {error}");
        }
    }

    #[test]
    fn the_node_reports_the_endpoint_only_when_none_is_set() {
        let fake = FakeNode::start(|asked| match asked {
            FakeRequest::Rpc("getzmqnotifications", _) => FakeResponse::Result(json!([
                {"type": "pubhashblock", "address": "tcp://0.0.0.0:1", "hwm": 1000},
                {"type": "pubsequence", "address": "tcp://0.0.0.0:2", "hwm": 1000},
            ])),
            _ => regtest(asked),
        });
        let endpoint = |zmq: Option<&str>| {
            let options = NodeOptions { zmq: zmq.map(str::to_owned), ..fake.options() };
            Node::connect(options).unwrap().signal_endpoint()
        };
        assert_eq!(endpoint(None).unwrap().as_deref(), Some("tcp://127.0.0.1:2"));
        assert_eq!(endpoint(Some("tcp://other:3")).unwrap().as_deref(), Some("tcp://other:3"));
        assert!(matches!(endpoint(Some("other:3")), Err(NodeError::Settings { .. })));
        let without = FakeNode::start(regtest);
        assert_eq!(Node::connect(without.options()).unwrap().signal_endpoint().unwrap(), None);
    }
}
