//! The client of a request, by its token or anonymous.
//!
//! ```text
//!   Authorization: Bearer …            HTTP, and the request that becomes a websocket ──┐
//!   connection_init {authorization: …} on a websocket ──────────────────────────────────┼─► Authenticator ─► Client
//!   nothing                            anonymous, unless a token is required ───────────┘     401, 4403
//! ```
//!
//! An unknown token is refused even where none is required: its sender believes to have an identity. Beyond this module
//! only the name of a token is known.

use std::net::IpAddr;
use std::sync::Arc;

use quick_cache::sync::Cache;

use super::tokens::{Token, Tokens};
use crate::execution::client::Client;
use crate::execution::gcra::MAX_CLIENTS;
use crate::server::limits::client_ip::rate_limit_key;

/// Which clients may send requests, and what each may spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPolicy {
    /// The tokens of clients.
    pub tokens: Tokens,
    /// Whether each request needs a token.
    pub require_token: bool,
    /// The cost that an anonymous client, by its address, may spend a minute; 0 for unlimited.
    pub anonymous_cost_per_minute: u32,
    /// Whether an anonymous client may send transactions, if that is enabled at all.
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

/// Why a client is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    /// A token is required, and there is none.
    MissingToken,
    /// The token is not one of this server.
    UnknownToken,
}

/// Finds the client of a token or an address.
pub(crate) struct Authenticator {
    policy: TokenPolicy,
    /// In the order of the tokens.
    by_token: Vec<Arc<Client>>,
    anonymous: Arc<Client>,
    by_address: Cache<IpAddr, Arc<Client>>,
}

fn anonymous(policy: &TokenPolicy) -> Client {
    Client::new(None, policy.anonymous_cost_per_minute, policy.anonymous_broadcast, !policy.require_token)
}

fn client_of(token: &Token) -> Client {
    Client::new(Some(token.name.as_str().into()), token.cost_per_minute, token.broadcast, true)
}

impl Authenticator {
    pub(crate) fn new(policy: TokenPolicy) -> Self {
        let by_token = policy.tokens.as_slice().iter().map(|token| Arc::new(client_of(token))).collect();
        let anonymous = Arc::new(anonymous(&policy));
        Self { policy, by_token, anonymous, by_address: Cache::new(MAX_CLIENTS) }
    }

    /// The client with this token or, without one, at this address.
    pub(crate) fn client(&self, token: Option<&str>, address: Option<IpAddr>) -> Result<Arc<Client>, AuthError> {
        match token {
            Some(token) => {
                let place = self.policy.tokens.find(token).ok_or(AuthError::UnknownToken)?;
                self.by_token.get(place).cloned().ok_or(AuthError::UnknownToken)
            }
            None if self.policy.require_token => Err(AuthError::MissingToken),
            None => Ok(self.anonymous_at(address)),
        }
    }

    /// The anonymous client at this address, which may not be admitted.
    pub(crate) fn anonymous_at(&self, address: Option<IpAddr>) -> Arc<Client> {
        let Some(address) = address.filter(|_| self.anonymous.budget().is_some()) else {
            return self.anonymous.clone();
        };
        let new = || Ok::<_, ()>(Arc::new(anonymous(&self.policy)));
        let client = self.by_address.get_or_insert_with(&rate_limit_key(address), new);
        client.unwrap_or_else(|()| self.anonymous.clone())
    }
}

/// The token in `Authorization: Bearer …`, or in a text of that form.
pub(crate) fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator(require_token: bool) -> Authenticator {
        let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let tokens = format!("alice {hash} cost=10").parse().unwrap();
        Authenticator::new(TokenPolicy {
            tokens,
            require_token,
            anonymous_cost_per_minute: 5,
            anonymous_broadcast: false,
        })
    }

    fn names(authenticator: &Authenticator, token: Option<&str>) -> Result<Option<String>, AuthError> {
        authenticator.client(token, None).map(|client| client.name.as_ref().map(ToString::to_string))
    }

    #[test]
    fn a_token_names_its_client_and_none_is_anonymous_unless_required() {
        assert_eq!(names(&authenticator(false), Some("secret")), Ok(Some("alice".to_owned())));
        assert_eq!(names(&authenticator(false), None), Ok(None));
        assert_eq!(names(&authenticator(false), Some("guess")), Err(AuthError::UnknownToken));
        assert_eq!(names(&authenticator(true), Some("secret")), Ok(Some("alice".to_owned())));
        assert_eq!(names(&authenticator(true), None), Err(AuthError::MissingToken));
    }

    #[test]
    fn budgets_are_those_of_a_token_or_of_an_address() {
        let authenticator = authenticator(false);
        let address = |text: &str| Some(text.parse().unwrap());
        let pay = |token, client, cost| authenticator.client(token, client).unwrap().pay(cost).is_ok();
        assert!(pay(None, address("1.2.3.4"), 5) && !pay(None, address("1.2.3.4"), 5));
        assert!(pay(None, address("1.2.3.5"), 5));
        assert!(pay(Some("secret"), address("1.2.3.4"), 10) && !pay(Some("secret"), address("1.2.3.5"), 10));
    }

    #[test]
    fn an_active_address_is_not_forgotten_for_many_others() {
        let authenticator = authenticator(false);
        let pay = |client: u32| authenticator.anonymous_at(Some(IpAddr::from(client.to_be_bytes()))).pay(5).is_ok();
        assert!(pay(0) && !pay(0));
        let others = u32::try_from(MAX_CLIENTS).unwrap() * 3;
        for other in 1..=others {
            assert!(pay(other));
            assert!(other % 1_000 > 0 || !pay(0), "{other}");
        }
        assert!(authenticator.by_address.len() <= MAX_CLIENTS);
    }

    #[test]
    fn a_token_is_sent_as_a_bearer() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        assert_eq!((bearer("Basic abc"), bearer("abc"), bearer("")), (None, None, None));
    }
}
