//! Finds the client of a request by its token, and adds what it may still spend to the response.

use std::sync::Arc;
use std::time::Instant;

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, UPGRADE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

use super::context::{RequestContext, RequestSummary};
use super::rate_headers::add_rate_headers;
use super::step::{NextStep, RequestStep};
use crate::api::code;
use crate::execution::error::error;
use crate::server::auth::authenticator::{AuthError, Authenticator, bearer};
use crate::server::http::response::refuse_as_json;

/// The challenges to clients that have no token, or the wrong one (RFC 6750).
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"btcgraph\"");
const INVALID_TOKEN: HeaderValue = HeaderValue::from_static("Bearer realm=\"btcgraph\", error=\"invalid_token\"");

/// Adds the client to the [`RequestContext`]; 401 if there is none.
pub(crate) struct Authenticate {
    pub(crate) authenticator: Arc<Authenticator>,
}

impl RequestStep for Authenticate {
    fn handle<'a>(&'a self, mut request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response> {
        async move {
            let address = request.extensions_mut().get_or_insert_default::<RequestContext>().address;
            let client = token_of(request.headers()).and_then(|token| self.authenticator.client(token, address));
            let client = match client {
                Ok(client) => client,
                // browsers cannot set headers of a websocket: its first message has the token
                Err(AuthError::MissingToken) if is_websocket(&request) => self.authenticator.anonymous_at(address),
                Err(reason) => return refuse(reason),
            };
            request.extensions_mut().get_or_insert_default::<RequestContext>().client = Some(client.clone());
            let mut response = next.run(request).await;
            if let Some(budget) = client.budget() {
                add_rate_headers(response.headers_mut(), "cost", budget.limit(), budget.allowance(Instant::now()));
            }
            if let Some(name) = &client.name {
                response.extensions_mut().get_or_insert_default::<RequestSummary>().token = Some(name.clone());
            }
            response
        }
        .boxed()
    }
}

fn token_of(headers: &HeaderMap) -> Result<Option<&str>, AuthError> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(bearer);
    token.map(Some).ok_or(AuthError::UnknownToken)
}

/// Whether the connection is to become a websocket, which authenticates again.
fn is_websocket(request: &Request) -> bool {
    let protocol = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
    request.method() == Method::GET && protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// 401, and why.
pub(crate) fn refuse(reason: AuthError) -> Response {
    let (message, challenge) = match reason {
        AuthError::MissingToken => ("this server requires a token: send it as Authorization: Bearer …", CHALLENGE),
        AuthError::UnknownToken => ("the token is not one of this server", INVALID_TOKEN),
    };
    let mut response = refuse_as_json(StatusCode::UNAUTHORIZED, error(code::FORBIDDEN, message));
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_scheme_than_bearer_is_an_unknown_token() {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"))]);
        assert_eq!(token_of(&headers), Err(AuthError::UnknownToken));
        assert_eq!(token_of(&HeaderMap::new()), Ok(None));
    }
}
