//! The list of allowed operations: with it a server executes no document but those of its operator.
//!
//! Two files are read as their tools write them: the manifest of Apollo's `generate-persisted-query-manifest`, and the object of
//! documents by their hashes that GraphQL Code Generator and the Relay compiler write.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use tracing::warn;

use super::guard;
use super::unknown_fields::Types;
use crate::execution::sha256::Sha256Hash;
use crate::limits::Limits;

/// Documents by their SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOperations(Arc<HashMap<Sha256Hash, Arc<str>>>);

/// A file that is no list of operations.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOperations {
    /// It cannot be read.
    #[error("cannot read {path}: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It has another form.
    #[error(
        "{path} is neither a manifest of persisted queries of Apollo nor a JSON object of documents by their SHA-256: {reason}",
        path = path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where it differs.
        reason: String,
    },
}

/// The forms of the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Apollo { format: String, version: u64, operations: Vec<ManifestOperation> },
    ByHash(HashMap<String, String>),
}

#[derive(Deserialize)]
struct ManifestOperation {
    id: String,
    body: String,
}

impl AllowedOperations {
    /// Reads a file. Errors: it cannot be read, has another form, or names a document by what is not its SHA-256.
    pub fn read(path: &Path) -> Result<Self, InvalidOperations> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| InvalidOperations::Unreadable { path: path.to_owned(), error })?;
        Self::parse(&text).map_err(|reason| InvalidOperations::Malformed { path: path.to_owned(), reason })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let operations = match serde_json::from_str(text).map_err(|error| error.to_string())? {
            File::Apollo { format, version, operations } => {
                if (format.as_str(), version) != ("apollo-persisted-query-manifest", 1) {
                    return Err(format!("its format is {format:?}, version {version}"));
                }
                operations.into_iter().map(|operation| (operation.id, operation.body)).collect()
            }
            File::ByHash(operations) => operations,
        };
        let checked = operations.into_iter().map(|(id, body)| match id.parse() {
            Ok(hash) if Sha256Hash::of(&body) == hash => Ok((hash, body.into())),
            _ => Err(format!("{id:?} is not the SHA-256 of its document, which is {}", Sha256Hash::of(&body))),
        });
        checked.collect::<Result<_, _>>().map(|operations| Self(Arc::new(operations)))
    }

    /// The number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none, so that no request is executed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The documents that a server with these limits would refuse, or whose fields its schema does not have, with the reason.
    fn refused(&self, limits: &Limits) -> impl Iterator<Item = (&Sha256Hash, String)> {
        self.0.iter().filter_map(|(hash, document)| {
            let reason = match guard::admit(document, limits) {
                Ok(document) => Types::served().first_unknown(&document)?,
                Err(refusal) => refusal.to_string(),
            };
            Some((hash, reason))
        })
    }

    /// Logs a warning for each document that is allowed and cannot be executed.
    pub(crate) fn warn_of_refused(&self, limits: &Limits) {
        for (hash, reason) in self.refused(limits) {
            warn!(%hash, reason, "an operation of server.allowed_operations is refused whenever it is requested");
        }
    }

    /// The document with this hash.
    pub(crate) fn get(&self, hash: &Sha256Hash) -> Option<&Arc<str>> {
        self.0.get(hash)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_of_the_file_have_the_same_documents() {
        let body = "{ tip { height } }";
        let id = Sha256Hash::of(body);
        let operation = json!({ "id": id.to_string(), "name": "Tip", "type": "query", "body": body });
        let apollo = json!({ "format": "apollo-persisted-query-manifest", "version": 1, "operations": [operation] });
        let by_hash = json!({ id.to_string(): body });
        for file in [apollo, by_hash] {
            let read = AllowedOperations::parse(&file.to_string()).unwrap();
            assert_eq!((read.len(), read.get(&id).map(AsRef::as_ref)), (1, Some(body)));
        }
        assert!(AllowedOperations::parse("{}").unwrap().is_empty());
    }

    #[test]
    fn documents_that_cannot_be_executed_are_found_with_the_reason() {
        let deep = "{ tip ".repeat(500);
        let documents = ["{ tip { height } }", "{ tip { heigth } }", "{ tip {", &deep];
        let by_hash: serde_json::Map<_, _> =
            documents.iter().map(|body| (Sha256Hash::of(body).to_string(), json!(body))).collect();
        let read = AllowedOperations::parse(&json!(by_hash).to_string()).unwrap();
        let refused: HashMap<_, _> = read.refused(&Limits::default()).collect();
        assert_eq!(refused.len(), 3, "{refused:?}");
        assert_eq!(refused[&Sha256Hash::of("{ tip { heigth } }")], "the type Block has no field heigth");
        assert!(refused[&Sha256Hash::of(&deep)].starts_with("a request has at most "), "{refused:?}");
    }

    #[test]
    fn what_is_no_list_of_documents_is_refused_with_the_reason() {
        let wrong = json!({ "00".repeat(32): "{ tip { height } }" }).to_string();
        for (file, reason) in [
            ("", "EOF while parsing"),
            ("[]", "did not match any variant"),
            (r#"{ "format": "other", "version": 1, "operations": [] }"#, "its format is \"other\", version 1"),
            (wrong.as_str(), "is not the SHA-256 of its document, which is "),
        ] {
            let found = AllowedOperations::parse(file).unwrap_err();
            assert!(found.contains(reason), "{file}: {found}");
        }
    }
}
