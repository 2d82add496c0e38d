//! How long an answer may be cached (RFC 9111), and whether a cached answer is still current (RFC 9110, section 13).
//!
//! ```text
//!   Freshness::Immutable      Cache-Control: public, max-age=31536000, immutable
//!   Freshness::UntilNextTip     Cache-Control: public, no-cache    ETag: W/"t.<tip>.<media>"
//!   Freshness::UntilNextHead    Cache-Control: public, no-cache    ETag: W/"h.<tip>.<mark of the Head>.<media>"
//!   introspection         Cache-Control: public, no-cache    ETag: W/"s.<hash of the schema>.<media>"
//!   Freshness::NoStore      Cache-Control: no-store            also mutations, streams, and responses with errors
//! ```
//!
//! An ETag names the state that the answer depends on. So a client that sends one (`If-None-Match`) gets 304 without an
//! execution: the same request of the same state has the same answer. The ETags are weak, because an answer is compressed
//! or not.

use std::sync::LazyLock;

use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::media_type::ResponseType;
use super::tip_header;
use crate::api::{self, Freshness, Schema};

/// Which caches may store an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheScope {
    /// Also those between client and server.
    Public,
    /// Only the client's own: its request has credentials.
    Private,
}

impl CacheScope {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let is_personal = headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE);
        if is_personal { Self::Private } else { Self::Public }
    }

    fn for_ever(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Public => "public, max-age=31536000, immutable",
            Self::Private => "private, max-age=31536000, immutable",
        })
    }

    fn if_current(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Public => "public, no-cache",
            Self::Private => "private, no-cache",
        })
    }
}

/// What an answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    Of(Freshness),
    /// The schema, which is that of a version of this program.
    WithSchema,
}

impl Validity {
    /// The state in an ETag; `None` if there is none to name.
    fn state(self) -> Option<String> {
        match self {
            Self::Of(freshness) => freshness.state(),
            Self::WithSchema => Some(schema_state().to_owned()),
        }
    }
}

/// Changes with the schema, and with the version of the program that writes it.
fn schema_state() -> &'static str {
    static STATE: LazyLock<String> = LazyLock::new(|| {
        let hash = Sha256::new().chain_update(env!("CARGO_PKG_VERSION")).chain_update(api::sdl()).finalize();
        let start = hash.iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        format!("s.{start:016x}")
    });
    &STATE
}

/// Adds the headers of an answer that may be cached. Without them it may not.
pub(crate) fn add(answer: &mut Response, validity: Validity, (media, scope): (ResponseType, CacheScope)) {
    if validity == Validity::Of(Freshness::Immutable) {
        answer.headers_mut().insert(CACHE_CONTROL, scope.for_ever());
    } else if let Some(tag) = validity.state().and_then(|state| tag(&state, media)) {
        answer.headers_mut().insert(CACHE_CONTROL, scope.if_current());
        answer.headers_mut().insert(ETAG, tag);
    }
}

/// 304, if the answer that the client has cached is still current.
pub(crate) fn unchanged(
    schema: &Schema,
    request: &Parts,
    media: ResponseType,
    is_about_schema: bool,
) -> Option<Response> {
    // for other methods it is a condition of the request
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return None;
    }
    let given = request.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    // the tip, which an answer about the schema has not
    let current = |state: &str| {
        if is_about_schema {
            return (state == schema_state()).then_some(None);
        }
        schema.tip_if_current(&Freshness::with_state(state)?).map(Some)
    };
    let mut states = given.flat_map(|list| list.split(',')).filter_map(|tag| read(tag.trim(), media));
    let (state, tip) = states.find_map(|state| Some((state, current(state)?)))?;
    let headers = [
        (CACHE_CONTROL, CacheScope::of(&request.headers).if_current()),
        (ETAG, tag(state, media)?),
        (VARY, HeaderValue::from_static("accept")),
    ];
    let mut response = (StatusCode::NOT_MODIFIED, headers).into_response();
    if let Some(tip) = tip {
        tip_header::add(&mut response, api::CarriedTip(tip));
    }
    Some(response)
}

fn letter(media: ResponseType) -> &'static str {
    match media {
        ResponseType::GraphqlResponse => "g",
        ResponseType::Json => "j",
    }
}

fn tag(state: &str, media: ResponseType) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("W/\"{state}.{}\"", letter(media))).ok()
}

/// The state that an ETag of this media type names. Weak and strong ones compare alike
/// (RFC 9110, section 13.1.2).
fn read(tag: &str, media: ResponseType) -> Option<&str> {
    let tag = tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"')?.strip_suffix('"')?;
    let (state, of_media) = tag.rsplit_once('.')?;
    (of_media == letter(media)).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [ResponseType; 2] = [ResponseType::Json, ResponseType::GraphqlResponse];

    #[test]
    fn an_etag_is_read_as_it_was_written_and_in_no_other_media_type() {
        let hash = "07".repeat(32);
        let states = [format!("t.{hash}"), format!("h.{hash}.00000000000000ff"), schema_state().to_owned()];
        for state in &states {
            for media in BOTH {
                let tag = tag(state, media).unwrap();
                let text = tag.to_str().unwrap();
                for other in BOTH {
                    assert_eq!(read(text, other), (other == media).then_some(state.as_str()), "{text}");
                }
                // a proxy may take it for a strong one
                assert_eq!(read(text.strip_prefix("W/").unwrap(), media), Some(state.as_str()));
            }
        }
    }

    #[test]
    fn the_state_of_the_schema_is_none_of_the_chain() {
        assert_eq!((schema_state().len(), Freshness::with_state(schema_state())), (18, None));
        assert_eq!(Validity::Of(Freshness::Immutable).state(), None);
        assert_eq!(Validity::Of(Freshness::NoStore).state(), None);
    }

    #[test]
    fn etags_of_others_are_none_of_ours() {
        let hash = "00".repeat(32);
        for text in [
            String::new(),
            "*".to_owned(),
            "\"".to_owned(),
            "W/\"\"".to_owned(),
            format!("t.{hash}.j"),
            format!("\"x.{hash}.j\""),
            format!("\"t.{hash}\""),
            format!("\"t.{hash}.j.j\""),
            format!("\"h.{hash}.j\""),
        ] {
            assert_eq!(read(&text, ResponseType::Json).and_then(Freshness::with_state), None, "{text}");
        }
    }
}
