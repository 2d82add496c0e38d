//! Who asks: the client of a token, or anyone; and what each may do and spend.
//!
//! ```text
//!   Authorization: Bearer …            HTTP, and the request that becomes a websocket ──┐
//!   connection_init {authorization: …} on a websocket ──────────────────────────────────┼─► Authenticator ─► Client
//!   nothing                            anyone, unless a token is required ──────────────┘     401, 4403
//! ```
//!
//! A token that is not known is refused also where none is required: its client believes to be somebody. Only the name of
//! a token goes any further than this.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, UPGRADE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use quick_cache::sync::Cache;

use super::tokens::Tokens;
use crate::api::{Account, BudgetExhausted, Include, code};
use crate::server::Server;
use crate::server::http::response::{error, refuse_as_json};
use crate::server::limits::budget::Budget;
use crate::server::middleware::rate_limit::{CLIENTS, rate_limit_key};

/// What is asked of clients that have no token, or the wrong one (RFC 6750).
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"btcgraph\"");
const WRONG: HeaderValue = HeaderValue::from_static("Bearer realm=\"btcgraph\", error=\"invalid_token\"");

/// Who may ask, and for how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPolicy {
    /// The tokens that there are.
    pub tokens: Tokens,
    /// Whether nobody may ask without one.
    pub require_token: bool,
    /// What one client without a token, by its address, may spend a minute; 0 for any.
    pub anonymous_cost_per_minute: u32,
    /// Whether a client without a token may send transactions, if anyone may.
    pub anonymous_broadcast: bool,
}

impl Default for TokenPolicy {
    fn default() -> Self {
        Self {
            tokens: Tokens::default(),
            require_token: false,
            anonymous_cost_per_minute: 0,
            anonymous_broadcast: true,
        }
    }
}

/// Somebody who asks.
pub(crate) struct Client {
    /// The name of its token.
    pub(crate) name: Option<Arc<str>>,
    broadcast: bool,
    budget: Option<Arc<Budget>>,
    /// Whether it may ask at all. A websocket can still say who opened it.
    pub(crate) is_admitted: bool,
}

/// Why a client may not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    /// It has no token, and must.
    Missing,
    /// Its token is none of those that there are.
    Wrong,
}

/// Those who may ask.
pub(crate) struct Authenticator {
    token_policy: TokenPolicy,
    /// In the order of the tokens.
    known: Vec<Arc<Client>>,
    anyone: Arc<Client>,
    anonymous: Cache<IpAddr, Arc<Client>>,
}

impl Client {
    fn anyone(token_policy: &TokenPolicy) -> Self {
        let limit = token_policy.anonymous_cost_per_minute;
        let budget = (limit > 0).then(|| Arc::new(Budget::new(limit)));
        Self {
            name: None,
            broadcast: token_policy.anonymous_broadcast,
            budget,
            is_admitted: !token_policy.require_token,
        }
    }

    /// The account of a request that it makes.
    pub(crate) fn account(&self, include: Include) -> Account {
        let pay = self.budget.clone().map(|budget| {
            let pay: Box<crate::api::Pay> = Box::new(move |cost| budget.pay(cost, Instant::now()));
            pay
        });
        Account::new(self.broadcast, include, pay)
    }

    /// Whether what it asks has to be paid for.
    pub(crate) fn pays(&self) -> bool {
        self.budget.is_some()
    }

    /// Pays for something else than a request.
    pub(crate) fn pay(&self, cost: u64) -> Result<(), BudgetExhausted> {
        self.budget.as_ref().map_or(Ok(()), |budget| budget.pay(cost, Instant::now()).map(drop))
    }
}

impl Authenticator {
    pub(crate) fn new(token_policy: TokenPolicy) -> Self {
        let caller = |token: &super::tokens::Token| {
            let budget = (token.cost_per_minute > 0).then(|| Arc::new(Budget::new(token.cost_per_minute)));
            Arc::new(Client {
                name: Some(token.name.as_str().into()),
                broadcast: token.broadcast,
                budget,
                is_admitted: true,
            })
        };
        let known = token_policy.tokens.0.iter().map(caller).collect();
        Self { known, anyone: Arc::new(Client::anyone(&token_policy)), anonymous: Cache::new(CLIENTS), token_policy }
    }

    /// Who shows this token, or asks from this address without one.
    pub(crate) fn of(&self, token: Option<&str>, client: Option<IpAddr>) -> Result<Arc<Client>, AuthError> {
        match token {
            Some(token) => {
                let place = self.token_policy.tokens.find(token).ok_or(AuthError::Wrong)?;
                self.known.get(place).cloned().ok_or(AuthError::Wrong)
            }
            None if self.token_policy.require_token => Err(AuthError::Missing),
            None => Ok(self.anyone_at(client)),
        }
    }

