//! Which client a request comes from: the other end of its connection, or, behind proxies that are trusted, what these
//! say of it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap};
use serde::{Deserialize, Serialize};

/// The header in which each proxy adds the address that it was asked from, behind those that were there.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// TrustedProxies whose word is taken, as they are set: addresses and ranges of addresses, separated by blanks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct TrustedProxies(Vec<Range>);

/// Addresses that begin with the same bits, as in `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    address: IpAddr,
    bits: u8,
}

/// A text that is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an address: write one as in \"10.1.2.3\" or \"fd00::1\", or a range of them as in \
         \"10.0.0.0/8\""
)]
pub struct InvalidProxy(String);

impl FromStr for Range {
    type Err = InvalidProxy;

    fn from_str(text: &str) -> Result<Self, InvalidProxy> {
        let no_range = || InvalidProxy(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| no_range())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse).map_err(|_| no_range())?;
        if bits > all { Err(no_range()) } else { Ok(Self { address, bits }) }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Range {
    fn holds(self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        differ >= u32::from(self.bits)
    }
}

impl FromStr for TrustedProxies {
    type Err = InvalidProxy;

    fn from_str(text: &str) -> Result<Self, InvalidProxy> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl TryFrom<String> for TrustedProxies {
    type Error = InvalidProxy;

    fn try_from(text: String) -> Result<Self, InvalidProxy> {
        text.parse()
    }
}

impl From<TrustedProxies> for String {
    fn from(set: TrustedProxies) -> Self {
        set.to_string()
    }
}

impl fmt::Display for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&ranges.join(" "))
    }
}

impl TrustedProxies {
    /// Whether this is one of these proxies.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.holds(address))
    }

    /// Who asks over a connection from `peer`: of the addresses that the proxies have added, the last that is none of
    /// theirs. What stands before it the client may have written itself.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let values: Vec<_> = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
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

    /// The same of a request with these extensions, `None` if nothing is known of its connection.
    pub(crate) fn client_of(&self, extensions: &Extensions, headers: &HeaderMap) -> Option<IpAddr> {
        let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(self.client(peer.ip(), headers))
    }
}

/// An address as proxies write it: some add the port.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.split(']').next());
    let without_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.unwrap_or(text).parse().ok().or_else(without_port)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn client(proxies: &str, peer: &str, forwarded: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(value));
        }
        proxies.parse::<TrustedProxies>().unwrap().client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn who_is_no_trusted_proxy_is_the_client_whatever_it_says() {
        assert_eq!(client("", "1.2.3.4", &["9.9.9.9"]), "1.2.3.4");
        assert_eq!(client("10.0.0.0/8", "1.2.3.4", &["9.9.9.9"]), "1.2.3.4");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &[]), "10.1.1.1");
        assert_eq!(client("", "::ffff:1.2.3.4", &[]), "1.2.3.4");
    }

    #[test]
    fn behind_trusted_proxies_the_client_is_the_last_that_none_of_them_is() {
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
            (&["9.9.9.9, unknown"], "10.1.1.1"),
            (&[""], "10.1.1.1"),
            (&["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        ] {
            assert_eq!(client(proxies, "10.1.1.1", forwarded), expected, "{forwarded:?}");
        }
    }

    #[test]
    fn a_range_holds_what_begins_as_it_does() {
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
            assert_eq!(range.parse::<Range>().unwrap().holds(address.parse().unwrap()), expected, "{range} {address}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["10.0.0.0/33", "10.0.0", "fd00::/129", "proxy.example", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(text.parse::<TrustedProxies>(), Err(InvalidProxy(text.to_owned())));
        }
        assert_eq!("10.0.0.0/8 ::1".parse::<TrustedProxies>().unwrap().to_string(), "10.0.0.0/8 ::1/128");
    }
}
