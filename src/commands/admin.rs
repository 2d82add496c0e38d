//! Both ends of the admin socket: the listener of `serve`, and the client of the other commands.
//!
//! A command sends one HTTP/1.0 request, and the response lasts to the end of the connection, so that it needs no decoding.

use std::io;
use std::time::Duration;

use btcgraph::server::admin::{AdminSocket, SocketError};
use btcgraph::settings::{AdminAddress, Settings};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::failure::{Exit, Failure, OrExit};

/// How long a server may take to begin its response. An idle one takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of a response head, and of a reason.
const SHORT: u64 = 16 * 1024;

/// Listens at the address of the settings.
pub(super) async fn bind(address: &AdminAddress) -> Result<AdminSocket, Failure> {
    let socket = match address {
        AdminAddress::Unix(path) => AdminSocket::unix(path).await,
        AdminAddress::Tcp(address) => AdminSocket::tcp(*address).await,
    };
    Ok(socket?)
}

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        Failure::new(Exit::Failed, error)
    }
}

/// The response of a server.
pub(super) struct AdminAnswer {
    /// The HTTP status.
    pub(super) status: u16,
    body: BufReader<Box<dyn Connection>>,
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Sends a request to the server at this address. Waits five seconds at most.
///
/// Errors: there is no server, it does not respond in time, or it is not btcgraph.
pub(super) async fn ask(address: &AdminAddress, path: &str, body: &[u8]) -> io::Result<AdminAnswer> {
    within_patience(exchange(address, path, body)).await
}

/// Sends a request to the server of the settings, and returns the text of its response.
///
/// Errors: there is no server, or it refuses.
pub(super) fn command(settings: &Settings, path: &str, body: &[u8]) -> Result<String, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.or_exit(Exit::Failed, "cannot start the runtime")?.block_on(async {
        let answer = ask(&settings.admin.listen, path, body).await.or_exit(Exit::Failed, unreachable(settings))?;
        if !(200..300).contains(&answer.status) {
            return Err(Failure::new(Exit::Failed, answer.reason().await));
        }
        answer.text().await.or_exit(Exit::Failed, "the response ended early")
    })
}

/// What to check if no server responds.
pub(super) fn unreachable(settings: &Settings) -> String {
    format!(
        "cannot reach a server at {}. Is `btcgraph serve` running, with the same --admin, --data-dir and --network, and as \
         the same user?",
        settings.admin.listen
    )
}

async fn exchange(address: &AdminAddress, path: &str, body: &[u8]) -> io::Result<AdminAnswer> {
    let mut connection = connect(address).await?;
    let head = format!("POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    connection.write_all(&[head.as_bytes(), body].concat()).await?;
    let mut body = BufReader::new(connection);
    let status = read_head(&mut body).await?;
    Ok(AdminAnswer { status, body })
}

async fn connect(address: &AdminAddress) -> io::Result<Box<dyn Connection>> {
    Ok(match address {
        AdminAddress::Tcp(address) => Box::new(TcpStream::connect(address).await?),
        #[cfg(unix)]
        AdminAddress::Unix(path) => Box::new(tokio::net::UnixStream::connect(path).await?),
        #[cfg(not(unix))]
        AdminAddress::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// Reads up to the empty line, and returns the status of the first one.
async fn read_head(body: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<u16> {
    let mut lines = body.take(SHORT).lines();
    let no_http = || io::Error::new(io::ErrorKind::InvalidData, "the server at this address is not btcgraph");
    let first = lines.next_line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(no_http)?;
    while let Some(line) = lines.next_line().await? {
        if line.is_empty() {
            return Ok(status);
        }
    }
    Err(no_http())
}

impl AdminAnswer {
    /// Why the server refuses the request. Waits five seconds at most.
    pub(super) async fn reason(self) -> String {
        let mut reason = Vec::new();
        let read = within_patience(async { self.body.take(SHORT).read_to_end(&mut reason).await }).await;
        // a reason that arrives in part is shown in part
        drop(read);
        format!("the server returned {}: {}", self.status, String::from_utf8_lossy(&reason).trim())
    }

    /// The response as a text. Waits five seconds at most. Errors: it does not arrive as a whole.
    pub(super) async fn text(self) -> io::Result<String> {
        let mut text = String::new();
        within_patience(async { self.body.take(SHORT).read_to_string(&mut text).await }).await?;
        Ok(text)
    }

    /// The lines of the response, each as it arrives.
    pub(super) fn lines(self) -> Lines<impl AsyncBufReadExt + Unpin> {
        self.body.lines()
    }
}

async fn within_patience<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("it does not respond within {seconds} seconds")))
    })
}
