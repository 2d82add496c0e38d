//! Makes a connection a websocket, for a page that may have one.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;

use super::auth::SocketAuth;
use super::frames::{Framed, WebSocket};
use super::protocol::{Protocol, close};
use super::session::{Operations, Session};
use super::socket::Socket;
use super::socket_log::SocketLog;
use super::subprotocol::Subprotocol;
use crate::api::code;
use crate::execution::client::Client;
use crate::execution::document::admission::Admission;
use crate::execution::document::persisted::Persisted;
use crate::execution::error::error;
use crate::execution::operation_queue::OperationQueue;
use crate::execution::service::GraphqlService;
use crate::limits::Limits;
use crate::metrics::server_metrics::ServerMetrics;
use crate::server::auth::authenticator::Authenticator;
use crate::server::http::response::refuse_as_json;
use crate::server::limits::slots::{NoSlot, Slot, Slots};
use crate::server::middleware::context::RequestContext;
use crate::server::middleware::rate_limit::{OperationRate, RequestRates};
use crate::server::shutdown::Open;

/// How much is read from a socket at once, in bytes. The buffer is zeroed at each poll of a socket, which is at every event
/// of its subscriptions too: the default of 128 KiB took a third of all time.
const READ_BUFFER: usize = 4 << 10;

/// How much is gathered before a write, in bytes. The buffer is as large as its content.
const WRITE_BUFFER: usize = 16 << 10;

/// A message that exceeds its limit is read up to this multiple, so that its sender is still there to receive the error. Of
/// a larger one nothing is read.
const READ_ON: usize = 4;

/// What websockets use.
pub(crate) struct Websockets {
    pub(crate) admission: Arc<Admission>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) persisted: Arc<Persisted>,
    pub(crate) rates: Option<Arc<RequestRates>>,
    pub(crate) service: GraphqlService,
    pub(crate) shutdown: CancellationToken,
    pub(crate) slots: Slots,
    /// The server runs until the last websocket is closed.
    pub(crate) _open: Open,
}

impl Websockets {
    /// Answers 101, or 400 to what no browser sends. All else that is wrong closes the websocket, since pages do not learn
    /// why a connection does not become one.
    pub(crate) fn upgrade(self: Arc<Self>, mut request: Request) -> Response {
        let mut response = match create_response_with_body(&request, Body::empty) {
            Ok(response) => response,
            Err(reason) => {
                return refuse_as_json(StatusCode::BAD_REQUEST, error(code::BAD_USER_INPUT, reason.to_string()));
            }
        };
        let subprotocol = Subprotocol::ALL.into_iter().find(|known| is_offered(request.headers(), known.name()));
        if let Some(subprotocol) = subprotocol {
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol.name()));
        }
        let upgraded = hyper::upgrade::on(&mut request);
        let RequestContext { address, client, .. } = request.extensions_mut().remove().unwrap_or_default();
        let client = client.unwrap_or_else(|| self.authenticator.anonymous_at(None));
        let slot = self.slots.take(address);
        tokio::spawn(self.run(upgraded, subprotocol, client, address, slot, tracing::Span::current()));
        response
    }

    async fn run(
        self: Arc<Self>,
        upgraded: OnUpgrade,
        subprotocol: Option<Subprotocol>,
        client: Arc<Client>,
        address: Option<IpAddr>,
        slot: Result<Slot, NoSlot>,
        span: tracing::Span,
    ) {
        // otherwise the client disconnected
        let Ok(upgraded) = upgraded.await else { return };
        let stream = self.stream(upgraded).await;
        let auth = SocketAuth::new(self.authenticator.clone(), client.clone());
        let log = subprotocol.map(|subprotocol| {
            SocketLog::open(self.metrics.clone(), subprotocol.name(), auth.authenticated(), client.name.clone(), span)
        });
        let protocol = Protocol::new(subprotocol.unwrap_or(Subprotocol::Transport), self.limits.operations_per_socket);
        let session = Session {
            protocol,
            client,
            auth,
            rate: OperationRate::new(self.rates.clone(), address),
            persisted: self.persisted.clone(),
            admission: self.admission.clone(),
            service: self.service.clone(),
            queue: Arc::new(OperationQueue::new()),
            operations: Operations::default(),
        };
        let (slot, no_slot) = match slot {
            Ok(slot) => (Some(slot), None),
            Err(reason) => (None, Some(reason)),
        };
        let mut socket = Socket::new(stream, session, &self.limits, self.shutdown.clone(), log);
        match no_slot {
            None => {}
            Some(NoSlot::All) => {
                socket.close(close::TRY_AGAIN_LATER, "the server has too many websockets: retry later");
            }
            Some(NoSlot::Client) => {
                socket.close(close::TRY_AGAIN_LATER, "this client has too many websockets: close one");
            }
        }
        if subprotocol.is_none() {
            socket.close(close::SUBPROTOCOL_NOT_ACCEPTABLE, "Subprotocol not acceptable");
        }
        socket.await;
        drop(slot);
    }

    async fn stream(&self, upgraded: Upgraded) -> WebSocket {
        let most = self.limits.message_bytes.saturating_mul(READ_ON);
        let config = WebSocketConfig::default().max_message_size(Some(most)).max_frame_size(Some(most));
        let config = config.read_buffer_size(READ_BUFFER).write_buffer_size(WRITE_BUFFER);
        WebSocketStream::from_raw_socket(Framed::new(TokioIo::new(upgraded)), Role::Server, Some(config)).await
    }
}

fn is_offered(headers: &HeaderMap, protocol: &str) -> bool {
    let lists = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|offered| offered.trim() == protocol)
}
