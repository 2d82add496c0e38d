//! How often one client may ask: so many requests a minute, as many of them at once as it likes. An operation on a websocket
//! counts as a request.
//!
//! Each client has one moment: when all it has asked would be paid for, at one request each sixtieth part of a minute's
//! number (the generic cell rate algorithm, of ITU-T I.371). It may ask if that moment, with this request, is at most a
//! minute away.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_graphql::ServerError;
use axum::extract::Request;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use quick_cache::sync::Cache;

use crate::api::code;
use crate::server::Server;
use crate::server::http::response::{error, refuse_as_json};

/// In which a client may ask so often.
const WINDOW: Duration = Duration::from_mins(1);

/// How many clients are told apart; of more, those that have asked least are forgotten, and may ask anew. Who asks again is
/// not forgotten for any number of others who ask once, so that an address which is turned away stays so. What is gained by
/// it is little: to be forgotten takes so many addresses, each of which may ask as much by itself.
pub(crate) const CLIENTS: usize = 50_000;

/// The headers of draft-ietf-httpapi-ratelimit-headers-10.
pub(crate) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(crate) const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// What every client may ask, and what they have asked.
pub(crate) struct RateLimiter {
    /// Requests in each [`WINDOW`].
    limit: u32,
    /// When what a client has asked is paid for.
    clients: Cache<IpAddr, Arc<Mutex<Instant>>>,
}

/// Whether a client may ask now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    /// How long until it may, zero if it may now.
    wait: Duration,
    /// How many more it may ask at once.
    left: u32,
    /// How long until it may ask as many as anyone.
    full: Duration,
}

impl RateLimiter {
    /// So many requests a minute; `None` for any number.
    pub(crate) fn new(limit: u32) -> Option<Self> {
        (limit > 0).then(|| Self { limit, clients: Cache::new(CLIENTS) })
    }

    fn too_often(&self) -> ServerError {
        error(code::RESOURCE_EXHAUSTED, format!("a client may send {} requests a minute", self.limit))
    }

    fn ask(&self, client: IpAddr, now: Instant) -> Verdict {
        let each = WINDOW / self.limit;
        let paid = self.clients.get_or_insert_with::<_, ()>(&rate_limit_key(client), || Ok(Arc::new(Mutex::new(now))));
        let Ok(paid) = paid else { return Verdict { wait: Duration::ZERO, left: 0, full: Duration::ZERO } };
        // a moment is whole at any time
        let mut paid = paid.lock().unwrap_or_else(PoisonError::into_inner);
        let debt = paid.saturating_duration_since(now);
        let with_this = debt + each;
        // a limit that does not divide a minute rounds down to a little more than it says
        if with_this > WINDOW {
            return Verdict { wait: with_this.saturating_sub(WINDOW), left: 0, full: debt };
        }
        *paid = now + with_this;
        let left = WINDOW.saturating_sub(with_this).as_nanos() / each.as_nanos().max(1);
        Verdict { wait: Duration::ZERO, left: u32::try_from(left).unwrap_or(u32::MAX), full: with_this }
    }
}

/// What one client asks otherwise than by requests of its own: the operations on a websocket.
pub(crate) struct OperationMeter(Option<(Arc<RateLimiter>, IpAddr)>);

impl OperationMeter {
    /// Counts for this client, if anything is counted and it is known.
    pub(crate) fn new(rate: Option<Arc<RateLimiter>>, client: Option<IpAddr>) -> Self {
        Self(rate.zip(client))
    }

    /// Counts one. Errors: RESOURCE_EXHAUSTED, and in how many seconds the client may ask again.
    pub(crate) fn ask(&self) -> Result<(), ServerError> {
        let Some((rate, client)) = &self.0 else { return Ok(()) };
        let verdict = rate.ask(*client, Instant::now());
        if verdict.wait.is_zero() {
            return Ok(());
        }
        let mut error = rate.too_often();
        error.extensions.get_or_insert_default().set("retryAfterSeconds", seconds(verdict.wait));
        Err(error)
    }
}

/// ResponseType ones, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Those who count as one: a network of IPv6 is given to one customer as a whole.
pub(crate) fn rate_limit_key(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// Answers 429 to who asks too often, and tells everyone how often they may.
pub(crate) async fn limit(server: &Server, request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    let Some(rate) = &server.rate else { return next(request).await };
    let Some(client) = server.proxies.client_of(request.extensions(), request.headers()) else {
        return next(request).await;
    };
    let verdict = rate.ask(client, Instant::now());
    let mut response = if verdict.wait.is_zero() {
        next(request).await
    } else {
        refuse_as_json(StatusCode::TOO_MANY_REQUESTS, rate.too_often())
    };
    tell(response.headers_mut(), rate.limit, verdict);
    response
}

fn tell(headers: &mut HeaderMap, limit: u32, verdict: Verdict) {
    let mut set = |name, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            // a client may have a budget, too
            headers.append(name, value);
        }
    };
    set(POLICY, format!("\"minute\";q={limit};w={}", WINDOW.as_secs()));
    set(LEFT, format!("\"minute\";r={};t={}", verdict.left, seconds(verdict.full)));
    if !verdict.wait.is_zero() {
        set(RETRY_AFTER, seconds(verdict.wait).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(1, 2, 3, 4));

    fn wait(rate: &RateLimiter, client: IpAddr, now: Instant) -> u64 {
        rate.ask(client, now).wait.as_secs()
    }

    #[test]
    fn a_client_may_ask_a_minutes_number_at_once_and_then_as_they_are_paid_for() {
        let (rate, now) = (RateLimiter::new(6).unwrap(), Instant::now());
        let left: Vec<_> = (0..6).map(|_| rate.ask(A, now)).collect();
        assert!(left.iter().all(|verdict| verdict.wait.is_zero()));
        assert_eq!(left.iter().map(|verdict| verdict.left).collect::<Vec<_>>(), [5, 4, 3, 2, 1, 0]);
        assert_eq!(left[5].full.as_secs(), 60);
        assert_eq!(wait(&rate, A, now), 10);
        assert_eq!(wait(&rate, A, now + Duration::from_secs(9)), 1);
        assert_eq!(wait(&rate, A, now + Duration::from_secs(10)), 0);
        assert_eq!(wait(&rate, A, now + Duration::from_secs(10)), 10);
        assert_eq!(rate.ask(A, now + Duration::from_mins(10)).left, 5);
    }

    #[test]
    fn clients_do_not_pay_for_each_other_but_a_network_of_ipv6_is_one() {
        let (rate, now) = (RateLimiter::new(1).unwrap(), Instant::now());
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(wait(&rate, A, now), 0);
        assert_eq!(wait(&rate, address("1.2.3.5"), now), 0);
        assert_eq!(wait(&rate, address("2001:db8:0:1::1"), now), 0);
        assert_eq!(wait(&rate, address("2001:db8:0:1:ffff::2"), now), 60);
        assert_eq!(wait(&rate, address("2001:db8:0:2::1"), now), 0);
    }

    #[test]
    fn what_is_told_is_whole_seconds_rounded_up() {
        let mut headers = HeaderMap::new();
        let verdict = Verdict { wait: Duration::from_millis(1_001), left: 7, full: Duration::from_millis(500) };
        tell(&mut headers, 90, verdict);
        assert_eq!(headers[POLICY], "\"minute\";q=90;w=60");
        assert_eq!(headers[LEFT], "\"minute\";r=7;t=1");
        assert_eq!(headers[RETRY_AFTER], "2");
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_count() {
        assert!(RateLimiter::new(0).is_none());
    }
}
