//! The media type of an answer: what a request accepts (RFC 9110, section 12.5.1), as a function of `Accept`.
//!
//! An answer that is whole when it is sent is `application/graphql-response+json` or `application/json` (GraphQL over
//! HTTP, section "Media Types"); a stream is `text/event-stream` (GraphQL over SSE) or `multipart/mixed` of the
//! subscription protocol. A stream must be requested by its name: clients that know none send `*/*`.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use super::negotiation::{Preference, joined, preferences};

/// The media type of an answer that is whole when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseType {
    /// `application/graphql-response+json`: the status says whether the request was executed.
    GraphqlResponse,
    /// `application/json`: the status is 200 for every GraphQL request, as older clients expect.
    Json,
}

/// The media type of a stream of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamType {
    /// `text/event-stream`, by GraphQL over SSE.
    Events,
    /// `multipart/mixed` with `subscriptionSpec=1.0`.
    Multipart,
}

/// The media types that a client accepts, `None` for none of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptedTypes {
    /// For a whole answer.
    pub(crate) whole: Option<ResponseType>,
    /// For a stream.
    pub(crate) stream: Option<StreamType>,
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

impl AcceptedTypes {
    /// The type of errors for a client that may accept nothing but a stream.
    pub(crate) fn of_errors(self) -> ResponseType {
        self.whole.unwrap_or(ResponseType::Json)
    }
}

/// The preferred types. Without `Accept`, and for ranges that include both, it is JSON.
pub(crate) fn accepted(headers: &HeaderMap) -> AcceptedTypes {
    if !headers.contains_key(ACCEPT) {
        return AcceptedTypes { whole: Some(ResponseType::Json), stream: None };
    }
    let list = joined(headers, &ACCEPT);
    let ranges = preferences(&list);
    let whole = [
        (ResponseType::Json, "application/json"),
        (ResponseType::GraphqlResponse, "application/graphql-response+json"),
    ];
    let stream = [(StreamType::Events, "text/event-stream"), (StreamType::Multipart, "multipart/mixed")];
    AcceptedTypes {
        whole: best(&ranges, &whole, |_| true),
        stream: best(&ranges, &stream, |range| {
            !range.name.ends_with("/*")
                && (is_subscription(range) || !range.name.eq_ignore_ascii_case("multipart/mixed"))
        }),
    }
}

/// Whether a page is preferred to a GraphQL response, as by a browser in which a user opens a URL.
pub(crate) fn prefers_page(headers: &HeaderMap) -> bool {
    let list = joined(headers, &ACCEPT);
    let types = [(false, "application/json"), (false, "application/graphql-response+json"), (true, "text/html")];
    best(&preferences(&list), &types, |_| true).unwrap_or(false)
}

/// Whether a range has the parameter of the subscription protocol; there are other multipart protocols.
fn is_subscription(range: &Preference<'_>) -> bool {
    let mut parameters = range.parameters.iter().rev();
    parameters.find(|(key, _)| key.eq_ignore_ascii_case("subscriptionSpec")).is_some_and(|(_, value)| *value == "1.0")
}

/// How closely a range names a type: 3 by its name, 2 by what precedes the slash, 1 with all others, 0 not at all.
fn closeness(range: &Preference<'_>, name: &str) -> u8 {
    let kind = |text: &str| text.split('/').next().unwrap_or_default().to_ascii_lowercase();
    match range.name {
        "*/*" => 1,
        range if range.ends_with("/*") => 2 * u8::from(kind(range) == kind(name)),
        range => 3 * u8::from(range.eq_ignore_ascii_case(name)),
    }
}

/// The type with the highest weight; of equals the one that the client names first, and then the first of `types`.
fn best<T: Copy>(ranges: &[Preference<'_>], types: &[(T, &str)], fits: impl Fn(&Preference<'_>) -> bool) -> Option<T> {
    let mut best: Option<(f32, usize, T)> = None;
    for &(value, name) in types {
        // the range that names a type most closely has its weight
        let matching = ranges.iter().enumerate().filter(|(_, range)| closeness(range, name) > 0 && fits(range));
        let Some((place, range)) = matching.rev().max_by_key(|(_, range)| closeness(range, name)) else { continue };
        let better = best.is_none_or(|(weight, first, _)| {
            range.weight > weight || (range.weight.total_cmp(&weight).is_eq() && place < first)
        });
        if range.weight > 0.0 && better {
            best = Some((range.weight, place, value));
        }
    }
    best.map(|(_, _, value)| value)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::ResponseType::{GraphqlResponse, Json};
    use super::StreamType::{Events, Multipart};
    use super::*;

    fn of(values: &[&str]) -> AcceptedTypes {
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
        assert_eq!(of(&[]), AcceptedTypes { whole: Some(Json), stream: None });
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
