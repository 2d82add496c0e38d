//! What is served at which path, and the steps that each request passes before that.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::api;
use crate::server::connection::framing::RefuseAmbiguousLength;
use crate::server::health;
use crate::server::http::endpoint;
use crate::server::metrics_page;
use crate::server::middleware::authenticate::Authenticate;
use crate::server::middleware::compression;
use crate::server::middleware::cors::Cors;
use crate::server::middleware::host::CheckHost;
use crate::server::middleware::rate_limit::RateLimit;
use crate::server::middleware::request_log::RequestLog;
use crate::server::middleware::step::{self, Steps};
use crate::server::playground::{self, ShowPlayground};
use crate::server::state::ServerState;

/// The steps of every request, the outermost first. Around them all, [`compression`] encodes the response.
fn every_request(state: &ServerState) -> Steps {
    Arc::new([
        Box::new(RequestLog { proxies: state.options.proxies.clone(), metrics: state.metrics.server().clone() }),
        Box::new(RefuseAmbiguousLength),
        Box::new(CheckHost { hosts: state.options.hosts.clone(), listen: state.listen }),
        Box::new(Cors { origins: state.origins.clone() }),
    ])
}

/// The steps of a request to the GraphQL endpoint, after those of every request.
fn graphql_request(state: &ServerState) -> Steps {
    Arc::new([
        Box::new(ShowPlayground { is_enabled: state.options.playground }),
        Box::new(RateLimit { rates: state.rates.clone() }),
        Box::new(Authenticate { authenticator: state.authenticator.clone() }),
    ])
}

/// The routes of a server.
pub(crate) fn router(state: &ServerState) -> Router {
    let graphql = Router::new()
        .route("/graphql", get(endpoint::get).post(endpoint::post))
        .route_layer(from_fn_with_state(graphql_request(state), step::run))
        .with_state(state.endpoint.clone());
    let routes = graphql
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready).with_state(state.health.clone()))
        .route("/schema.graphql", get(async || ([(CONTENT_TYPE, "text/plain; charset=utf-8")], api::sdl())))
        .route("/favicon.ico", get(playground::icon));
    let metrics = state.metrics.clone();
    let metrics = get(async move || metrics_page::response(&metrics));
    let routes = if state.options.public_metrics { routes.route("/metrics", metrics) } else { routes };
    let routes = if state.options.playground { routes.merge(playground::routes()) } else { routes };
    compression::apply(routes.layer(from_fn_with_state(every_request(state), step::run)))
}
