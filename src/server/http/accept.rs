//! Which media type an answer is given in: what a request says of that in `Accept` (RFC 9110, section 12.5.1), as a
//! function of the header.
//!
//! An answer that is whole when it is sent is `application/graphql-response+json` or `application/json` (GraphQL over
//! HTTP, section "Media Types"); one that goes on is `text/event-stream` (GraphQL over SSE) or `multipart/mixed` of the
//! subscription protocol. A stream must be asked for by its name: `*/*` is what clients send that have not thought of
//! it.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use super::negotiation::joined;

/// How an answer is written that is whole when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseType {
    /// `application/graphql-response+json`: the status tells whether the request was executed.
    GraphqlResponse,
    /// `application/json`: the status is 200 for whatever is a GraphQL request, as clients expect that are older than
    /// the other.
    Json,
}

/// How answers are written that come one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// `text/event-stream`, as GraphQL over SSE has it.
    Events,
    /// `multipart/mixed` with `subscriptionSpec=1.0`.
    Multipart,
}

/// What a client takes, `None` for neither of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Of the ways to write a whole answer the one it values most.
    pub(crate) whole: Option<ResponseType>,
    /// The same of the ways to write a stream.
    pub(crate) stream: Option<Stream>,
}

impl ResponseType {
    /// The value of `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            ResponseType::GraphqlResponse => "application/graphql-response+json; charset=utf-8",
            ResponseType::Json => "application/json; charset=utf-8",
        }
    }
}

/// What these headers accept. Without `Accept` it is JSON, and so it is for ranges that hold both.
pub(crate) fn accepted(headers: &HeaderMap) -> Accepted {
    if !headers.contains_key(ACCEPT) {
        return Accepted { whole: Some(ResponseType::Json), stream: None };
    }
    let list = joined(headers, &ACCEPT);
    let ranges: Vec<_> = split(&list, ',').filter_map(Range::read).collect();
    let whole = [
        (ResponseType::Json, "application/json"),
        (ResponseType::GraphqlResponse, "application/graphql-response+json"),
    ];
    let stream = [(Stream::Events, "text/event-stream"), (Stream::Multipart, "multipart/mixed")];
    Accepted {
        whole: best(&ranges, &whole, |_| true),
        stream: best(&ranges, &stream, |range| !range.is_wild() && (range.is_subscription || !range.is_multipart())),
    }
}

/// Whether these headers value a page to look at above a GraphQL response, as those of a browser do when a user opens a URL.
pub(crate) fn prefers_page(headers: &HeaderMap) -> bool {
    let list = joined(headers, &ACCEPT);
    let ranges: Vec<_> = split(&list, ',').filter_map(Range::read).collect();
    let offered = [(false, "application/json"), (false, "application/graphql-response+json"), (true, "text/html")];
    best(&ranges, &offered, |_| true).unwrap_or(false)
}

/// One of the ranges of the header.
struct Range<'h> {
    name: &'h str,
    weight: f32,
    /// Whether it has the parameter that says which multipart protocol is meant; there are others.
    is_subscription: bool,
}

impl<'h> Range<'h> {
    fn read(text: &'h str) -> Option<Self> {
        let mut parts = split(text, ';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let mut range = Range { name, weight: 1.0, is_subscription: false };
        for (key, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match key.trim() {
                // what is no weight is none
                key if key.eq_ignore_ascii_case("q") => {
                    range.weight = value.parse().ok().filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.0);
                }
                key if key.eq_ignore_ascii_case("subscriptionSpec") => range.is_subscription = value == "1.0",
                _ => {}
            }
        }
        Some(range)
    }

    fn is_wild(&self) -> bool {
        self.name.ends_with("/*")
    }

    fn is_multipart(&self) -> bool {
        self.name.eq_ignore_ascii_case("multipart/mixed")
    }

    /// How closely it names a type: 3 by its name, 2 by what is before the slash, 1 with all others, 0 not at all.
    fn closeness(&self, name: &str) -> u8 {
        let kind = |text: &str| text.split('/').next().unwrap_or_default().to_ascii_lowercase();
        match self.name {
            "*/*" => 1,
            range if range.ends_with("/*") => 2 * u8::from(kind(range) == kind(name)),
            range => 3 * u8::from(range.eq_ignore_ascii_case(name)),
        }
    }
}

