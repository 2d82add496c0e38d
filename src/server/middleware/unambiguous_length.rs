//! Refuses requests that state their length twice ([`AmbiguousLength`]).

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;

use super::step::{NextStep, RequestStep};
use crate::api::code;
use crate::server::connection::framing::AmbiguousLength;
use crate::server::error::error;
use crate::server::http::response::refuse_as_json;

/// Answers 400 to a request that states its length twice.
pub(crate) struct UnambiguousLength;

impl RequestStep for UnambiguousLength {
    fn handle<'a>(&'a self, request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response> {
        if request.extensions().get::<AmbiguousLength>().is_none() {
            return next.run(request);
        }
        let message = "Content-Length and Transfer-Encoding exclude each other: send one of them";
        let response = refuse_as_json(StatusCode::BAD_REQUEST, error(code::BAD_USER_INPUT, message));
        async { response }.boxed()
    }
}
