//! The explorer and the playground: pages that use this server from a browser, and load nothing from elsewhere.
//!
//! ```text
//!   /, /block/…, /tx/…   ──► the explorer from playground/dist, if that was built before this program; else a page
//!                            that says how to build it
//!   /graphql, as browsers visit it ──► /playground
//!   /playground          ──► GraphiQL from playground/dist, if that was built; else the plain page
//!   /playground/…        ──► what the explorer and GraphiQL load
//!   /playground/plain    ──► the plain page, from playground/plain/ beside this file
//!   /playground/plain/…  ──► what the plain page loads
//!   /favicon.ico         ──► the icon that browsers request, also without the playground
//!   any other path       ──► 404; to a browser with the explorer, which says that it has no such page
//! ```
//!
//! All of it is in the program. The build leaves each of its files compressed beside itself, as `.br` and `.gz`, and
//! puts all but its pages into `assets/`, under names with a hash of their content. The explorer is one page at many
//! paths, each of which it shows by itself: playground/src/explorer/app.tsx says what.

use std::borrow::Cow;

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::server::http::encoding::{self, Encoding};
use crate::server::http::endpoint::is_visit;
use crate::server::http::media_type::prefers_page;
use crate::server::http::negotiation::joined;
use crate::server::middleware::step::{NextStep, RequestStep};

/// The explorer and GraphiQL, or nothing.
#[derive(RustEmbed)]
#[folder = "playground/dist/"]
#[allow_missing = true]
struct Built;

/// The plain page.
#[derive(RustEmbed)]
#[folder = "src/server/playground/plain/"]
struct Plain;

/// Where it is.
const PATH: &str = "/playground";

/// The page of either.
const PAGE: &str = "index.html";

/// The page of the explorer; among the plain files, the one that stands in for it.
const EXPLORER_PAGE: &str = "explorer.html";

/// The paths of the explorer.
const EXPLORER: [&str; 12] = [
    "/",
    "/block/{hash_or_height}",
    "/tx/{txid}",
    "/address/{address}",
    "/script/{script_hash}",
    "/pool/{slug}",
    "/wallet",
    "/mempool",
    "/charts",
    "/send",
    "/search",
    "/status",
];

/// The icon of the site, of 16 and 32 pixels a side.
const ICON: &str = "favicon.ico";

/// Names in this folder are never given to other content.
const HASHED: &str = "assets/";

/// What GraphiQL's page may do. Monaco, its editor, makes style elements and style attributes while it runs, for
/// widths, positions and themes that are not known before; so styles may be inline, and scripts may not.
const BUILT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    font-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the explorer and the plain page may do.
const STRICT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A set of embedded files, under the policy that they need.
#[derive(Clone, Copy)]
struct Site {
    find: fn(&str) -> Option<EmbeddedFile>,
    policy: &'static str,
}

const BUILT: Site = Site { find: Built::get, policy: BUILT_POLICY };
const BUILT_EXPLORER: Site = Site { find: Built::get, policy: STRICT_POLICY };
const PLAIN: Site = Site { find: Plain::get, policy: STRICT_POLICY };

pub(crate) fn routes() -> Router {
    let explorer = EXPLORER.iter().fold(Router::new(), |routes, path| routes.route(path, get(explorer)));
    let explorer = explorer.fallback(unknown);
    explorer.route(PATH, get(page)).route("/playground/", get(page)).route("/playground/{*path}", get(file))
}

/// Redirects a browser that opens the endpoint to the playground.
pub(crate) struct ShowPlayground {
    pub(crate) is_enabled: bool,
}

impl RequestStep for ShowPlayground {
    fn handle<'a>(&'a self, request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response> {
        if !self.is_enabled || !is_visit(&request) {
            return next.run(request);
        }
        async { ([(VARY, "accept")], Redirect::temporary(PATH)).into_response() }.boxed()
    }
}

pub(crate) async fn icon(headers: HeaderMap) -> Response {
    PLAIN.answer(ICON, &headers)
}

async fn explorer(headers: HeaderMap) -> Response {
    let site = if Built::get(EXPLORER_PAGE).is_some() { BUILT_EXPLORER } else { PLAIN };
    site.answer(EXPLORER_PAGE, &headers)
}

/// A browser is shown the explorer, which says that it has no such page.
async fn unknown(request: Request) -> Response {
    let mut headers = request.headers().clone();
    if !matches!(*request.method(), Method::GET | Method::HEAD) || !prefers_page(&headers) {
        return StatusCode::NOT_FOUND.into_response();
    }
    // nothing of this path was ever valid
    headers.remove(IF_NONE_MATCH);
    let mut response = explorer(headers).await;
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    response
}

async fn page(headers: HeaderMap) -> Response {
    let site = if Built::get(PAGE).is_some() { BUILT } else { PLAIN };
    site.answer(PAGE, &headers)
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    match path.strip_prefix("plain") {
        Some("" | "/") => PLAIN.answer(PAGE, &headers),
        Some(rest) if rest.starts_with('/') => PLAIN.answer(&rest[1..], &headers),
        _ => BUILT.answer(&path, &headers),
    }
}

impl Site {
    /// The file of this name as the client takes it, or that it has it already. 404 if there is none.
    fn answer(self, name: &str, request: &HeaderMap) -> Response {
        let Some(whole) = (self.find)(name).filter(|_| Encoding::of_name(name).is_none()) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let compressed = |encoding: Encoding| (self.find)(&format!("{name}.{}", encoding.extension()));
        let accepted = joined(request, &ACCEPT_ENCODING);
        let chosen = encoding::best(&accepted, |encoding| compressed(encoding).is_some());
        let (file, encoding) = match chosen.and_then(compressed) {
            Some(file) => (file, chosen),
            None => (whole, None),
        };
        let tag = entity_tag(&file);
        let unchanged = names_tag(&joined(request, &IF_NONE_MATCH), &tag);
        let mut response = Response::new(if unchanged { Body::empty() } else { body(file.data) });
        if unchanged {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
        set(VARY, "accept-encoding");
        set(CACHE_CONTROL, cache_control(name));
        set(CONTENT_SECURITY_POLICY, self.policy);
        set(X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(REFERRER_POLICY, "no-referrer");
        if !unchanged {
            set(CONTENT_TYPE, media_type(name));
            if let Some(encoding) = encoding {
                set(CONTENT_ENCODING, encoding.token());
            }
        }
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(ETAG, tag);
        }
        response
    }
}

/// Whether a list of entity tags has this one, or all (RFC 9110, section 13.1.2). Weak and strong tags compare alike.
fn names_tag(tags: &str, tag: &str) -> bool {
    tags.split(',').map(str::trim).any(|listed| listed == "*" || listed.strip_prefix("W/").unwrap_or(listed) == tag)
}

/// A hash of the bytes that are sent, so that each encoding of a file has a tag of its own.
fn entity_tag(file: &EmbeddedFile) -> String {
    let hash = file.metadata.sha256_hash();
    let start = hash.iter().take(16).fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
    format!("\"{start:032x}\"")
}

fn body(data: Cow<'static, [u8]>) -> Body {
    match data {
        Cow::Borrowed(bytes) => Body::from(bytes),
        Cow::Owned(bytes) => Body::from(bytes),
    }
}

fn cache_control(name: &str) -> &'static str {
    match name {
        ICON => "public, max-age=86400",
        _ if name.starts_with(HASHED) => "public, max-age=31536000, immutable",
        _ => "no-cache",
    }
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "ico" => "image/vnd.microsoft.icon",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