/// Of what is offered what the client values most; of what it values alike what it names first, and then what is
/// offered first.
fn best<T: Copy>(ranges: &[Range<'_>], offered: &[(T, &str)], fits: impl Fn(&Range<'_>) -> bool) -> Option<T> {
    let mut best: Option<(f32, usize, T)> = None;
    for &(offer, name) in offered {
        // the range that names it most closely says its weight
        let close = |(_, range): &(usize, &Range<'_>)| range.closeness(name);
        let matching = ranges.iter().enumerate().filter(|(_, range)| range.closeness(name) > 0 && fits(range));
        let Some((slot, range)) = matching.rev().max_by_key(close) else { continue };
        let better = best.is_none_or(|(weight, first, _)| {
            range.weight > weight || (range.weight.total_cmp(&weight).is_eq() && slot < first)
        });
        if range.weight > 0.0 && better {
            best = Some((range.weight, slot, offer));
        }
    }
    best.map(|(_, _, offer)| offer)
}

/// The parts between separators that are not in a quoted string.
fn split(text: &str, separator: char) -> impl DoubleEndedIterator<Item = &str> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if character == separator && !quoted => {
                parts.push(&text[start..at]);
                start = at + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::ResponseType::{GraphqlResponse, Json};
    use super::Stream::{Events, Multipart};
    use super::*;

    fn of(values: &[&str]) -> Accepted {
        let value = |value: &&str| (ACCEPT, HeaderValue::from_str(value).unwrap());
        accepted(&values.iter().map(value).collect())
    }

    #[test]
    fn a_whole_answer_is_in_the_type_that_the_client_values_most() {
        for (accept, expected) in [
            ("application/json", Some(Json)),
            ("application/graphql-response+json", Some(GraphqlResponse)),
            ("Application/GraphQL-Response+JSON; charset=utf-8", Some(GraphqlResponse)),
            ("*/*", Some(Json)),
            ("application/*", Some(Json)),
            ("application/graphql-response+json, application/json;q=0.9", Some(GraphqlResponse)),
            ("application/json;q=0.9, application/graphql-response+json", Some(GraphqlResponse)),
            ("application/graphql-response+json, application/json", Some(GraphqlResponse)),
            ("application/json, application/graphql-response+json", Some(Json)),
            ("application/json;q=0.5, */*;q=0.8", Some(GraphqlResponse)),
            ("application/json;q=0, */*", Some(GraphqlResponse)),
            ("*/*, application/json;q=0, application/graphql-response+json;q=0", None),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Some(Json)),
            ("text/html", None),
            ("text/*", None),
            ("image/png, application/json;q=0", None),
            ("application/json;q=2", None),
            ("application/json;q=much", None),
            ("text/plain;note=\"a, application/json\"", None),
            ("text/plain;note=\"a\\\", b\", application/json", Some(Json)),
            ("", None),
        ] {
            assert_eq!(of(&[accept]).whole, expected, "{accept:?}");
        }
    }

    #[test]
    fn several_headers_are_one_list_and_none_is_json() {
        assert_eq!(of(&["text/html", "application/graphql-response+json"]).whole, Some(GraphqlResponse));
        assert_eq!(of(&[]), Accepted { whole: Some(Json), stream: None });
    }

    #[test]
    fn a_browser_prefers_a_page_and_programs_do_not() {
        for (accept, expected) in [
            // Firefox, Chrome, Safari
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8", true),
            ("text/html", true),
            ("text/html, application/json", true),
            ("application/json, text/html", false),
            ("text/html;q=0.8, application/json", false),
            ("text/html;q=0.8, */*", false),
            ("text/html;q=0", false),
            ("*/*", false),
            ("application/json", false),
            ("application/graphql-response+json", false),
            ("text/event-stream", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_page(&headers), expected, "{accept:?}");
        }
        assert!(!prefers_page(&HeaderMap::new()));
    }

    #[test]
    fn a_stream_has_to_be_named() {
        for (accept, expected) in [
            ("text/event-stream", Some(Events)),
            ("text/event-stream, application/json", Some(Events)),
            ("multipart/mixed;boundary=\"graphql\";subscriptionSpec=1.0,application/json", Some(Multipart)),
            ("multipart/mixed;boundary=-;subscriptionSpec=\"1.0\"", Some(Multipart)),
            ("multipart/mixed;deferSpec=20220824,application/json", None),
            ("multipart/mixed", None),
            ("text/event-stream;q=0.5, multipart/mixed;subscriptionSpec=1.0", Some(Multipart)),
            ("text/event-stream;q=0", None),
            ("text/*", None),
            ("*/*", None),
        ] {
            assert_eq!(of(&[accept]).stream, expected, "{accept:?}");
        }
    }
}
