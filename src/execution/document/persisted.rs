//! Automatic persisted queries: a client names a query by its hash, and sends it only to a server that does not know it
//! yet (the protocol of Apollo Server and Client, version 1).
//!
//! ```text
//!   hash          ──► known: executed         unknown: PERSISTED_QUERY_NOT_FOUND, the client sends both
//!   hash and text ──► executed; kept if it was: what is refused or does not fit the schema is not
//! ```
//!
//! With a list of allowed operations nothing is stored: a hash or a text that is not in the list is refused.
//!
//! What is kept is bounded by bytes; of what is used least, the oldest is removed first.

use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Request, ServerError, Value};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::api::{ApiError, code, shown_value};
use crate::execution::document::allowed::AllowedOperations;
use crate::execution::error::error;
use crate::execution::sha256::Sha256Hash;

/// The name of the request extension.
pub(crate) const EXTENSION: &str = "persistedQuery";
/// The name of its field with the SHA-256 of the query.
const HASH: &str = "sha256Hash";

/// The bytes of a stored query beside its text, about.
const OVERHEAD: u64 = 150;
/// The bytes of a typical query.
const TYPICAL: u64 = 1_000;

/// Queries by their hashes.
pub(crate) struct Persisted {
    /// `None` if none are stored.
    known: Option<Cache<Sha256Hash, Arc<str>, QueryBytes>>,
    /// The only ones that are executed; `None` for any.
    allowed: Option<AllowedOperations>,
}

#[derive(Clone)]
struct QueryBytes;

impl Weighter<Sha256Hash, Arc<str>> for QueryBytes {
    fn weight(&self, _: &Sha256Hash, text: &Arc<str>) -> u64 {
        u64::try_from(text.len()).unwrap_or(u64::MAX).saturating_add(OVERHEAD)
    }
}

/// A query that its client sent together with its hash, which is correct.
#[derive(Debug)]
pub(crate) struct UnstoredQuery {
    hash: Sha256Hash,
    text: Arc<str>,
}

impl Persisted {
    /// Stores up to so many bytes of queries; none if that is 0, or if a list says which are allowed.
    pub(crate) fn new(bytes: usize, allowed: Option<AllowedOperations>) -> Self {
        let bytes = if allowed.is_some() { 0 } else { u64::try_from(bytes).unwrap_or(u64::MAX) };
        let typical = usize::try_from(bytes / (TYPICAL + OVERHEAD)).unwrap_or(usize::MAX).max(1);
        Self { known: (bytes > 0).then(|| Cache::with_weighter(typical, bytes, QueryBytes)), allowed }
    }

    /// The request with its query, and the query to store once it is executed.
    ///
    /// Errors: PERSISTED_QUERY_NOT_FOUND, PERSISTED_QUERY_NOT_SUPPORTED, BAD_USER_INPUT, FORBIDDEN. The messages of the first
    /// two are those by which older clients recognise them.
    pub(crate) fn resolve(&self, mut request: Request) -> Result<(Request, Option<UnstoredQuery>), ServerError> {
        let asked = request.extensions.get(EXTENSION).filter(|asked| **asked != Value::Null);
        let hash = asked.map(read).transpose()?;
        if let Some(allowed) = &self.allowed {
            return only_allowed(allowed, request, hash).map(|request| (request, None));
        }
        let Some(hash) = hash else { return Ok((request, None)) };
        let Some(known) = &self.known else {
            // a client that sends the query needs no store
            return if request.query.is_empty() {
                Err(error(code::PERSISTED_QUERY_NOT_SUPPORTED, "PersistedQueryNotSupported"))
            } else {
                Ok((request, None))
            };
        };
        if request.query.is_empty() {
            request.query = known.get(&hash).ok_or_else(not_found)?.to_string();
            return Ok((request, None));
        }
        if Sha256Hash::of(&request.query) != hash {
            let fault = format!("is {hash}, which is not the SHA-256 of the query");
            return Err(ApiError::bad_argument(format!("{EXTENSION}.{HASH}"), fault).into());
        }
        let named = UnstoredQuery { hash, text: request.query.as_str().into() };
        Ok((request, Some(named)))
    }

