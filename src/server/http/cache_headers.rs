//! How long an answer may be kept, as HTTP tells it (RFC 9111), and whether what a client kept is still the answer
//! (RFC 9110, section 13).
//!
//! ```text
//!   Freshness::Immutable      Cache-Control: public, max-age=31536000, immutable
//!   Freshness::UntilNextTip     Cache-Control: public, no-cache    ETag: W/"t.<tip>.<media>"
//!   Freshness::UntilNextHead    Cache-Control: public, no-cache    ETag: W/"h.<tip>.<mark of the Head>.<media>"
//!   introspection         Cache-Control: public, no-cache    ETag: W/"s.<hash of the schema>.<media>"
//!   Freshness::NoStore      Cache-Control: no-store            so are mutations, streams, and whatever has an error
//! ```
//!
//! An ETag says by itself what it depends on. So a client that brings one back (`If-None-Match`) is told 304 without that
//! anything is executed: the same question of the same state has the same answer. The ETags are weak, because an answer is
//! compressed or not.

use std::sync::LazyLock;

use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::accept::ResponseType;
use crate::api::{self, Freshness, Schema};

/// Who may keep an answer: whoever passes it on, or only the one who asked with a name or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheScope {
    Anyone,
    Asker,
}

impl CacheScope {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let is_personal = headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE);
        if is_personal { Self::Asker } else { Self::Anyone }
    }

    fn for_a_year(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Anyone => "public, max-age=31536000, immutable",
            Self::Asker => "private, max-age=31536000, immutable",
        })
    }

    fn if_still_so(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Anyone => "public, no-cache",
            Self::Asker => "private, no-cache",
        })
    }
}

/// With what an answer stays the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Of(Freshness),
    /// With the schema, which is of one version of this program.
    WithSchema,
}

impl Kept {
    /// What an ETag calls the state that the answer depends on; `None` if there is none to name.
    fn state(self) -> Option<String> {
        match self {
            Self::Of(lasting) => lasting.state(),
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

/// Says in an answer how long it may be kept. What it says until then is that it may not.
pub(crate) fn tell(answer: &mut Response, kept: Kept, (media, keeper): (ResponseType, CacheScope)) {
    if kept == Kept::Of(Freshness::Immutable) {
        answer.headers_mut().insert(CACHE_CONTROL, keeper.for_a_year());
    } else if let Some(tag) = kept.state().and_then(|state| tag(&state, media)) {
        answer.headers_mut().insert(CACHE_CONTROL, keeper.if_still_so());
        answer.headers_mut().insert(ETAG, tag);
    }
}

/// 304, if what the client says it has is still the answer to what it asks, which may be the schema.
pub(crate) fn unchanged(
    schema: &Schema,
    caller: &Parts,
    media: ResponseType,
    is_about_schema: bool,
) -> Option<Response> {
    // for other methods it is a condition to do something at all
    if !matches!(caller.method, Method::GET | Method::HEAD) {
        return None;
    }
    let given = caller.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_current = |state: &&str| {
        if is_about_schema {
            return *state == schema_state();
        }
        Freshness::with_state(state).is_some_and(|lasting| schema.is_current(&lasting))
    };
    let state = given.flat_map(|list| list.split(',')).filter_map(|tag| read(tag.trim(), media)).find(is_current)?;
    let headers = [
        (CACHE_CONTROL, CacheScope::of(&caller.headers).if_still_so()),
        (ETAG, tag(state, media)?),
        (VARY, HeaderValue::from_static("accept")),
    ];
    Some((StatusCode::NOT_MODIFIED, headers).into_response())
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

/// The state that an ETag names, if that could be one of ours of this media type. Weak and strong ones compare alike
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
        assert_eq!(Kept::Of(Freshness::Immutable).state(), None);
        assert_eq!(Kept::Of(Freshness::NoStore).state(), None);
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
