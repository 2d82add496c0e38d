use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use tokio::time::timeout;

use super::AGENT;
use super::connection::OutboundEndpoint;
use super::failure::FailureReason;
use super::target::Target;
use super::tls::TlsConfig;

/// A text that is fetched by GET, over a new connection each time.
pub struct Fetch {
    endpoint: OutboundEndpoint,
    limits: FetchLimits,
}

/// How much is fetched, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// The most bytes of the text.
    pub body_bytes: usize,
    /// The longest time to connect.
    pub connect_timeout: Duration,
    /// The longest time from there to the end of the text.
    pub timeout: Duration,
}

/// Why a text was not fetched.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct FetchError(#[from] Reason);

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("{0}")]
    Request(FailureReason),
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
    #[error("the response is not UTF-8")]
    NotText,
}

impl Fetch {
    /// Fetches from this URL. Without `tls` it cannot fetch from https.
    #[must_use]
    pub fn new(target: Target, allow_private: bool, tls: Option<TlsConfig>, limits: FetchLimits) -> Self {
        Self { endpoint: OutboundEndpoint { target, allow_private, tls }, limits }
    }

    /// The URL.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.endpoint.target
    }

    /// Fetches the text.
    ///
    /// Errors: there is no connection to an address that is allowed; the response does not come in time, is not 200, is too
    /// large, or is not UTF-8.
    pub async fn text(&self) -> Result<String, FetchError> {
        let FetchLimits { connect_timeout, timeout: limit, .. } = self.limits;
        let mut connection = self.endpoint.connect(connect_timeout).await.map_err(Reason::Request)?;
        let request = Request::get(self.endpoint.target.path())
            .header(HOST, self.endpoint.target.authority())
            .header(ACCEPT, "text/csv, text/plain, */*;q=0.1")
            .header(USER_AGENT, AGENT)
            .body(Full::new(Bytes::new()))
            .map_err(|error| Reason::Request(FailureReason::Request(error.to_string())))?;
        let fetched = timeout(limit, async {
            let http = |error| Reason::Request(FailureReason::Http(error));
            connection.sender.ready().await.map_err(http)?;
            let response = connection.sender.send_request(request).await.map_err(http)?;
            if response.status() != StatusCode::OK {
                return Err(Reason::Request(FailureReason::Status(response.status())));
            }
            self.read(response).await
        });
        let bytes = fetched.await.map_err(|_| Reason::Request(FailureReason::Timeout(limit)))??;
        Ok(String::from_utf8(bytes).map_err(|_| Reason::NotText)?)
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Vec<u8>, Reason> {
        let (mut body, mut bytes) = (response.into_body(), Vec::new());
        let limit = self.limits.body_bytes;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Reason::Request(FailureReason::Http(error)))?;
            let Some(data) = frame.data_ref() else { continue };
            if bytes.len().saturating_add(data.len()) > limit {
                return Err(Reason::TooLarge(limit));
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    }
}
