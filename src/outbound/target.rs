//! A URL that requests are sent to.

use std::fmt;
use std::net::IpAddr;

use hyper::http::Uri;
use serde::{Deserialize, Serialize, Serializer};

use super::address_policy::AddressPolicy;
use super::failure::FailureReason;

/// The most characters of a URL.
const URL: usize = 2_048;
/// What replaces path and query of a URL where it is shown: they can contain a secret.
const HIDDEN: &str = "/********";

/// A URL that requests are sent to. It is shown without its path and query, which can contain a secret.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Target {
    /// Name or address, without the brackets of one of IPv6.
    host: String,
    port: u16,
    is_secure: bool,
    path: String,
    /// As the Host header has it.
    authority: String,
}

/// Text that is no such URL. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATarget {
    /// It is no URL.
    #[error("must be a URL with a host, as in https://shop.example/btcgraph")]
    Form,
    /// It is of another kind, or does not say of which.
    #[error("must begin with https:// (or http://, with allow_private), as in https://shop.example/btcgraph")]
    Scheme,
    /// It has a character that no URL has, at this position.
    #[error("must not contain {_0:?}, as at position {_1}: write it as % and two hexadecimal digits for each byte")]
    Character(char, usize),
    /// Its port is none.
    #[error("must have a port from 1 to 65535 behind the colon, or no colon")]
    Port,
    /// It has a user.
    #[error("must not contain a user and password")]
    User,
    /// It is too long.
    #[error("must have at most {URL} characters, not {_0}")]
    Length(usize),
}

impl Target {
    /// The URL of this text.
    pub fn parse(text: &str) -> Result<Self, NotATarget> {
        if text.len() > URL {
            return Err(NotATarget::Length(text.len()));
        }
        let in_no_url = |character: &char| !character.is_ascii_graphic();
        if let Some((character, position)) = text.chars().zip(0..).find(|(character, _)| in_no_url(character)) {
            return Err(NotATarget::Character(character, position));
        }
        let Some((scheme, _)) = text.split_once("://") else { return Err(NotATarget::Scheme) };
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(NotATarget::Scheme),
        };
        let uri: Uri = text.parse().map_err(|_| NotATarget::Form)?;
        let Some(authority) = uri.authority() else { return Err(NotATarget::Form) };
        if authority.as_str().contains('@') {
            return Err(NotATarget::User);
        }
        // a port that is none is read as no port
        let port_text = authority.as_str().rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'));
        let port = match port_text {
            None => {
                if is_secure {
                    443
                } else {
                    80
                }
            }
            Some(text) => text.parse().ok().filter(|port| *port != 0).ok_or(NotATarget::Port)?,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err(NotATarget::Form);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { host, port, is_secure, path, authority: authority.as_str().to_ascii_lowercase() })
    }

    /// Name or address of the receiver.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Path and query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Why nothing can be sent there, if its host is an address that may not be connected to.
    pub(crate) fn fault(&self, allow_private: bool) -> Option<String> {
        let address: IpAddr = self.host.parse().ok()?;
        let kind = AddressPolicy { allow_private }.check(address).err()?;
        Some(FailureReason::Address(address, kind).to_string())
    }

    /// The value of the Host header.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The whole URL, with what can be a secret.
    #[cfg(test)]
    fn expose(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    fn origin(&self) -> String {
        format!("{}://{}", if self.is_secure { "https" } else { "http" }, self.authority)
    }
}

impl TryFrom<String> for Target {
    type Error = NotATarget;

    fn try_from(text: String) -> Result<Self, NotATarget> {
        Self::parse(&text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())?;
        f.write_str(if self.path == "/" { "/" } else { HIDDEN })
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_part_by_part() {
        for (text, host, port, is_secure, path) in [
            ("https://shop.example", "shop.example", 443, true, "/"),
            ("https://Shop.Example:8443/a/b?c=d#e", "shop.example", 8443, true, "/a/b?c=d"),
            ("http://127.0.0.1:9000/", "127.0.0.1", 9000, false, "/"),
            ("http://[::1]/x", "::1", 80, false, "/x"),
            ("https://[2606:4700::1111]:444?x", "2606:4700::1111", 444, true, "/?x"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.host(), target.port(), target.is_secure()), (host, port, is_secure), "{text}");
            assert_eq!(target.path(), path, "{text}");
            assert_eq!(Target::parse(&target.expose()).unwrap(), target);
        }
    }

    #[test]
    fn text_that_is_no_url_is_refused() {
        for (text, error) in [
            ("", NotATarget::Scheme),
            ("shop.example", NotATarget::Scheme),
            ("/path", NotATarget::Scheme),
            ("ftp://shop.example", NotATarget::Scheme),
            ("https://", NotATarget::Form),
            ("https://shop.example:99999/", NotATarget::Port),
            ("https://shop.example:0/", NotATarget::Port),
            ("https://shop.example:/", NotATarget::Port),
            ("https://a b/", NotATarget::Character(' ', 9)),
            ("https://shöp.example/", NotATarget::Character('ö', 10)),
            ("https://user:hunter2@shop.example/", NotATarget::User),
            (&format!("https://shop.example/{}", "x".repeat(2_048)), NotATarget::Length(2_069)),
        ] {
            assert_eq!(Target::parse(text), Err(error), "{text}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn path_and_query_are_not_shown() {
        let target = Target::parse("https://shop.example/hunter2?a=hunter2").unwrap();
        assert_eq!(target.to_string(), "https://shop.example/********");
        assert!(!format!("{target:?}{}", serde_json::to_string(&target).unwrap()).contains("hunter2"));
    }
}
