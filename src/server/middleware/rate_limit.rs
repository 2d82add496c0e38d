//! Limits the requests of each client: so many a minute. An operation on a websocket counts as a request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use async_graphql::ServerError;
use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::extract::Request;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use quick_cache::sync::Cache;

use super::context::RequestContext;
use super::rate_headers::{add_rate_headers, whole_seconds};
use super::step::{NextStep, RequestStep};
use crate::api::code;
use crate::execution::error::error;
use crate::execution::gcra::{Allowance, Gcra, MAX_CLIENTS, RateExceeded};
use crate::server::http::response::refuse_as_json;
use crate::server::limits::client_ip::rate_limit_key;

/// The requests of all clients.
pub(crate) struct RequestRates {
    /// Requests a minute of one client.
    limit: u32,
    clients: Cache<IpAddr, Arc<Gcra>>,
}

impl RequestRates {
    /// So many requests a minute; `None` for any number.
    pub(crate) fn new(limit: u32) -> Option<Self> {
        (limit > 0).then(|| Self { limit, clients: Cache::new(MAX_CLIENTS) })
    }

    fn take_one(&self, client: IpAddr, now: Instant) -> Result<Allowance, RateExceeded> {
        let new = || Ok::<_, ()>(Arc::new(Gcra::new(self.limit, now)));
        let gcra = self.clients.get_or_insert_with(&rate_limit_key(client), new);
        gcra.unwrap_or_else(|()| Arc::new(Gcra::new(self.limit, now))).take(1, now)
    }

    fn too_many(&self) -> ServerError {
        error(code::RESOURCE_EXHAUSTED, format!("a client may send {} requests a minute", self.limit))
    }
}

/// Counts the operations on one websocket as requests of its client.
pub(crate) struct OperationRate(Option<(Arc<RequestRates>, IpAddr)>);

impl OperationRate {
    /// For this client, if its requests are limited and its address is known.
    pub(crate) fn new(rates: Option<Arc<RequestRates>>, client: Option<IpAddr>) -> Self {
        Self(rates.zip(client))
    }

    /// Counts one operation.
    ///
    /// Errors: RESOURCE_EXHAUSTED, with the seconds until the client may send another.
    pub(crate) fn count(&self) -> Result<(), ServerError> {
        let Some((rates, client)) = &self.0 else { return Ok(()) };
        rates.take_one(*client, Instant::now()).map(drop).map_err(|exceeded| {
            let mut error = rates.too_many();
            let extensions = error.extensions.get_or_insert_default();
            extensions.set("retryAfterSeconds", whole_seconds(exceeded.wait));
            error
        })
    }
}

/// Answers 429 to clients above the limit, and adds the allowance of the client to each response.
pub(crate) struct RateLimit {
    /// `None` if requests are not limited.
    pub(crate) rates: Option<Arc<RequestRates>>,
}

impl RequestStep for RateLimit {
    fn handle<'a>(&'a self, request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response> {
        let address = request.extensions().get::<RequestContext>().and_then(|context| context.address);
        let (Some(rates), Some(address)) = (&self.rates, address) else { return next.run(request) };
        async move {
            let (mut response, allowance) = match rates.take_one(address, Instant::now()) {
                Ok(allowance) => (next.run(request).await, allowance),
                Err(exceeded) => {
                    let mut response = refuse_as_json(StatusCode::TOO_MANY_REQUESTS, rates.too_many());
                    let wait = HeaderValue::from(whole_seconds(exceeded.wait));
                    response.headers_mut().insert(RETRY_AFTER, wait);
                    (response, exceeded.allowance)
                }
            };
            add_rate_headers(response.headers_mut(), "minute", rates.limit, allowance);
            response
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_count_apart_but_a_network_of_ipv6_is_one() {
        let (rates, now) = (RequestRates::new(1).unwrap(), Instant::now());
        let wait = |address: &str| {
            let taken = rates.take_one(address.parse().unwrap(), now);
            taken.map_or_else(|exceeded| exceeded.wait.as_secs(), |_| 0)
        };
        assert_eq!(wait("1.2.3.4"), 0);
        assert_eq!(wait("1.2.3.5"), 0);
        assert_eq!(wait("2001:db8:0:1::1"), 0);
        assert_eq!(wait("2001:db8:0:1:ffff::2"), 60);
        assert_eq!(wait("2001:db8:0:2::1"), 0);
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        assert!(RequestRates::new(0).is_none());
        assert!(OperationRate::new(None, None).count().is_ok());
    }
}
