//! The log of a websocket: a line when it opens and one when it is closed, with what was sent. The second has the name of
//! the client's token, which its first message may have had.

use std::sync::Arc;
use std::time::Instant;

use super::auth::AuthenticatedClient;
use crate::metrics::server_metrics::{GaugeGuard, ServerMetrics, Transport};

/// Counts what is sent over one websocket, and logs it when it is dropped.
pub(crate) struct SocketLog {
    metrics: Arc<ServerMetrics>,
    _open: GaugeGuard,
    /// That of the request that became the websocket, for its id.
    span: tracing::Span,
    protocol: &'static str,
    client: AuthenticatedClient,
    /// The name of the token in a header of that request.
    token: Option<Arc<str>>,
    opened: Instant,
    received: u64,
    sent: u64,
    bytes: usize,
    code: Option<u16>,
}

impl SocketLog {
    /// The log of a websocket that opens now.
    pub(crate) fn open(
        metrics: Arc<ServerMetrics>,
        protocol: &'static str,
        client: AuthenticatedClient,
        token: Option<Arc<str>>,
        span: tracing::Span,
    ) -> Self {
        let open = metrics.socket(Transport::Websocket);
        tracing::info!(parent: &span, protocol, token = token.as_deref(), "a websocket is open");
        let opened = Instant::now();
        Self { metrics, _open: open, span, protocol, client, token, opened, received: 0, sent: 0, bytes: 0, code: None }
    }

    /// A message is received.
    pub(crate) fn received(&mut self) {
        self.received = self.received.saturating_add(1);
    }

    /// A message of so many bytes is sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.metrics.sent(Transport::Websocket, bytes);
    }

    /// The server closes the socket with this code.
    pub(crate) fn closed(&mut self, code: u16) {
        self.code = Some(code);
    }
}

impl Drop for SocketLog {
    fn drop(&mut self) {
        let token = self.client.get().map_or(&self.token, |client| &client.name);
        tracing::info!(
            parent: &self.span,
            protocol = self.protocol,
            token = token.as_deref(),
            code = self.code,
            received = self.received,
            sent = self.sent,
            bytes = self.bytes,
            seconds = self.opened.elapsed().as_secs_f64(),
            "a websocket is closed"
        );
    }
}
