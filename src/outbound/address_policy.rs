//! Which addresses may be connected to.
//!
//! The name in a URL can resolve to another address each time. So the address itself is checked, before every connection, and
//! the connection is made to that address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why no connection is made to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressKind {
    /// Of this machine, a local network, or one behind a translator.
    Private,
    /// No address of one machine.
    NotUnicast,
}

/// The addresses that may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressPolicy {
    /// Whether it may connect to private ones.
    pub(crate) allow_private: bool,
}

impl AddressPolicy {
    /// Errors: why this address may not be connected to.
    pub(crate) fn check(self, address: IpAddr) -> Result<(), AddressKind> {
        match kind(address) {
            None => Ok(()),
            Some(AddressKind::Private) if self.allow_private => Ok(()),
            Some(kind) => Err(kind),
        }
    }
}

/// The kind of an address that is not a public one.
fn kind(address: IpAddr) -> Option<AddressKind> {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

/// By the registry of special-purpose addresses of IPv4 (RFC 6890).
fn kind_v4(address: Ipv4Addr) -> Option<AddressKind> {
    let is_private = match address.octets() {
        // multicast, and reserved with broadcast: 224.0.0.0/4, 240.0.0.0/4; unspecified
        [224..=255, ..] | [0, 0, 0, 0] => return Some(AddressKind::NotUnicast),
        // this host on this network, private (RFC 1918), loopback
        [0 | 10 | 127, ..]
        // shared by subscribers of a provider (RFC 6598): 100.64.0.0/10
        | [100, 64..=127, ..]
        // link-local
        | [169, 254, ..]
        // private
        | [172, 16..=31, ..]
        // protocol assignments, documentation, the relays of 6to4, private
        | [192, 0, 0 | 2, _] | [192, 88, 99, _] | [192, 168, ..]
        // benchmarks: 198.18.0.0/15; documentation
        | [198, 18..=19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        _ => false,
    };
    is_private.then_some(AddressKind::Private)
}

/// By the registry of special-purpose addresses of IPv6. An address that contains one of IPv4 leads there, and is what that is.
fn kind_v6(address: Ipv6Addr) -> Option<AddressKind> {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        // through a translator even a public address is reached by way of a local one
        kind_v4(Ipv4Addr::new(a, b, c, d)).or(Some(AddressKind::Private))
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] | [0xff00..=0xffff, ..] => Some(AddressKind::NotUnicast),
        // loopback
        [0, 0, 0, 0, 0, 0, 0, 1]
        // NAT64 with a local prefix (RFC 8215): 64:ff9b:1::/48
        | [0x64, 0xff9b, 1, ..]
        // protocol assignments, with Teredo, benchmarks and ORCHID: 2001::/23; documentation: 2001:db8::/32
        | [0x2001, 0..=0x01ff | 0xdb8, ..]
        // documentation: 3fff::/20
        | [0x3fff, 0..=0x0fff, ..] => Some(AddressKind::Private),
        // IPv4-mapped (::ffff:0:0/96), IPv4-compatible (::/96), IPv4-translated (::ffff:0:0:0/96)
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low]
        // NAT64 (RFC 6052): 64:ff9b::/96
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4 (RFC 3056): 2002::/16
        | [0x2002, high, low, ..] => embedded(high, low),
        // only 2000::/3 is assigned to public addresses
        [0x2000..=0x3fff, ..] => None,
        // with unique local (fc00::/7), link-local (fe80::/10), site-local (fec0::/10), discard-only (100::/64), segment
        // routing (5f00::/16)
        _ => Some(AddressKind::Private),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: AddressPolicy = AddressPolicy { allow_private: false };
    const ANY: AddressPolicy = AddressPolicy { allow_private: true };

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn public_addresses_are_allowed() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.1",
            "192.88.100.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.1",
            "198.51.101.1",
            "203.0.112.1",
            "203.0.114.1",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:db7:ffff::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700::1111",
            "3ffe::1",
            "3fff:1000::1",
        ] {
            assert_eq!(PUBLIC.check(address(text)), Ok(()), "{text}");
        }
    }

    #[test]
    fn private_addresses_need_leave() {
        for text in [
            // the first and the last of each range
            "0.0.0.1",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.255",
            "192.0.2.0",
            "192.0.2.255",
            "192.88.99.0",
            "192.88.99.255",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.0",
            "198.51.100.255",
            "203.0.113.0",
            "203.0.113.255",
            "::1",
            "fc00::",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fe80::1",
            "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fec0::1",
            "feff::1",
            // with one of IPv4 in it: mapped, compatible, translated, NAT64, 6to4, Teredo
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::ffff:1.1.1.1",
            "::10.0.0.1",
            "::1.1.1.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b::101:101",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:101:101::1",
            "2001::1",
            "2001:0:a00:1::1",
            "2001:1ff::1",
            // documentation, discard-only, segment routing, not assigned
            "2001:db8::1",
            "2001:db8:ffff::1",
            "3fff::1",
            "3fff:fff::1",
            "100::1",
            "100:0:0:1::1",
            "5f00::1",
            "1::1",
            "200::1",
            "4000::1",
            "fbff::1",
        ] {
            assert_eq!(PUBLIC.check(address(text)), Err(AddressKind::Private), "{text}");
            assert_eq!(ANY.check(address(text)), Ok(()), "{text}");
        }
    }

    #[test]
    fn an_address_of_no_one_machine_is_never_allowed() {
        for text in [
            "0.0.0.0",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "ff00::",
            "ff02::1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "::ffff:0.0.0.0",
            "::ffff:224.0.0.1",
            "64:ff9b::e000:1",
            "2002:ffff:ffff::1",
        ] {
            assert_eq!(PUBLIC.check(address(text)), Err(AddressKind::NotUnicast), "{text}");
            assert_eq!(ANY.check(address(text)), Err(AddressKind::NotUnicast), "{text}");
        }
    }
}
