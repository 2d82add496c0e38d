use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hyper::StatusCode;

use super::address_policy::AddressKind;

/// Why a request was not answered, or not as it should be.
#[derive(Debug)]
pub(crate) enum FailureReason {
    /// The name does not resolve.
    Resolve(io::Error),
    /// No address is allowed; the first, and why.
    Address(IpAddr, AddressKind),
    /// No connection.
    Connect(io::Error),
    /// The TLS handshake failed.
    Tls(io::Error),
    /// No connection within this time.
    ConnectTimeout(Duration),
    /// No response within this time.
    Timeout(Duration),
    /// The connection ended before the response, or that is not HTTP.
    Http(hyper::Error),
    /// The response is not 2xx.
    Status(StatusCode),
    /// The request cannot be sent as HTTP.
    Request(String),
}

impl std::error::Error for FailureReason {}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "the name of the host does not resolve: {error}"),
            Self::Address(address, AddressKind::Private) => {
                write!(f, "{address} is a private address: set allow_private to connect to it")
            }
            Self::Address(address, AddressKind::NotUnicast) => write!(f, "{address} is no address of one machine"),
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Tls(error) => write!(f, "the TLS handshake failed: {error}"),
            Self::ConnectTimeout(time) => write!(f, "no connection within {} s", time.as_secs_f64()),
            Self::Timeout(time) => write!(f, "no response within {} s", time.as_secs_f64()),
            Self::Http(error) => {
                write!(f, "no HTTP response: {error}")?;
                std::error::Error::source(error).map_or(Ok(()), |source| write!(f, ": {source}"))
            }
            Self::Status(status) if status.is_redirection() => {
                write!(f, "the host responded {status}; redirects are not followed: set the URL that they lead to")
            }
            Self::Status(status) => write!(f, "the host responded {status}"),
            Self::Request(reason) => write!(f, "the request cannot be sent: {reason}"),
        }
    }
}
