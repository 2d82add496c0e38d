//! Sends a message: one POST, without redirects, to an address that is checked when the connection is made.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response};
use tokio::time::{Instant, timeout};

use super::clock::now;
use super::hook::{Hook, Timing};
use super::limits::{IDLE, RESPONSE_BODY, RESPONSE_BYTES};
use super::message::HookMessage;
use super::signature::SigningKeys;
use crate::outbound::{AGENT, FailureReason, OpenConnection, OutboundEndpoint, TlsConfig};

/// Sends the messages of one hook.
pub(crate) struct MessageSender {
    endpoint: OutboundEndpoint,
    keys: SigningKeys,
    timing: Timing,
    open: Option<OpenConnection>,
}

/// Why a message was not delivered.
#[derive(Debug)]
pub(crate) struct DeliveryFailure {
    pub(crate) reason: FailureReason,
    /// How long the receiver wants not to be asked.
    pub(crate) retry_after: Option<Duration>,
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
            endpoint: OutboundEndpoint { target: hook.target.clone(), allow_private: hook.allow_private, tls },
            keys: hook.keys.clone(),
            timing: hook.timing,
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

    /// Sends it on the open connection, and on a new one if the receiver has closed that in the meantime: if it ended without a
    /// byte of a response. Then the receiver has most likely not read the message. After any other failure, such as a response
    /// that does not come in time, the receiver may be busy with it, and the next attempt waits for the backoff.
    async fn send_once_or_again(&mut self, message: &HookMessage) -> Result<Response<Incoming>, FailureReason> {
        let open = self.open.take().filter(|open| !open.sender.is_closed() && open.used.elapsed() < IDLE);
        if let Some(mut open) = open {
            let before = open.received.load(Ordering::Acquire);
            match self.request(&mut open.sender, message).await {
                Ok(response) => {
                    self.open = Some(open);
                    return Ok(response);
                }
                Err(FailureReason::Http(_)) if open.received.load(Ordering::Acquire) == before => {}
                Err(reason) => return Err(reason),
            }
        }
        let mut open = self.endpoint.connect(self.timing.connect_timeout).await?;
        let response = self.request(&mut open.sender, message).await?;
        open.used = Instant::now();
        self.open = Some(open);
        Ok(response)
    }

    async fn request(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        message: &HookMessage,
    ) -> Result<Response<Incoming>, FailureReason> {
        let time = now();
        let request = Request::post(self.endpoint.target.path())
            .header(HOST, self.endpoint.target.authority())
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, message.body.len())
            .header(USER_AGENT, AGENT)
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
}

/// The seconds of a header `Retry-After`, as many as there can be of a number beyond. A date is left to the backoff.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