    /// These answers to a query, which is stored with the first of them that is a result.
    pub(crate) fn store_after_result<T: Send + 'static>(
        self: &Arc<Self>,
        named: Option<UnstoredQuery>,
        answers: BoxStream<'static, T>,
        is_result: impl Fn(&T) -> bool + Send + 'static,
    ) -> BoxStream<'static, T> {
        let Some(named) = named else { return answers };
        let (persisted, mut named) = (self.clone(), Some(named));
        let keep = move |answer: &T| {
            if is_result(answer)
                && let Some(named) = named.take()
            {
                persisted.store(named);
            }
        };
        answers.inspect(keep).boxed()
    }

    /// Stores a query that is executed.
    pub(crate) fn store(&self, UnstoredQuery { hash, text }: UnstoredQuery) {
        if let Some(known) = &self.known {
            known.insert(hash, text);
        }
    }
}

fn not_found() -> ServerError {
    error(code::PERSISTED_QUERY_NOT_FOUND, "PersistedQueryNotFound")
}

/// The request with its query, if that is in the list. Errors: PERSISTED_QUERY_NOT_FOUND, FORBIDDEN.
fn only_allowed(
    allowed: &AllowedOperations,
    mut request: Request,
    hash: Option<Sha256Hash>,
) -> Result<Request, ServerError> {
    if let (true, Some(hash)) = (request.query.is_empty(), hash) {
        request.query = allowed.get(&hash).ok_or_else(not_found)?.to_string();
        return Ok(request);
    }
    let hash = Sha256Hash::of(&request.query);
    if allowed.get(&hash).is_none() {
        let message =
            format!("this server executes only listed operations, and the document with the SHA-256 {hash} is none");
        return Err(error(code::FORBIDDEN, message));
    }
    Ok(request)
}

