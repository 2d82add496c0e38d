//! Which web pages may ask this server, from a browser that shows them (CORS, in the Fetch standard).
//!
//! Any page can make the browser send a request here, also to a server on the reader's own machine; what it may not do
//! without leave is to read the answer, to send JSON, or to set headers. Leave is never given together with credentials:
//! there are none that a browser would add by itself.
//!
//! ```text
//!   Origin: none                    no page asks, or a page of this server: allowed
//!           http://localhost:5173   a page from this machine: allowed as `loopback`
//!           http://HOST, as Host    a page of this server: allowed (`hosts.rs` has seen to Host)
//!           https://else.example    allowed if it is listed, or if all are: `*`
//!           null                    a file, a sandbox: allowed if all are
//! ```
//!
//! Websockets are not subject to CORS: browsers open them to any server for any page. Whoever accepts one must ask
//! [`Origins::allows`], and so must what changes something.

use std::fmt;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::host::is_loopback;
use crate::server::Server;

/// For how long a browser need not ask again whether it may, in seconds: the longest that Chromium takes.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// What may be asked for by pages of other origins.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");

/// What pages of other origins may read of an answer's headers, beside what they always may.
const EXPOSED: HeaderValue = HeaderValue::from_static("retry-after, ratelimit, ratelimit-policy, x-request-id");

/// Whether a page of a public network may ask a server of a private one (Private Network TokenPolicy, of WICG).
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The origins that are allowed, as they are set: names separated by blanks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origins {
    /// `*`: all.
    any: bool,
    /// `loopback`: those of this machine, on any port.
    loopback: bool,
    /// Others, as browsers write them.
    listed: Vec<String>,
}

impl Default for Origins {
    fn default() -> Self {
        Self { any: false, loopback: true, listed: Vec::new() }
    }
}

/// A text that names no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an origin: write *, loopback, or a scheme and a host as browsers do, as in \
     \"https://explorer.example\" or \
     \"http://192.168.1.5:3000\", without a path"
)]
pub struct InvalidOrigin(String);

impl FromStr for Origins {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let mut origins = Self { any: false, loopback: false, listed: Vec::new() };
        for name in text.split_whitespace() {
            match name {
                "*" => origins.any = true,
                "loopback" => origins.loopback = true,
                name if is_origin(name) => origins.listed.push(name.to_ascii_lowercase()),
                name => return Err(InvalidOrigin(name.to_owned())),
            }
        }
        Ok(origins)
    }
}

/// Scheme and host, and the port if it is not the scheme's usual one.
fn is_origin(name: &str) -> bool {
    let Some((scheme, authority)) = name.split_once("://") else { return false };
    let is_usual = |port: &str| matches!((scheme, port), ("http", "80") | ("https", "443"));
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme
        && !authority.contains('@')
        && authority.parse::<Authority>().is_ok_and(|authority| {
            !authority.host().is_empty() && !authority.port().is_some_and(|port| is_usual(port.as_str()))
        })
}

impl TryFrom<String> for Origins {
    type Error = InvalidOrigin;

    fn try_from(text: String) -> Result<Self, InvalidOrigin> {
        text.parse()
    }
}

impl From<Origins> for String {
    fn from(set: Origins) -> Self {
        set.to_string()
    }
}

impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = self.any.then_some("*");
        let loopback = self.loopback.then_some("loopback");
        let names: Vec<_> = any.into_iter().chain(loopback).chain(self.listed.iter().map(String::as_str)).collect();
        f.write_str(&names.join(" "))
    }
}

impl Origins {
    /// Whether whoever sent these headers may open a websocket, or change something: a page that is allowed, or no page.
    pub fn allows(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => origin.to_str().is_ok_and(|origin| self.holds(origin, headers)),
            // no browser sends two
            (Some(_), Some(_)) => false,
        }
    }

    fn holds(&self, origin: &str, headers: &HeaderMap) -> bool {
        if self.any || self.listed.iter().any(|listed| listed.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let Some((_, authority)) = origin.split_once("://") else { return false };
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        // a host and its port, and nothing that the library overlooks
        let port = authority.as_str().strip_prefix(authority.host());
        let is_whole = port.is_some_and(|port| {
            port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
        });
        (self.loopback && is_whole && is_loopback(authority.host()))
            || host.is_some_and(|host| host.eq_ignore_ascii_case(authority.as_str()))
    }

    /// What goes into `TokenPolicy-Control-Allow-Origin`, if anything does.
    fn leave(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        if self.any {
            return Some(HeaderValue::from_static("*"));
        }
        self.allows(headers).then(|| origin.clone())
    }
}

