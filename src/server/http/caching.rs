//! How long an answer may be kept, as HTTP tells it (RFC 9111), and whether what a client kept is still the answer
//! (RFC 9110, section 13).
//!
//! ```text
//!   Lasting::ForEver      Cache-Control: public, max-age=31536000, immutable
//!   Lasting::WhileTip     Cache-Control: public, no-cache    ETag: W/"t.<tip>.<media>"
//!   Lasting::WhileHead    Cache-Control: public, no-cache    ETag: W/"h.<tip>.<mark of the Head>.<media>"
//!   Lasting::AMoment      Cache-Control: no-store            so are mutations, streams, and whatever has an error
//! ```
//!
//! An ETag says by itself what it depends on. So a client that brings one back (`If-None-Match`) is told 304 without that
//! anything is executed: the same question of the same state has the same answer. The ETags are weak, because an answer is
//! compressed or not.

use async_graphql::Response as GraphqlResponse;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::accept::Whole;
use crate::api::{Lasting, Schema};

/// Who may keep an answer: whoever passes it on, or only the one who asked with a name or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    Anyone,
    Asker,
}

impl Keeper {
    pub(super) fn of(headers: &HeaderMap) -> Self {
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

/// Says in an answer how long it may be kept, if it is one to keep: whole, without errors, and not about this one
/// execution. What it says until then is that it may not.
pub(super) fn tell(
    answer: &mut Response,
    response: &GraphqlResponse,
    lasting: Lasting,
    (media, keeper): (Whole, Keeper),
) {
    let is_plain = response.errors.is_empty() && response.extensions.is_empty() && answer.status() == StatusCode::OK;
    if !is_plain {
        return;
    }
    match lasting {
        Lasting::ForEver => {
            answer.headers_mut().insert(CACHE_CONTROL, keeper.for_a_year());
        }
        Lasting::WhileTip(_) | Lasting::WhileHead(..) => {
            if let Some(tag) = tag(lasting, media) {
                answer.headers_mut().insert(CACHE_CONTROL, keeper.if_still_so());
                answer.headers_mut().insert(ETAG, tag);
            }
        }
        Lasting::AMoment => {}
    }
}

/// 304, if what the client says it has is still the answer.
pub(super) fn unchanged(schema: &Schema, caller: &Parts, media: Whole) -> Option<Response> {
    // for other methods it is a condition to do something at all
    if !matches!(caller.method, Method::GET | Method::HEAD) {
        return None;
    }
    let given = caller.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut kept = given.flat_map(|list| list.split(',')).filter_map(|tag| read(tag.trim(), media));
    let lasting = kept.find(|lasting| schema.is_current(lasting))?;
    let headers = [
        (CACHE_CONTROL, Keeper::of(&caller.headers).if_still_so()),
        (ETAG, tag(lasting, media)?),
        (VARY, HeaderValue::from_static("accept")),
    ];
    Some((StatusCode::NOT_MODIFIED, headers).into_response())
}

fn letter(media: Whole) -> &'static str {
    match media {
        Whole::GraphqlResponse => "g",
        Whole::Json => "j",
    }
}

/// `None` for what has no state that an ETag could name.
fn tag(lasting: Lasting, media: Whole) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("W/\"{}.{}\"", lasting.state()?, letter(media))).ok()
}

/// What an ETag of ours says; `None` for others, and for those of another media type. Weak and strong ones compare alike
/// (RFC 9110, section 13.1.2).
fn read(tag: &str, media: Whole) -> Option<Lasting> {
    let tag = tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"')?.strip_suffix('"')?;
    let (state, of_media) = tag.rsplit_once('.')?;
    Lasting::with_state(state).filter(|_| of_media == letter(media))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Whole; 2] = [Whole::Json, Whole::GraphqlResponse];

    #[test]
    fn an_etag_is_read_as_what_it_was_written_for_and_in_no_other_media_type() {
        let hash = "07".repeat(32);
        for state in [format!("t.{hash}"), format!("h.{hash}.00000000000000ff")] {
            let lasting = Lasting::with_state(&state).unwrap();
            for media in BOTH {
                let tag = tag(lasting, media).unwrap();
                let text = tag.to_str().unwrap();
                for other in BOTH {
                    assert_eq!(read(text, other), (other == media).then_some(lasting), "{text}");
                }
                // a proxy may take it for a strong one
                assert_eq!(read(text.strip_prefix("W/").unwrap(), media), Some(lasting));
            }
        }
        assert_eq!((tag(Lasting::ForEver, Whole::Json), tag(Lasting::AMoment, Whole::Json)), (None, None));
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
            assert_eq!(read(&text, Whole::Json), None, "{text}");
        }
    }
}
