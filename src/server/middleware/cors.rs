//! Which web pages may use this server from a browser (CORS, in the Fetch standard).
//!
//! Any page can make the browser send a request here, even to a server on the user's own machine; what it may not do
//! without permission is read the response, send JSON, or set headers. Permission never includes credentials: there are
//! none that a browser would add by itself.
//!
//! ```text
//!   Origin: none                    no page, or a page of this server: allowed
//!           http://localhost:5173   a page of this machine: allowed as `loopback`
//!           http://HOST, as Host    a page of this server: allowed (`host.rs` has checked Host)
//!           https://else.example    allowed if it is listed, or if all are: `*`
//!           null                    a file, a sandbox: allowed if all are
//! ```
//!
//! Websockets are not subject to CORS: browsers open them to any server for any page. What accepts one, or changes
//! something, must ask [`Origins::allows`]. The CORS layer of tower-http is not used: it answers 200 to
//! every OPTIONS, preflight or not.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::host::is_loopback;
use super::step::{NextStep, RequestStep};
use crate::server::list::{ListWord, WordList};

/// How long a browser may cache a permission, in seconds: the longest time of Chromium.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// The methods of pages of other origins.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, OPTIONS");

/// The headers of a response that pages of other origins may read, beside those that they always may.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("retry-after, ratelimit, ratelimit-policy, x-btcgraph-tip, x-request-id");

/// Whether a page of a public network may ask a server of a private one (Private Network Access, of WICG).
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The origins whose pages may use the server.
pub type Origins = WordList<AllowedOrigin>;

/// An origin of the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigin {
    /// `*`: all.
    Any,
    /// `loopback`: those of this machine, on any port.
    Loopback,
    /// Another, in small letters, as browsers write it.
    Named(String),
}

impl ListWord for AllowedOrigin {
    const DEFAULT: &'static [Self] = &[Self::Loopback];
}

/// A text that names no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an origin: write *, loopback, or a scheme and a host as browsers do, as in \
     \"https://explorer.example\" or \
     \"http://192.168.1.5:3000\", without a path"
)]
pub struct InvalidOrigin(String);

impl FromStr for AllowedOrigin {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        match text {
            "*" => Ok(Self::Any),
            "loopback" => Ok(Self::Loopback),
            name if is_origin(name) => Ok(Self::Named(name.to_ascii_lowercase())),
            name => Err(InvalidOrigin(name.to_owned())),
        }
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "*",
            Self::Loopback => "loopback",
            Self::Named(name) => name,
        })
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

impl Origins {
    /// Whether the sender of these headers may open a websocket or change something: a page that is allowed, or no page.
    pub(crate) fn allows(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => origin.to_str().is_ok_and(|origin| self.contains(origin, headers)),
            // no browser sends two
            (Some(_), Some(_)) => false,
        }
    }

    fn contains(&self, origin: &str, headers: &HeaderMap) -> bool {
        let is_listed = |listed: &AllowedOrigin| match listed {
            AllowedOrigin::Any => true,
            AllowedOrigin::Loopback => false,
            AllowedOrigin::Named(name) => name.eq_ignore_ascii_case(origin),
        };
        if self.iter().any(is_listed) {
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
        (self.iter().any(|listed| *listed == AllowedOrigin::Loopback) && is_whole && is_loopback(authority.host()))
            || host.is_some_and(|host| host.eq_ignore_ascii_case(authority.as_str()))
    }

    /// The value of `Access-Control-Allow-Origin`, if the page has permission.
    fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        if self.iter().any(|listed| *listed == AllowedOrigin::Any) {
            return Some(HeaderValue::from_static("*"));
        }
        self.allows(headers).then(|| origin.clone())
    }
}

/// Permits pages to read responses, and answers the preflight requests of browsers.
pub(crate) struct Cors {
    pub(crate) origins: Arc<Origins>,
}

impl RequestStep for Cors {
    fn handle<'a>(&'a self, request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response> {
        async move {
            let allowed = self.origins.allowed(request.headers());
            let is_preflight = request.method() == Method::OPTIONS
                && request.headers().contains_key(ORIGIN)
                && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
            let mut response =
                if is_preflight { preflight(request.headers(), allowed.is_some()) } else { next.run(request).await };
            let headers = response.headers_mut();
            // even without permission: a cache must not answer a page that has it with the response to one that has not
            headers.append(VARY, HeaderValue::from_static("origin"));
            if let Some(origin) = allowed {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
                if !is_preflight {
                    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
                }
            }
            response
        }
        .boxed()
    }
}

fn preflight(request: &HeaderMap, is_allowed: bool) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if !is_allowed {
        return response;
    }
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    // clients add headers of their own, and the server has none that a page may not set
    if let Some(requested) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
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
    fn pages_of_this_machine_and_of_the_server_are_allowed() {
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
    fn listed_origins_are_allowed() {
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
    fn no_origin_is_allowed_and_two_are_not() {
        let none: Origins = "".parse().unwrap();
        assert!(none.allows(&headers("127.0.0.1:8080", &[])));
        for second in ["http://localhost", "https://evil.example"] {
            assert!(!Origins::default().allows(&headers("127.0.0.1:8080", &["http://localhost", second])));
        }
    }

    #[test]
    fn invalid_origins_are_refused() {
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
