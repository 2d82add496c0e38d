//! Sends a message: one POST, without redirects, to an address that is checked when the connection is made.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_rustls::rustls::pki_types::ServerName;

use super::address_policy::{AddressKind, AddressPolicy};
use super::clock::now;
use super::hook::{Hook, Timing};
use super::limits::{HEAD_BYTES, IDLE, RESPONSE_BODY, RESPONSE_BYTES};
use super::message::HookMessage;
use super::signature::SigningKeys;
use super::target::Target;
use super::tls::TlsConfig;

/// Sends the messages of one hook.
pub(crate) struct MessageSender {
    target: Target,
    keys: SigningKeys,
    policy: AddressPolicy,
    timing: Timing,
    tls: Option<TlsConfig>,
    open: Option<OpenConnection>,
}

/// A connection that can be used again.
struct OpenConnection {
    sender: SendRequest<Full<Bytes>>,
    used: Instant,
}

/// Why a message was not delivered.
#[derive(Debug)]
pub(crate) struct DeliveryFailure {
    pub(crate) reason: FailureReason,
    /// How long the receiver wants not to be asked.
    pub(crate) retry_after: Option<Duration>,
}

/// What failed.
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
    /// The message cannot be sent as HTTP.
    Request(String),
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "the name of the receiver does not resolve: {error}"),
            Self::Address(address, AddressKind::Private) => {
                write!(f, "{address} is a private address: set allow_private of the hook to connect to it")
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
                write!(f, "the receiver responded {status}; redirects are not followed: set the URL that they lead to")
            }
            Self::Status(status) => write!(f, "the receiver responded {status}"),
            Self::Request(reason) => write!(f, "the message cannot be sent: {reason}"),
        }
    }
}

impl From<FailureReason> for DeliveryFailure {
    fn from(reason: FailureReason) -> Self {
        Self { reason, retry_after: None }
    }
}

impl MessageSender {
    /// The sender of a hook. Without `tls` it cannot send to https.
    pub(crate) fn new(hook: &Hook, tls: Option<TlsConfig>) -> Self {
        Self {
            target: hook.target.clone(),
            keys: hook.keys.clone(),
            policy: AddressPolicy { allow_private: hook.allow_private },
            timing: hook.timing,
            tls,
            open: None,
        }
    }

    /// Sends the message, and returns once the receiver has responded with a status of 2xx.
    ///
    /// Errors: why it did not.
    pub(crate) async fn send(&mut self, message: &HookMessage) -> Result<(), DeliveryFailure> {
        let limit = self.timing.timeout.saturating_add(self.timing.connect_timeout);
        let sent = timeout(limit, self.send_once_or_again(message)).await;
        let response = sent.unwrap_or_else(|_| Err(FailureReason::Timeout(limit)))?;
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        self.read(response).await;
        if status.is_success() {
            return Ok(());
        }
        Err(DeliveryFailure { reason: FailureReason::Status(status), retry_after })
    }

    /// Sends it on the open connection, and on a new one if the receiver has closed that in the meantime.
    async fn send_once_or_again(&mut self, message: &HookMessage) -> Result<Response<Incoming>, FailureReason> {
        if let Some(mut open) = self.open.take().filter(|open| !open.sender.is_closed() && open.used.elapsed() < IDLE)
            && let Ok(response) = self.request(&mut open.sender, message).await
        {
            self.open = Some(open);
            return Ok(response);
        }
        let (limit, connecting) = (self.timing.connect_timeout, self.connect());
        let mut sender = timeout(limit, connecting).await.map_err(|_| FailureReason::ConnectTimeout(limit))??;
        let response = self.request(&mut sender, message).await?;
        self.open = Some(OpenConnection { sender, used: Instant::now() });
        Ok(response)
    }

    async fn request(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        message: &HookMessage,
    ) -> Result<Response<Incoming>, FailureReason> {
        let time = now();
        let request = Request::post(self.target.path())
            .header(HOST, self.target.authority())
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, message.body.len())
            .header(USER_AGENT, concat!("btcgraph/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", time)
            .header("webhook-signature", self.keys.sign(&message.id, time, &message.body))
            .body(Full::new(Bytes::from(message.body.clone())));
        let request = request.map_err(|error| FailureReason::Request(error.to_string()))?;
        let limit = self.timing.timeout;
        let responded = timeout(limit, async {
            sender.ready().await?;
            sender.send_request(request).await
        });
        responded.await.map_err(|_| FailureReason::Timeout(limit))?.map_err(FailureReason::Http)
    }

    /// Reads a little of the body, so that the connection can be used again. Whatever it is, the message is delivered or not.
    async fn read(&mut self, response: Response<Incoming>) {
        let mut body = response.into_body();
        let mut rest = RESPONSE_BYTES;
        let read_all = timeout(RESPONSE_BODY, async {
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                let length = frame.data_ref().map_or(0, Bytes::len);
                let Some(left) = rest.checked_sub(length) else { return false };
                rest = left;
            }
            true
        });
        if read_all.await != Ok(true) {
            self.open = None;
        }
        if let Some(open) = &mut self.open {
            open.used = Instant::now();
        }
    }

    /// Connects to the first address that is allowed and answers.
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, FailureReason> {
        let stream = self.connect_tcp().await?;
        // a message is one segment or more, and the next waits for the response
        let _ = stream.set_nodelay(true);
        if !self.target.is_secure() {
            return handshake(stream).await;
        }
        let no_tls = || FailureReason::Tls(io::Error::other("no certificate authorities are known"));
        let connector = self.tls.as_ref().ok_or_else(no_tls)?.connector();
        let name = ServerName::try_from(self.target.host().to_owned());
        let name = name.map_err(|error| FailureReason::Tls(io::Error::other(error)))?;
        handshake(connector.connect(name, stream).await.map_err(FailureReason::Tls)?).await
    }

    async fn connect_tcp(&self) -> Result<TcpStream, FailureReason> {
        let found = lookup_host((self.target.host(), self.target.port())).await.map_err(FailureReason::Resolve)?;
        let addresses = allowed(self.policy, found)?;
        let mut failure = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = Some(error),
            }
        }
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no addresses");
        Err(FailureReason::Connect(failure.unwrap_or_else(none)))
    }
}

/// Those addresses that a hook may connect to.
///
/// Errors: there is none.
fn allowed(policy: AddressPolicy, found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, FailureReason> {
    let mut refused = None;
    let mut addresses = Vec::new();
    for address in found {
        match policy.check(address.ip()) {
            Ok(()) => addresses.push(address),
            Err(kind) => refused = refused.or(Some(FailureReason::Address(address.ip(), kind))),
        }
    }
    match refused {
        Some(refused) if addresses.is_empty() => Err(refused),
        _ => Ok(addresses),
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, FailureReason>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(FailureReason::Http)?;
    // it ends with the sender, and reports its errors there
    tokio::spawn(connection);
    Ok(sender)
}

/// The seconds of a header `Retry-After`. A date is left to the backoff.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests;
