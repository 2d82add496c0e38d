//! From the bytes that a client sent to a GraphQL request, or what is wrong with them.
//!
//! ```text
//!   POST  {"query": …, "operationName": …, "variables": {…}, "extensions": {…}}
//!   GET   ?query=…&operationName=…&variables={…}&extensions={…}       the last two as JSON
//! ```
//!
//! What is not one of the four parameters is ignored (GraphQL over HTTP, section "Request Parameters"). Whether the
//! query is GraphQL is not asked here.

use std::fmt;

use async_graphql::{Request, Variables};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Bytes that are no GraphQL request, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("the body is not a GraphQL request: a JSON object with a query is expected ({0})")]
    Body(String),
    #[error("there is no query")]
    NoQuery,
    #[error("{parameter} must be {expected}{}", reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})")))]
    Parameter { parameter: &'static str, expected: JsonKind, reason: Option<String> },
    #[error("{0} is given twice")]
    Twice(String),
}

/// What JSON a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Text,
    Object,
}

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonKind::Text => "text",
            JsonKind::Object => "a JSON object",
        })
    }
}

/// The parameters as they are found, each the JSON text of its value.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameters<'b> {
    #[serde(borrow, default)]
    query: Option<&'b RawValue>,
    #[serde(borrow, default)]
    operation_name: Option<&'b RawValue>,
    #[serde(borrow, default)]
    variables: Option<&'b RawValue>,
    #[serde(borrow, default)]
    extensions: Option<&'b RawValue>,
}

/// The request in the body of a POST. Its query is empty if its extensions name one that the server may know.
pub(crate) fn of_body(body: &[u8]) -> Result<Request, RequestError> {
    // a list would be read, too: its items as the parameters in their order
    let not_an_object = match body.trim_ascii_start().first() {
        Some(b'{') => None,
        Some(b'[') => Some("batched requests are not supported; send one request each"),
        _ => Some("it is not an object"),
    };
    if let Some(reason) = not_an_object {
        return Err(RequestError::Body(reason.to_owned()));
    }
    let text = std::str::from_utf8(body).map_err(|error| RequestError::Body(format!("it is not UTF-8: {error}")))?;
    let given: Parameters<'_> = serde_json::from_str(text).map_err(|error| RequestError::Body(error.to_string()))?;
    let text = |name, raw: Option<&RawValue>| {
        raw.map(|raw| read::<String>(name, JsonKind::Text, raw.get())).transpose().map(Option::flatten)
    };
    let query = text("query", given.query)?;
    let name = text("operationName", given.operation_name)?;
    request(query, name, given.variables.map(RawValue::get), given.extensions.map(RawValue::get))
}

/// The same in the query string of a GET, where a parameter that is empty counts as not given: forms send those.
pub(crate) fn of_query_string(query: &str) -> Result<Request, RequestError> {
    let [mut document, mut name, mut variables, mut extensions] = [const { None }; 4];
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let parameter = match key.as_ref() {
            "query" => &mut document,
            "operationName" => &mut name,
            "variables" => &mut variables,
            "extensions" => &mut extensions,
            _ => continue,
        };
        if parameter.replace(value.into_owned()).is_some() {
            return Err(RequestError::Twice(key.into_owned()));
        }
    }
    let given = |parameter: Option<String>| parameter.filter(|text| !text.is_empty());
    let (variables, extensions) = (given(variables), given(extensions));
    request(given(document), given(name), variables.as_deref(), extensions.as_deref())
}

fn request(
    query: Option<String>,
    operation_name: Option<String>,
    variables: Option<&str>,
    extensions: Option<&str>,
) -> Result<Request, RequestError> {
    let variables = variables.map(|text| read::<Variables>("variables", JsonKind::Object, text)).transpose()?.flatten();
    let extensions = extensions.map(|text| read("extensions", JsonKind::Object, text)).transpose()?.flatten();
    let mut request = Request::new(query.unwrap_or_default());
    request.operation_name = operation_name;
    request.variables = variables.unwrap_or_default();
    request.extensions = extensions.unwrap_or_default();
    if request.query.is_empty() && !request.extensions.contains_key(crate::execution::document::persisted::EXTENSION) {
        return Err(RequestError::NoQuery);
    }
    Ok(request)
}

/// A parameter's value, `None` for null.
fn read<T: DeserializeOwned>(
    parameter: &'static str,
    expected: JsonKind,
    json: &str,
) -> Result<Option<T>, RequestError> {
    let wrong = |reason| RequestError::Parameter { parameter, expected, reason };
    match (expected, json.trim_start().bytes().next()) {
        // or null
        (JsonKind::Text, Some(b'"' | b'n')) | (JsonKind::Object, Some(b'{' | b'n')) => {}
        _ => return Err(wrong(None)),
    }
    serde_json::from_str(json).map_err(|error| wrong(Some(error.to_string())))
}

