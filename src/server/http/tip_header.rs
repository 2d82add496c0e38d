//! The header `X-Btcgraph-Tip`: the newest block of the state that an answer is from, as `<height>:<hash>`. A client that sends
//! it with its next request is not answered from an older state, by whichever server.
//!
//! ```text
//!   replica 1   200, X-Btcgraph-Tip: 840000:…   ──►  client  ──►   X-Btcgraph-Tip: 840000:…   replica 2: has it, or waits for it
//! ```
//!
//! An immutable answer has none: caches keep it for a year, and it holds at every later tip.

use async_graphql::ServerError;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

use crate::api::{CarriedTip, code};
use crate::execution::error::error;

const TIP: HeaderName = HeaderName::from_static("x-btcgraph-tip");

/// Names the state of an answer.
pub(crate) fn add(response: &mut Response, tip: CarriedTip) {
    if let Ok(value) = HeaderValue::from_str(&tip.to_string()) {
        response.headers_mut().insert(TIP, value);
    }
}

/// The block that a request carries, if any. Errors: BAD_USER_INPUT.
pub(crate) fn carried(headers: &HeaderMap) -> Result<Option<CarriedTip>, ServerError> {
    let mut given = headers.get_all(TIP).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let carried = value.to_str().ok().and_then(|text| CarriedTip::parse(text.trim()));
    if carried.is_some() && given.next().is_none() {
        return Ok(carried);
    }
    let shown: String = String::from_utf8_lossy(value.as_bytes()).chars().take(100).collect();
    let message = format!(
        "the header X-Btcgraph-Tip is `{shown}`: send it once, as it was in an answer: a height, a colon, and a block hash of \
         64 hexadecimal digits"
    );
    Err(error(code::BAD_USER_INPUT, message))
}
