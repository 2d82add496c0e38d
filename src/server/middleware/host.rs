//! Answers requests only under the host names of this server.
//!
//! A page of `evil.example` can point its name at 127.0.0.1 once it is loaded (DNS rebinding). For the browser the server
//! is then a part of that page, which may read everything; only the `Host` of its requests gives it away. So the server
//! answers only under names that cannot be taken over like this: those of this machine, the address that it listens on
//! and the names in its settings.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{StatusCode, Version};
use axum::response::Response;

use super::step::{NextStep, RequestStep};
use crate::api::code;
use crate::execution::error::error;
use crate::server::http::response::refuse_as_json;
use crate::server::list::{ListWord, WordList};

/// The host names of the server, beside those of this machine and its address.
pub type Hosts = WordList<AllowedHost>;

/// A host of the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHost {
    /// `*`: all. For a server behind another that checks them.
    Any,
    /// A name or an address in small letters, without a port.
    Named(String),
}

/// A text that names no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a host: write * or a name or an address without a port, as in \"graph.example\" or \"[2001:db8::1]\""
)]
pub struct InvalidHost(String);

impl ListWord for AllowedHost {}

impl FromStr for AllowedHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        match text {
            "*" => Ok(Self::Any),
            name if name.parse::<Authority>().is_ok_and(|authority| authority.host() == name) => {
                Ok(Self::Named(name.to_ascii_lowercase()))
            }
            name => Err(InvalidHost(name.to_owned())),
        }
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "*",
            Self::Named(name) => name,
        })
    }
}

impl Hosts {
    /// Whether a server that listens at this address answers under this name.
    fn allow(&self, host: &str, listen: IpAddr) -> bool {
        let is_listed = |listed: &AllowedHost| match listed {
            AllowedHost::Any => true,
            AllowedHost::Named(name) => name.eq_ignore_ascii_case(host),
        };
        if is_loopback(host) || self.iter().any(is_listed) {
            return true;
        }
        // a server on all addresses has many, and a browser that is given an address resolves no name
        address_of(host).is_some_and(|address| address == listen || listen.is_unspecified())
    }
}

/// Whether a host, as it stands in a URL, is this machine by definition (RFC 6761, section 6.3).
pub(crate) fn is_loopback(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || address_of(host).is_some_and(|address| address.to_canonical().is_loopback())
}

fn address_of(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

/// Answers 421 to a request for another host (RFC 9110, section 15.5.20), 400 to one without a valid `Host`.
pub(crate) struct CheckHost {
    pub(crate) hosts: Hosts,
    /// The address of the listener.
    pub(crate) listen: IpAddr,
}

impl RequestStep for CheckHost {
    fn handle<'a>(&'a self, request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response> {
        let refusal = match named(&request) {
            Ok(Some(host)) if !self.hosts.allow(host.host(), self.listen) => {
                let message = format!("Host header `{}` is not in the server's setting server.hosts", host.host());
                refuse_as_json(StatusCode::MISDIRECTED_REQUEST, error(code::FORBIDDEN, message))
            }
            Ok(_) => return next.run(request),
            Err(reason) => refuse_as_json(StatusCode::BAD_REQUEST, error(code::BAD_USER_INPUT, reason)),
        };
        async { refusal }.boxed()
    }
}

/// The host that a request names; `None` in HTTP/1.0, which no browser speaks (RFC 9112, sections 3.2 and 3.3).
pub(crate) fn named(request: &Request) -> Result<Option<Authority>, &'static str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err("a request must have exactly one Host header");
    }
    if let Some(authority) = request.uri().authority() {
        return Ok(Some(authority.clone()));
    }
    match first {
        Some(host) => Authority::try_from(host.as_bytes()).map(Some).map_err(|_| "the Host header is not a valid host"),
        None if request.version() <= Version::HTTP_10 => Ok(None),
        None => Err("a request must have a Host header"),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn allowed(setting: &str, listen: &str, host: &str) -> bool {
        setting.parse::<Hosts>().unwrap().allow(host, listen.parse().unwrap())
    }

    #[test]
    fn this_machine_and_the_listen_address_are_allowed() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST", true),
            ("localhost.", true),
            ("a.localhost", true),
            ("127.0.0.1", true),
            ("127.8.8.8", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("192.168.1.5", true),
            ("192.168.1.6", false),
            ("10.0.0.1", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("2130706433", false),
            ("", false),
        ] {
            assert_eq!(allowed("", "192.168.1.5", host), expected, "{host}");
        }
        assert!(!allowed("", "127.0.0.1", "192.168.1.5"));
    }

    #[test]
    fn a_server_on_all_addresses_allows_each_but_no_name() {
        for listen in ["0.0.0.0", "::"] {
            for (host, expected) in [("192.168.1.5", true), ("[2001:db8::1]", true), ("evil.example", false)] {
                assert_eq!(allowed("", listen, host), expected, "{host}");
            }
        }
    }

    #[test]
    fn listed_hosts_are_allowed() {
        let listed = "graph.example [2001:db8::1]";
        for (host, expected) in
            [("graph.example", true), ("Graph.Example", true), ("[2001:db8::1]", true), ("a.graph.example", false)]
        {
            assert_eq!(allowed(listed, "127.0.0.1", host), expected, "{host}");
        }
        assert!(allowed("*", "127.0.0.1", "evil.example"));
    }

    #[test]
    fn invalid_hosts_are_refused() {
        for text in ["graph.example:8080", "http://graph.example", "u@graph.example", "a/b"] {
            assert_eq!(text.parse::<Hosts>(), Err(InvalidHost(text.to_owned())));
        }
    }

    #[test]
    fn the_host_is_that_of_the_header_or_of_the_target() {
        let request = |uri: &str, hosts: &[&str], version| {
            let request = Request::builder().uri(uri).version(version);
            let request = hosts.iter().fold(request, |request, host| request.header(HOST, *host));
            let named = named(&request.body(Body::empty()).unwrap());
            named.map(|host| host.map(|host| host.to_string())).map_err(|_| ())
        };
        let of = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(request("/a", &["b:1"], Version::HTTP_11), of("b:1"));
        assert_eq!(request("http://c/a", &["b"], Version::HTTP_11), of("c"));
        assert_eq!(request("/a", &[], Version::HTTP_10), Ok(None));
        assert_eq!(request("/a", &[], Version::HTTP_11), Err(()));
        assert_eq!(request("/a", &["b", "b"], Version::HTTP_11), Err(()));
        assert_eq!(request("/a", &["b c"], Version::HTTP_11), Err(()));
    }
}
