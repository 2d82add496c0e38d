//! Where `serve` listens for clients.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize, Serializer};

/// An IP address or a host name, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ListenAddress {
    /// An address, such as `127.0.0.1:8080` or `[::1]:8080`.
    Ip(SocketAddr),
    /// A name, which is resolved when the server starts.
    Name {
        /// As in `localhost`.
        host: String,
        /// 0 is any free port.
        port: u16,
    },
}

/// Text that is no [`ListenAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAListenAddress {
    /// An address or a name alone.
    #[error("{text:?} has no port: write \"{with_port}\"")]
    NoPort {
        /// The text.
        text: String,
        /// The text with the default port.
        with_port: String,
    },
    /// A port alone.
    #[error(
        "{text:?} has no address: write \"127.0.0.1:{port}\" for clients on this machine, or \"0.0.0.0:{port}\" for all"
    )]
    NoHost {
        /// The text.
        text: String,
        /// Its port.
        port: u16,
    },
    /// The text after the colon is not a port.
    #[error("{0:?} has no valid port: the port is a number from 0 (any free one) to 65535, as in \"127.0.0.1:8080\"")]
    BadPort(String),
    /// Neither an address nor a name.
    #[error("{0:?} is neither an IP address nor a host name with a port: write it as in \"127.0.0.1:8080\"")]
    Neither(String),
}

/// The port that a message about a missing one proposes: that of the defaults file.
const PROPOSED_PORT: u16 = 8080;

impl TryFrom<String> for ListenAddress {
    type Error = NotAListenAddress;

    fn try_from(text: String) -> Result<Self, NotAListenAddress> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            let with_port = SocketAddr::new(ip, PROPOSED_PORT).to_string();
            return Err(NotAListenAddress::NoPort { text, with_port });
        }
        if let Ok(port) = text.strip_prefix(':').unwrap_or(&text).parse() {
            return Err(NotAListenAddress::NoHost { text, port });
        }
        match text.split_once(':') {
            None if is_host_name(&text) => {
                let with_port = format!("{text}:{PROPOSED_PORT}");
                Err(NotAListenAddress::NoPort { text, with_port })
            }
            Some((host, port)) if is_host_name(host) && !port.contains(':') => match port.parse() {
                Ok(port) => Ok(Self::Name { host: host.to_owned(), port }),
                Err(_) => Err(NotAListenAddress::BadPort(text)),
            },
            Some((host, _)) if host.parse::<IpAddr>().is_ok() => Err(NotAListenAddress::BadPort(text)),
            _ => Err(NotAListenAddress::Neither(text)),
        }
    }
}

/// Whether a text can be the name of a host (RFC 1123, section 2.1, and the underscore that some networks use). One whose
/// last label is a number is meant as an IP address.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 253 && name.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

impl Serialize for ListenAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ListenAddress, NotAListenAddress> {
        text.to_owned().try_into()
    }

    #[test]
    fn addresses_and_names_with_a_port_are_read_and_printed() {
        for text in ["127.0.0.1:8080", "0.0.0.0:0", "[::1]:65535"] {
            assert_eq!(read(text), Ok(ListenAddress::Ip(text.parse().unwrap())));
        }
        for (text, host, port) in [
            ("localhost:8080", "localhost", 8080),
            ("graph.example:0", "graph.example", 0),
            ("my_host.:1", "my_host.", 1),
        ] {
            assert_eq!(read(text), Ok(ListenAddress::Name { host: host.to_owned(), port }));
        }
        for text in ["127.0.0.1:8080", "[::1]:0", "localhost:8080"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_refusal_says_what_to_write_instead() {
        for (text, advice) in [
            ("localhost", "write \"localhost:8080\""),
            ("127.0.0.1", "write \"127.0.0.1:8080\""),
            ("::1", "write \"[::1]:8080\""),
            ("[::1]", "write \"[::1]:8080\""),
            ("8080", "write \"127.0.0.1:8080\" for clients on this machine, or \"0.0.0.0:8080\" for all"),
            (":81", "write \"127.0.0.1:81\" for clients on this machine"),
            ("localhost:", "a number from 0 (any free one) to 65535"),
            ("localhost:http", "a number from 0 (any free one) to 65535"),
            ("127.0.0.1:99999", "a number from 0 (any free one) to 65535"),
            ("localhost:65536", "a number from 0 (any free one) to 65535"),
            ("", "as in \"127.0.0.1:8080\""),
            ("a b:80", "as in \"127.0.0.1:8080\""),
            ("300.0.0.1:80", "as in \"127.0.0.1:8080\""),
            ("http://localhost:80", "as in \"127.0.0.1:8080\""),
        ] {
            let refusal = read(text).unwrap_err().to_string();
            assert!(refusal.contains(advice) && refusal.contains(&format!("{text:?}")), "{refusal}");
        }
    }
}
