//! The address of the node. Its host is mostly written as a number, for which nobody has to be asked.

use std::net::{IpAddr, SocketAddr};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Takes an IP address as it is, and asks the system for every other name. The stock resolver starts a thread for each
/// request, also on a connection that is open, so that it can give up on the name servers in time.
#[derive(Debug, Default)]
pub(super) struct ByNumber {
    names: DefaultResolver,
}

impl Resolver for ByNumber {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let Some(address) = address(uri) else { return self.names.resolve(uri, config, timeout) };
        let mut resolved = self.empty();
        resolved.push(address);
        Ok(resolved)
    }
}

/// The address that the URI of an HTTP server spells out.
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
    fn numbers_are_taken_as_they_are() {
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
