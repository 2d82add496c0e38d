//! Compression of responses. [`encoding`] chooses the encoding before the layer that compresses sees the request: of equal
//! weights that layer prefers zstd, which some clients offer and cannot decode.

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::ACCEPT_ENCODING;
use tower::util::MapRequestLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use crate::server::http::encoding;
use crate::server::http::negotiation::joined;

/// The least bytes of a response body that is compressed.
const COMPRESSED_ABOVE: u16 = 1024;

/// Compresses what these routes answer, as the client accepts it.
pub(crate) fn apply(routes: Router) -> Router {
    // events of a stream are sent as they happen, and compression would delay them
    let compressed = SizeAbove::new(COMPRESSED_ABOVE)
        .and(NotForContentType::SSE)
        .and(NotForContentType::const_new("multipart/"))
        .and(NotForContentType::IMAGES);
    routes.layer(CompressionLayer::new().compress_when(compressed)).layer(MapRequestLayer::new(choose))
}

/// Leaves the chosen encoding alone in `Accept-Encoding`, or nothing.
fn choose(mut request: Request) -> Request {
    let headers = request.headers_mut();
    if headers.contains_key(ACCEPT_ENCODING) {
        match encoding::best(&joined(headers, &ACCEPT_ENCODING), |_| true) {
            Some(encoding) => headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding.token())),
            None => headers.remove(ACCEPT_ENCODING),
        };
    }
    request
}
