//! Resolves the host of the node. It is mostly an IP address, which needs no lookup.

use std::net::{IpAddr, SocketAddr};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Uses an IP address as it is, and asks the system to resolve every other name. The stock resolver starts a thread for
/// each request, even on an open connection, so that it can stop waiting for the name servers at its timeout.
#[derive(Debug, Default)]
pub(super) struct IpLiteralResolver {
    names: DefaultResolver,
}

impl Resolver for IpLiteralResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let Some(address) = address(uri) else { return self.names.resolve(uri, config, timeout) };
        let mut resolved = self.empty();
        resolved.push(address);
        Ok(resolved)
    }
}

/// The IP address and port in the URI of an HTTP server; `None` for a name.
fn address(uri: &Uri) -> Option<SocketAddr> {
    let host = uri.host()?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let ip: IpAddr = bare.parse().ok()?;
    Some(SocketAddr::new(ip, uri.port_u16().unwrap_or(80)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_addresses_need_no_lookup() {
        for (uri, expected) in [
            ("http://127.0.0.1:8332/rest", Some("127.0.0.1:8332")),
            ("http://[::1]:18443/", Some("[::1]:18443")),
            ("http://10.0.0.7", Some("10.0.0.7:80")),
            ("http://localhost:8332", None),
            ("http://node.example:8332", None),
            ("/rest", None),
        ] {
            let found = address(&uri.parse().unwrap()).map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{uri}");
        }
    }
}
