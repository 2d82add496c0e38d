//! What became of a websocket: a line in the log when it opens and one when it is over, with what went over it. The second
//! names the token of whoever came in, which its first message may have shown.

use std::sync::Arc;
use std::time::Instant;

use super::auth::AuthenticatedClient;
use crate::server::metrics::server_metrics::{Counted, ServerMetrics, Transport};

/// Counts what goes over one websocket, and says so when it is dropped.
pub(crate) struct SocketLog {
    figures: Arc<ServerMetrics>,
    _open: Counted,
    /// That of the request that became the websocket, for its id.
    span: tracing::Span,
    protocol: &'static str,
    guest: AuthenticatedClient,
    /// The name of the token that whoever opened it sent in a header.
    token: Option<Arc<str>>,
    began: Instant,
    received: u64,
    sent: u64,
    bytes: usize,
    code: Option<u16>,
}

impl SocketLog {
    /// One that is open from now on, and speaks this.
    pub(crate) fn open(
        figures: Arc<ServerMetrics>,
        protocol: &'static str,
        guest: AuthenticatedClient,
        token: Option<Arc<str>>,
        span: tracing::Span,
    ) -> Self {
        let open = figures.socket(Transport::Websocket);
        tracing::info!(parent: &span, protocol, token = token.as_deref(), "a websocket is open");
        let began = Instant::now();
        Self { figures, _open: open, span, protocol, guest, token, began, received: 0, sent: 0, bytes: 0, code: None }
    }

    /// A message came.
    pub(crate) fn heard(&mut self) {
        self.received = self.received.saturating_add(1);
    }

    /// A message of so many bytes was written.
    pub(crate) fn told(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.figures.sent(Transport::Websocket, bytes);
    }

    /// It is being closed from here.
    pub(crate) fn closed(&mut self, code: u16) {
        self.code = Some(code);
    }
}

impl Drop for SocketLog {
    fn drop(&mut self) {
        let token = self.guest.caller().map_or(&self.token, |caller| &caller.name);
        tracing::info!(
            parent: &self.span,
            protocol = self.protocol,
            token = token.as_deref(),
            code = self.code,
            received = self.received,
            sent = self.sent,
            bytes = self.bytes,
            seconds = self.began.elapsed().as_secs_f64(),
            "a websocket is closed"
        );
    }
}