/// Gives pages leave to read answers, and answers what browsers ask before they send what needs leave.
pub(crate) async fn apply(server: &Server, request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    let leave = server.origins.leave(request.headers());
    let asks_before = request.method() == Method::OPTIONS
        && request.headers().contains_key(ORIGIN)
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if asks_before { preflight(request.headers(), leave.is_some()) } else { next(request).await };
    let headers = response.headers_mut();
    // without leave, too: what is cached for a page that has none must not be shown to one that has
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = leave {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if !asks_before {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
    response
}

fn preflight(request: &HeaderMap, leave: bool) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if !leave {
        return response;
    }
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    // clients add headers of their own, and none means anything here that a page may not say
    if let Some(asked) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
        headers.append(VARY, HeaderValue::from_static("access-control-request-headers"));
    }
    if request.contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &'static str, origins: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        for origin in origins {
            headers.append(ORIGIN, HeaderValue::from_static(origin));
        }
        headers
    }

    fn allows(setting: &str, host: &'static str, origin: &'static str) -> bool {
        setting.parse::<Origins>().unwrap().allows(&headers(host, &[origin]))
    }

    #[test]
    fn by_default_pages_of_this_machine_are_allowed_and_those_of_the_server_itself() {
        assert_eq!("loopback".parse(), Ok(Origins::default()));
        for (origin, expected) in [
            ("http://localhost", true),
            ("http://localhost:5173", true),
            ("https://LOCALHOST:5173", true),
            ("http://app.localhost:3000", true),
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9", true),
            ("http://[::1]", true),
            ("http://[::1]:3000", true),
            ("http://graph.example:8080", true),
            ("https://graph.example:8080", true),
            ("http://graph.example", false),
            ("http://localhost.example", false),
            ("http://notlocalhost", false),
            ("http://127.0.0.1.example", false),
            ("http://127.0.0.1@evil.example", false),
            ("http://localhost@evil.example", false),
            ("http://evil-localhost", false),
            ("http://localhost:1/x", false),
            ("http://localhost:port", false),
            ("http://10.0.0.1", false),
            ("http://[::2]", false),
            ("http://[::1].example", false),
            ("http://[::1", false),
            ("file://", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
            ("localhost", false),
        ] {
            assert_eq!(allows("loopback", "graph.example:8080", origin), expected, "{origin}");
        }
    }

    #[test]
    fn origins_that_are_listed_are_allowed_beside_or_instead() {
        let listed = "https://a.example http://192.168.1.5:3000";
        for (origin, expected) in [
            ("https://a.example", true),
            ("http://192.168.1.5:3000", true),
            ("http://a.example", false),
            ("https://a.example:8443", false),
            ("https://b.a.example", false),
            ("http://localhost:5173", false),
            ("null", false),
        ] {
            assert_eq!(allows(listed, "127.0.0.1:8080", origin), expected, "{origin}");
        }
        assert!(allows("https://a.example loopback", "127.0.0.1:8080", "http://localhost:5173"));
        assert!(allows("*", "127.0.0.1:8080", "null") && allows("*", "127.0.0.1:8080", "https://evil.example"));
        assert!(!allows("", "127.0.0.1:8080", "http://localhost:5173"));
    }

    #[test]
    fn who_is_no_page_is_allowed_and_who_has_two_origins_is_not() {
        let none: Origins = "".parse().unwrap();
        assert!(none.allows(&headers("127.0.0.1:8080", &[])));
        for second in ["http://localhost", "https://evil.example"] {
            assert!(!Origins::default().allows(&headers("127.0.0.1:8080", &["http://localhost", second])));
        }
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for text in [
            "example.org",
            "https://",
            "https://a.example/",
            "https://a.example/x",
            "https://u@a.example",
            "http://a:80",
        ] {
            assert_eq!(text.parse::<Origins>(), Err(InvalidOrigin(text.to_owned())));
        }
    }

    #[test]
    fn a_setting_is_written_as_it_is_read() {
        for text in ["", "*", "loopback", "loopback https://a.example http://b.example:81"] {
            assert_eq!(text.parse::<Origins>().unwrap().to_string(), text);
        }
    }
}
