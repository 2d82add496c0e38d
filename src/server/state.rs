//! The parts of a running server. Each is built once, here, and shared by those that use it.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::api::Schema;
use crate::execution::document::admission::Admission;
use crate::execution::document::persisted::Persisted;
use crate::execution::memory::MemoryBudget;
use crate::execution::service::GraphqlService;
use crate::metrics::Metrics;
use crate::server::auth::authenticator::Authenticator;
use crate::server::config::Options;
use crate::server::health::Health;
use crate::server::http::endpoint::GraphqlEndpoint;
use crate::server::http::stream::EventStreams;
use crate::server::limits::client_ip::Exemptions;
use crate::server::limits::slots::{SlotLimits, Slots};
use crate::server::middleware::cors::Origins;
use crate::server::middleware::rate_limit::RequestRates;
use crate::server::shutdown::Open;
use crate::server::websocket::upgrade::Websockets;

/// What the router needs.
pub(crate) struct ServerState {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) endpoint: Arc<GraphqlEndpoint>,
    pub(crate) exemptions: Arc<Exemptions>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Metrics,
    pub(crate) origins: Arc<Origins>,
    pub(crate) rates: Option<Arc<RequestRates>>,
    pub(crate) options: Options,
    /// The address of the listener.
    pub(crate) listen: IpAddr,
}

impl ServerState {
    /// Errors: the operating system refuses threads, or a metric is registered twice.
    pub(crate) fn new(
        schema: Schema,
        options: Options,
        metrics: Metrics,
        listen: IpAddr,
        shutdown: &CancellationToken,
        open: &Open,
    ) -> io::Result<Self> {
        let limits = options.limits;
        let counters = metrics.server();
        let admission = Arc::new(Admission::new(&limits, counters.clone()));
        let memory = MemoryBudget::of_unread_responses(limits.buffered_bytes);
        let service = GraphqlService::new(
            schema.clone(),
            admission.clone(),
            &limits,
            memory.clone(),
            counters.clone(),
            options.reads_wait,
        )?;
        service.register(&metrics).map_err(io::Error::other)?;
        let authenticator = Arc::new(Authenticator::new(options.token_policy.clone()));
        let exemptions = Arc::new(Exemptions::new(options.proxies.clone(), options.limit_loopback));
        let slot_limits = SlotLimits { all: limits.sockets, each: limits.sockets_per_client };
        let slots = Slots::new(slot_limits, exemptions.clone());
        let origins = Arc::new(options.origins.clone());
        if let Some(allowed) = &options.allowed_operations {
            allowed.warn_of_refused(&limits);
        }
        let persisted = Arc::new(Persisted::new(limits.persisted_query_bytes, options.allowed_operations.clone()));
        let rates = RequestRates::new(limits.requests_per_minute).map(Arc::new);
        let streams = EventStreams {
            slots: slots.clone(),
            metrics: counters.clone(),
            shutdown: shutdown.clone(),
            interval: limits.socket_ping_interval,
        };
        let websockets = Arc::new(Websockets {
            admission: admission.clone(),
            authenticator: authenticator.clone(),
            limits,
            metrics: counters.clone(),
            persisted: persisted.clone(),
            rates: rates.clone(),
            service: service.clone(),
            shutdown: shutdown.clone(),
            slots,
            _open: open.clone(),
        });
        let health = Arc::new(Health {
            schema: schema.clone(),
            ready_blocks: options.ready_blocks,
            draining: options.draining.clone(),
        });
        let endpoint = Arc::new(GraphqlEndpoint {
            admission,
            authenticator: authenticator.clone(),
            limits,
            memory,
            origins: origins.clone(),
            persisted,
            schema,
            service,
            streams,
            websockets,
        });
        Ok(Self { authenticator, endpoint, exemptions, health, metrics, origins, rates, options, listen })
    }
}