/// Whether the body is JSON in UTF-8, which is the only encoding that JSON has between systems (RFC 8259, section 8.1).
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/json"));
    let is_utf8 = |charset: &str| ["utf-8", "utf8"].iter().any(|utf8| charset.eq_ignore_ascii_case(utf8));
    is_json
        && parts.filter_map(|parameter| parameter.split_once('=')).all(|(name, value)| {
            !name.trim().eq_ignore_ascii_case("charset") || is_utf8(value.trim().trim_matches('"'))
        })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// Query, operation name, and variables and extensions as JSON.
    fn parts(request: &Request) -> (&str, Option<&str>, String, String) {
        let json = |value| serde_json::to_string(&value).unwrap();
        let (variables, extensions) =
            (serde_json::to_value(&request.variables), serde_json::to_value(&request.extensions));
        (&request.query, request.operation_name.as_deref(), json(variables.unwrap()), json(extensions.unwrap()))
    }

    #[test]
    fn the_four_parameters_are_read_and_others_ignored() {
        let body = br#" {"query": "{ a\u0041 }", "operationName": "B", "variables": {"c": [1, null]},
            "extensions": {"d": {"e": true}}, "id": 7}"#;
        let request = of_body(body).unwrap();
        let expected = ("{ aA }", Some("B"), r#"{"c":[1,null]}"#.to_owned(), r#"{"d":{"e":true}}"#.to_owned());
        assert_eq!(parts(&request), expected);
        let encoded = "query=%7B+aA%20%7D&operationName=B&variables=%7B%22c%22%3A[1,null]%7D\
            &extensions=%7B%22d%22%3A%7B%22e%22%3Atrue%7D%7D&id=7";
        assert_eq!(parts(&of_query_string(encoded).unwrap()), expected);
    }

    #[test]
    fn null_and_absent_are_the_same() {
        let expected = ("{ a }", None, "{}".to_owned(), "{}".to_owned());
        for body in [
            r#"{"query": "{ a }"}"#,
            r#"{"query": "{ a }", "operationName": null, "variables": null, "extensions": null}"#,
        ] {
            assert_eq!(parts(&of_body(body.as_bytes()).unwrap()), expected, "{body}");
        }
        for query in ["query={+a+}", "query={+a+}&operationName=&variables=&extensions=", "query={+a+}&variables=null"]
        {
            assert_eq!(parts(&of_query_string(query).unwrap()), expected, "{query}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, reason) in [
            ("", "it is not an object"),
            ("1", "the body is not a GraphQL request"),
            ("[]", "batched requests are not supported; send one request each"),
            (r#"["{ a }"]"#, "batched requests are not supported; send one request each"),
            ("{", "EOF"),
            (r#"{"query": "{ a }"} x"#, "trailing"),
            (r#"{"query": "{ a }", "query": "{ b }"}"#, "duplicate field `query`"),
            ("{}", "there is no query"),
            (r#"{"query": null}"#, "there is no query"),
            (r#"{"query": ""}"#, "there is no query"),
            (r#"{"query": 1}"#, "query must be text"),
            (r#"{"query": ["a"]}"#, "query must be text"),
            (r#"{"query": "{ a }", "operationName": {}}"#, "operationName must be text"),
            (r#"{"query": "{ a }", "variables": "{}"}"#, "variables must be a JSON object"),
            (r#"{"query": "{ a }", "variables": []}"#, "variables must be a JSON object"),
            (r#"{"query": "{ a }", "extensions": false}"#, "extensions must be a JSON object"),
        ] {
            let found = of_body(body.as_bytes()).map(|_| ()).unwrap_err().to_string();
            assert!(found.contains(reason), "{body}: {found}");
        }
        assert!(of_body(b"{\"query\": \"\xff\"}").is_err_and(|error| error.to_string().contains("not UTF-8")));
        for (query, reason) in [
            ("", "there is no query"),
            ("query=", "there is no query"),
            ("query=a&query=b", "query is given twice"),
            ("query=a&variables=[]", "variables must be a JSON object"),
            ("query=a&variables={", "variables must be a JSON object (EOF"),
            ("query=a&extensions=1", "extensions must be a JSON object"),
        ] {
            let found = of_query_string(query).map(|_| ()).unwrap_err().to_string();
            assert!(found.contains(reason), "{query}: {found}");
        }
    }

    #[test]
    fn values_that_nest_too_deep_are_refused() {
        for parameter in ["variables", "extensions"] {
            let deep = format!("{{\"a\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
            assert!(of_body(format!("{{\"query\": \"a\", \"{parameter}\": {deep}}}").as_bytes()).is_err());
            assert!(of_query_string(&format!("query=a&{parameter}={deep}")).is_err());
        }
    }

    #[test]
    fn a_query_need_not_be_there_if_the_server_may_know_it() {
        assert_eq!(of_body(br#"{"extensions": {"persistedQuery": {}}}"#).unwrap().query, "");
    }

    #[test]
    fn only_json_in_utf_8_is_read() {
        for (content_type, expected) in [
            ("application/json", true),
            ("Application/JSON ; Charset=\"UTF-8\"", true),
            ("application/json; charset=utf-8; x=y", true),
            ("application/json; charset=utf-16", false),
            ("application/jsonp", false),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("multipart/form-data; boundary=application/json", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
            assert_eq!(is_json(&headers), expected, "{content_type}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