/// The hash that the extension names. Errors: BAD_USER_INPUT.
fn read(asked: &Value) -> Result<Sha256Hash, ServerError> {
    let Value::Object(asked) = asked else {
        let fault = format!("is {}, and it must be an object with version and {HASH}", shown_value(asked));
        return Err(ApiError::bad_argument(EXTENSION, fault).into());
    };
    let must_be = |name: &str, rule: &str| {
        let given = asked.get(name).map_or_else(|| "missing".to_owned(), shown_value);
        ServerError::from(ApiError::bad_argument(
            format!("{EXTENSION}.{name}"),
            format!("is {given}, and it must be {rule}"),
        ))
    };
    if !matches!(asked.get("version"), Some(Value::Number(version)) if version.as_u64() == Some(1)) {
        return Err(must_be("version", "1"));
    }
    let hash = if let Some(Value::String(hash)) = asked.get(HASH) { hash.parse().ok() } else { None };
    hash.ok_or_else(|| must_be(HASH, "a string of 64 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash_of(query: &str) -> String {
        Sha256Hash::of(query).to_string()
    }

    fn request(query: &str, extension: &serde_json::Value) -> Request {
        let mut request = Request::new(query);
        request.extensions.insert(EXTENSION.to_owned(), Value::from_json(extension.clone()).unwrap());
        request
    }

    fn asking(query: &str, hash: &str) -> Request {
        request(query, &json!({ "version": 1, "sha256Hash": hash }))
    }

    fn code_of(error: &ServerError) -> String {
        error.extensions.as_ref().unwrap().get("code").unwrap().to_string()
    }

    #[test]
    fn a_query_is_known_by_its_hash_once_it_was_kept() {
        let persisted = Persisted::new(10_000, None);
        let hash = hash_of("{ a }");
        let unknown = persisted.resolve(asking("", &hash)).unwrap_err();
        assert_eq!(
            (code_of(&unknown).as_str(), unknown.message.as_str()),
            ("\"PERSISTED_QUERY_NOT_FOUND\"", "PersistedQueryNotFound")
        );
        let (given, named) = persisted.resolve(asking("{ a }", &hash)).unwrap();
        assert_eq!(given.query, "{ a }");
        assert!(persisted.resolve(asking("", &hash)).is_err(), "it was not executed yet");
        persisted.store(named.unwrap());
        for hash in [hash.clone(), hash.to_uppercase()] {
            let (known, named) = persisted.resolve(asking("", &hash)).unwrap();
            assert_eq!(known.query, "{ a }");
            assert!(named.is_none());
        }
    }

    #[test]
    fn a_wrong_hash_or_an_extension_of_another_shape_is_bad_input() {
        let persisted = Persisted::new(10_000, None);
        let hash = hash_of("{ a }");
        for extension in [
            json!({ "version": 1, "sha256Hash": hash_of("{ b }") }),
            json!({ "version": 2, "sha256Hash": hash }),
            json!({ "version": "1", "sha256Hash": hash }),
            json!({ "sha256Hash": hash }),
            json!({ "version": 1 }),
            json!({ "version": 1, "sha256Hash": &hash[1..] }),
            json!({ "version": 1, "sha256Hash": format!("{}é", &hash[2..]) }),
            json!({ "version": 1, "sha256Hash": 7 }),
            json!("no"),
        ] {
            let error = persisted.resolve(request("{ a }", &extension)).unwrap_err();
            assert_eq!(code_of(&error), "\"BAD_USER_INPUT\"", "{extension}");
        }
    }

    #[test]
    fn requests_that_name_no_hash_are_left_alone() {
        let persisted = Persisted::new(10_000, None);
        for asked in [Request::new("{ a }"), request("{ a }", &json!(null))] {
            let (request, named) = persisted.resolve(asked).unwrap();
            assert_eq!(request.query, "{ a }");
            assert!(named.is_none());
        }
    }

    #[test]
    fn a_server_that_keeps_none_executes_what_it_is_sent_and_says_so_of_the_rest() {
        let persisted = Persisted::new(0, None);
        let hash = hash_of("{ a }");
        let (request, named) = persisted.resolve(asking("{ a }", &hash)).unwrap();
        assert_eq!(request.query, "{ a }");
        assert!(named.is_none());
        let error = persisted.resolve(asking("", &hash)).unwrap_err();
        assert_eq!(code_of(&error), "\"PERSISTED_QUERY_NOT_SUPPORTED\"");
    }

    #[test]
    fn what_is_kept_stays_within_its_bytes() {
        let persisted = Persisted::new(20_000, None);
        for number in 0..1_000 {
            let query = format!("{{ field{number} }}");
            let (_, named) = persisted.resolve(asking(&query, &hash_of(&query))).unwrap();
            persisted.store(named.unwrap());
        }
        let known = persisted.known.unwrap();
        assert!(known.weight() <= 20_000);
        assert!(!known.is_empty());
    }

    #[test]
    fn with_a_list_nothing_else_is_executed_or_stored() {
        let (listed, other) = ("{ tip { height } }", "{ tip { hash } }");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json!({ hash_of(listed): listed }).to_string()).unwrap();
        let persisted = Persisted::new(1 << 20, Some(AllowedOperations::read(file.path()).unwrap()));
        for request in [Request::new(listed), asking("", &hash_of(listed)), asking(listed, &hash_of(listed))] {
            let (resolved, unstored) = persisted.resolve(request).unwrap();
            assert_eq!((resolved.query.as_str(), unstored.is_none()), (listed, true));
        }
        for (request, code) in [
            (Request::new(other), "FORBIDDEN"),
            (Request::new(""), "FORBIDDEN"),
            (asking(other, &hash_of(other)), "FORBIDDEN"),
            // the hash is that of the text, whatever the client says
            (asking(other, &hash_of(listed)), "FORBIDDEN"),
            (asking("", &hash_of(other)), "PERSISTED_QUERY_NOT_FOUND"),
        ] {
            assert_eq!(code_of(&persisted.resolve(request).unwrap_err()), format!("{code:?}"));
        }
    }
}
