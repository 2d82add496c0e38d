//! Under which names this server answers.
//!
//! A page of `evil.example` can have its name lead to 127.0.0.1 once it is loaded (DNS rebinding). To the browser the
//! server is then a part of that page, which may read everything; only the `Host` of its requests still tells. So
//! requests are answered only under names that cannot be taken that way: those of this machine, the address that the
//! server listens on, and the names that are listed.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{StatusCode, Version};
use axum::response::Response;
use serde::{Deserialize, Serialize};

use crate::api::code;
use crate::server::Server;
use crate::server::http::response::{error, refuse_as_json};

/// The names that are allowed beside those of this machine, as they are set: separated by blanks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hosts {
    /// `*`: all. For a server behind another that sees to it.
    any: bool,
    /// In small letters, without ports.
    listed: Vec<String>,
}

/// A text that names no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a host: write * or a name or an address without a port, as in \"graph.example\" or \"[2001:db8::1]\""
)]
pub struct InvalidHost(String);

impl FromStr for Hosts {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let mut hosts = Self::default();
        for name in text.split_whitespace() {
            let is_host = || name.parse::<Authority>().is_ok_and(|authority| authority.host() == name);
            match name {
                "*" => hosts.any = true,
                name if is_host() => hosts.listed.push(name.to_ascii_lowercase()),
                name => return Err(InvalidHost(name.to_owned())),
            }
        }
        Ok(hosts)
    }
}

impl TryFrom<String> for Hosts {
    type Error = InvalidHost;

    fn try_from(text: String) -> Result<Self, InvalidHost> {
        text.parse()
    }
}

impl From<Hosts> for String {
    fn from(set: Hosts) -> Self {
        set.to_string()
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = self.any.then_some("*");
        let names: Vec<_> = any.into_iter().chain(self.listed.iter().map(String::as_str)).collect();
        f.write_str(&names.join(" "))
    }
}

impl Hosts {
    /// Whether a server that listens there answers under this name.
    fn allow(&self, host: &str, listen: IpAddr) -> bool {
        if self.any || is_loopback(host) || self.listed.iter().any(|listed| listed.eq_ignore_ascii_case(host)) {
            return true;
        }
        // who listens on all addresses has many, and a browser that was given an address asked nobody for it
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

/// What is asked under another name is not answered: 421 (RFC 9110, section 15.5.20); 400 for what has no name.
pub(crate) async fn check(server: &Server, request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    match named(&request) {
        Ok(Some(host)) if !server.hosts.allow(host.host(), server.listen.ip()) => {
            let message = format!("Host header `{}` is not in the server's setting server.hosts", host.host());
            refuse_as_json(StatusCode::MISDIRECTED_REQUEST, error(code::FORBIDDEN, message))
        }
        Ok(_) => next(request).await,
        Err(reason) => refuse_as_json(StatusCode::BAD_REQUEST, error(code::BAD_USER_INPUT, reason)),
    }
}

/// The name that a request is for; `None` from clients that are older than it, as no browser is (RFC 9112, sections 3.2
/// and 3.3).
fn named(request: &Request) -> Result<Option<Authority>, &'static str> {
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
    fn a_server_answers_for_this_machine_and_for_the_address_it_listens_on() {
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
    fn a_server_that_listens_on_all_addresses_answers_for_each_but_for_no_name() {
        for listen in ["0.0.0.0", "::"] {
            for (host, expected) in [("192.168.1.5", true), ("[2001:db8::1]", true), ("evil.example", false)] {
                assert_eq!(allowed("", listen, host), expected, "{host}");
            }
        }
    }

    #[test]
    fn names_that_are_listed_are_answered_for() {
        let listed = "graph.example [2001:db8::1]";
        for (host, expected) in
            [("graph.example", true), ("Graph.Example", true), ("[2001:db8::1]", true), ("a.graph.example", false)]
        {
            assert_eq!(allowed(listed, "127.0.0.1", host), expected, "{host}");
        }
        assert!(allowed("*", "127.0.0.1", "evil.example"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in ["graph.example:8080", "http://graph.example", "u@graph.example", "a/b"] {
            assert_eq!(text.parse::<Hosts>(), Err(InvalidHost(text.to_owned())));
        }
    }

    #[test]
    fn the_name_is_that_of_the_host_or_of_the_target() {
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
