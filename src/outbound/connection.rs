use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_rustls::rustls::pki_types::ServerName;

use super::address_policy::AddressPolicy;
use super::failure::FailureReason;
use super::target::Target;
use super::tls::TlsConfig;

/// The most bytes of the head of a response.
pub(crate) const HEAD_BYTES: usize = 16 << 10;

/// The host of a URL, and how it is connected to.
pub(crate) struct OutboundEndpoint {
    pub(crate) target: Target,
    /// Whether private addresses may be connected to.
    pub(crate) allow_private: bool,
    /// Without it there are no connections to https.
    pub(crate) tls: Option<TlsConfig>,
}

/// A connection that can be used for one request after another.
pub(crate) struct OpenConnection {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    /// How many bytes were received on it.
    pub(crate) received: Arc<AtomicU64>,
    /// When it was used last.
    pub(crate) used: Instant,
}

impl OutboundEndpoint {
    /// Connects to the first address that is allowed and answers, within this time.
    ///
    /// Errors: why there is no connection.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<OpenConnection, FailureReason> {
        timeout(limit, self.connect_now()).await.map_err(|_| FailureReason::ConnectTimeout(limit))?
    }

    async fn connect_now(&self) -> Result<OpenConnection, FailureReason> {
        let stream = self.connect_tcp().await?;
        // a request is one segment or more, and the next waits for the response
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
        let addresses = allowed(AddressPolicy { allow_private: self.allow_private }, found)?;
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

/// Those addresses that may be connected to.
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

async fn handshake<S>(stream: S) -> Result<OpenConnection, FailureReason>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES);
    let received = Arc::<AtomicU64>::default();
    let stream = CountedStream { stream, received: Arc::clone(&received) };
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(FailureReason::Http)?;
    // it ends with the sender, and reports its errors there
    tokio::spawn(connection);
    Ok(OpenConnection { sender, received, used: Instant::now() })
}

/// A stream that counts the bytes that are read from it.
struct CountedStream<S> {
    stream: S,
    received: Arc<AtomicU64>,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len().saturating_sub(before);
        self.received.fetch_add(u64::try_from(read).unwrap_or(u64::MAX), Ordering::Release);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_addresses_of_a_name_are_used() {
        let addresses =
            |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>().into_iter();
        let public = AddressPolicy { allow_private: false };
        let found = allowed(public, addresses(&["10.0.0.1:1", "1.1.1.1:1", "[::1]:1"])).unwrap();
        assert_eq!(found, addresses(&["1.1.1.1:1"]).collect::<Vec<_>>());
        let refused = allowed(public, addresses(&["10.0.0.1:1", "[::1]:1"])).unwrap_err();
        assert_eq!(refused.to_string(), "10.0.0.1 is a private address: set allow_private to connect to it");
    }
}