    /// Somebody who has shown nothing yet.
    pub(crate) fn anyone_at(&self, client: Option<IpAddr>) -> Arc<Client> {
        let Some(client) = client.filter(|_| self.anyone.pays()) else { return self.anyone.clone() };
        let new = || Ok::<_, ()>(Arc::new(Client::anyone(&self.token_policy)));
        self.anonymous.get_or_insert_with(&rate_limit_key(client), new).unwrap_or_else(|()| self.anyone.clone())
    }
}

/// The token in `Authorization: Bearer …`, or in a text of that form.
pub(crate) fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn shown(headers: &HeaderMap) -> Result<Option<&str>, AuthError> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(bearer);
    token.map(Some).ok_or(AuthError::Wrong)
}

/// Who made the request, among its extensions, and the response has the name among its own; 401 if nobody may ask so. The
/// headers say what is left to spend.
pub(crate) async fn admit(
    server: &Server,
    mut request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let client = server.proxies.client_of(request.extensions(), request.headers());
    // of these alone a websocket is made, which asks again who it is for
    let protocol = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
    let is_upgrade =
        request.method() == Method::GET && protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"));
    let caller = shown(request.headers()).and_then(|token| server.callers.of(token, client));
    let caller = match caller {
        Ok(caller) => caller,
        // browsers cannot set headers of it: its first message says who it is
        Err(AuthError::Missing) if is_upgrade => server.callers.anyone_at(client),
        Err(unknown) => return refuse(unknown),
    };
    request.extensions_mut().insert(caller.clone());
    let mut response = next(request).await;
    if let Some(budget) = &caller.budget {
        budget.tell(response.headers_mut(), Instant::now());
    }
    if let Some(name) = &caller.name {
        response.extensions_mut().insert(TokenName(name.clone()));
    }
    response
}

/// The name of the token of whoever asked, among the extensions of the response.
#[derive(Clone)]
pub(crate) struct TokenName(pub(crate) Arc<str>);

/// 401, and why.
pub(crate) fn refuse(unknown: AuthError) -> Response {
    let (message, challenge) = match unknown {
        AuthError::Missing => ("this server requires a token: send it as Authorization: Bearer …", CHALLENGE),
        AuthError::Wrong => ("the token is not one of this server", WRONG),
    };
    let mut response = refuse_as_json(StatusCode::UNAUTHORIZED, error(code::FORBIDDEN, message));
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(require_token: bool) -> Authenticator {
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let tokens = format!("alice {hash} cost=10").parse().unwrap();
        Authenticator::new(TokenPolicy {
            tokens,
            require_token,
            anonymous_cost_per_minute: 5,
            anonymous_broadcast: false,
        })
    }

    fn names(callers: &Authenticator, token: Option<&str>) -> Result<Option<String>, AuthError> {
        callers.of(token, None).map(|caller| caller.name.as_ref().map(ToString::to_string))
    }

    #[test]
    fn who_has_a_token_is_its_client_and_who_has_none_is_anyone_unless_one_is_required() {
        assert_eq!(names(&callers(false), Some("secret")), Ok(Some("alice".to_owned())));
        assert_eq!(names(&callers(false), None), Ok(None));
        assert_eq!(names(&callers(false), Some("guess")), Err(AuthError::Wrong));
        assert_eq!(names(&callers(true), Some("secret")), Ok(Some("alice".to_owned())));
        assert_eq!(names(&callers(true), None), Err(AuthError::Missing));
    }

    #[test]
    fn clients_without_a_token_do_not_spend_each_others_budgets_and_those_with_one_share_it() {
        let callers = callers(false);
        let address = |text: &str| Some(text.parse().unwrap());
        let pay = |token, client, cost| callers.of(token, client).unwrap().pay(cost).is_ok();
        assert!(pay(None, address("1.2.3.4"), 5) && !pay(None, address("1.2.3.4"), 5));
        assert!(pay(None, address("1.2.3.5"), 5));
        assert!(pay(Some("secret"), address("1.2.3.4"), 10) && !pay(Some("secret"), address("1.2.3.5"), 10));
    }

    #[test]
    fn who_is_out_of_budget_and_asks_again_is_not_forgotten_for_others_who_ask_once() {
        let callers = callers(false);
        let pay = |client: u32| callers.anyone_at(Some(IpAddr::from(client.to_be_bytes()))).pay(5).is_ok();
        assert!(pay(0) && !pay(0));
        let others = u32::try_from(CLIENTS).unwrap() * 3;
        for other in 1..=others {
            assert!(pay(other));
            assert!(other % 1_000 > 0 || !pay(0), "{other}");
        }
        assert!(callers.anonymous.len() <= CLIENTS);
    }

    #[test]
    fn a_token_is_shown_as_a_bearer() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        assert_eq!((bearer("Basic abc"), bearer("abc"), bearer("")), (None, None, None));
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"))]);
        assert_eq!(shown(&headers), Err(AuthError::Wrong));
        assert_eq!(shown(&HeaderMap::new()), Ok(None));
    }
}
