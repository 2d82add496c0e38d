//! The client of a request: the other end of its connection or, behind trusted proxies, the address that these add to
//! `X-Forwarded-For`; and what counts as one client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap};
use ipnet::IpNet;

use crate::server::list::{ListWord, WordList};

/// The header to which each proxy appends the address of its own client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The proxies whose `X-Forwarded-For` is believed: addresses and networks.
pub type TrustedProxies = WordList<Network>;

/// Addresses that begin with the same bits, as in `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

/// A text that is no network of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an address: write one as in \"10.1.2.3\" or \"fd00::1\", or a range of them as in \
         \"10.0.0.0/8\""
)]
pub struct InvalidProxy(String);

impl ListWord for Network {}

impl FromStr for Network {
    type Err = InvalidProxy;

    fn from_str(text: &str) -> Result<Self, InvalidProxy> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(Self).map_err(|_| InvalidProxy(text.to_owned()))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TrustedProxies {
    /// Whether this is the address of one of these proxies.
    fn trusts(&self, address: IpAddr) -> bool {
        self.iter().any(|Network(network)| network.contains(&address))
    }

    /// The client of a connection from `peer`: the last address that the proxies add and that is not one of theirs. What
    /// precedes it the client may have forged.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        // also of a value that is no text: the proxy appends to whatever the client sent
        let values = headers.get_all(FORWARDED_FOR).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let values: Vec<_> = values.collect();
        let list = values.join(",");
        for before in list.rsplit(',') {
            if !self.trusts(client) {
                break;
            }
            let Some(address) = address_of(before.trim()) else { break };
            client = address.to_canonical();
        }
        client
    }

    /// The client of a request with these extensions; `None` if they do not name the other end of its connection.
    pub(crate) fn client_of(&self, extensions: &Extensions, headers: &HeaderMap) -> Option<IpAddr> {
        let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(self.client(peer.ip(), headers))
    }
}

/// An address as proxies write it: some append the port.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.split(']').next());
    let without_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.unwrap_or(text).parse().ok().or_else(without_port)
}

/// The address that limits per client count by: a /64 network of IPv6 belongs to one customer as a whole.
pub(crate) fn rate_limit_key(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// The clients to which limits per client do not apply: trusted proxies and, unless the settings say otherwise, clients
/// on this machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exemptions {
    proxies: TrustedProxies,
    limit_loopback: bool,
}

impl Exemptions {
    pub(crate) fn new(proxies: TrustedProxies, limit_loopback: bool) -> Self {
        Self { proxies, limit_loopback }
    }

    /// The key that this client counts by, `None` if it is exempt.
    pub(crate) fn key_of(&self, client: IpAddr) -> Option<IpAddr> {
        let client = client.to_canonical();
        let is_exempt = (client.is_loopback() && !self.limit_loopback) || self.proxies.trusts(client);
        (!is_exempt).then(|| rate_limit_key(client))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn client(proxies: &str, peer: &str, forwarded: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        proxies.parse::<TrustedProxies>().unwrap().client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn an_untrusted_peer_is_the_client_whatever_it_forwards() {
        assert_eq!(client("", "1.2.3.4", &["9.9.9.9"]), "1.2.3.4");
        assert_eq!(client("10.0.0.0/8", "1.2.3.4", &["9.9.9.9"]), "1.2.3.4");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &[]), "10.1.1.1");
        assert_eq!(client("", "::ffff:1.2.3.4", &[]), "1.2.3.4");
    }

    #[test]
    fn behind_trusted_proxies_the_client_is_the_last_other_address() {
        let proxies = "10.0.0.0/8 fd00::/8 192.168.1.1";
        for (forwarded, expected) in [
            (&["1.2.3.4"][..], "1.2.3.4"),
            (&["9.9.9.9, 1.2.3.4"], "1.2.3.4"),
            (&["9.9.9.9, 1.2.3.4 , 10.2.2.2"], "1.2.3.4"),
            (&["9.9.9.9", "1.2.3.4", "fd00::1"], "1.2.3.4"),
            (&["1.2.3.4:5678"], "1.2.3.4"),
            (&["2001:db8::7"], "2001:db8::7"),
            (&["[2001:db8::7]:5678"], "2001:db8::7"),
            (&["192.168.1.2"], "192.168.1.2"),
            (&["\u{e9}, 1.2.3.4"], "1.2.3.4"),
            (&["9.9.9.9, unknown"], "10.1.1.1"),
            (&[""], "10.1.1.1"),
            (&["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        ] {
            assert_eq!(client(proxies, "10.1.1.1", forwarded), expected, "{forwarded:?}");
        }
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (range, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fdff::1", true),
            ("::/0", "2001::1", true),
        ] {
            assert_eq!(
                range.parse::<TrustedProxies>().unwrap().trusts(address.parse().unwrap()),
                expected,
                "{range} {address}"
            );
        }
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in ["10.0.0.0/33", "10.0.0", "fd00::/129", "proxy.example", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(text.parse::<TrustedProxies>(), Err(InvalidProxy(text.to_owned())));
        }
        assert_eq!("10.0.0.0/8 ::1".parse::<TrustedProxies>().unwrap().to_string(), "10.0.0.0/8 ::1/128");
    }

    #[test]
    fn proxies_and_this_machine_are_exempt() {
        let key = |limit_loopback, address: &str| {
            let exemptions = Exemptions::new("10.0.0.0/8".parse().unwrap(), limit_loopback);
            exemptions.key_of(address.parse().unwrap()).map(|key| key.to_string())
        };
        for (limit_loopback, address, expected) in [
            (false, "1.2.3.4", Some("1.2.3.4")),
            (false, "::ffff:1.2.3.4", Some("1.2.3.4")),
            (false, "2001:db8:0:1:ffff::2", Some("2001:db8:0:1::")),
            (false, "10.1.1.1", None),
            (true, "10.1.1.1", None),
            (false, "127.0.0.2", None),
            (false, "::1", None),
            (false, "::ffff:127.0.0.1", None),
            (true, "127.0.0.2", Some("127.0.0.2")),
            (true, "::1", Some("::")),
        ] {
            assert_eq!(key(limit_loopback, address).as_deref(), expected, "{limit_loopback} {address}");
        }
    }
}
