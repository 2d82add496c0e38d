//! From the text of a request to a document that may be executed.

pub(crate) mod cache;
pub mod guard;
pub(crate) mod introspection;
pub(crate) mod persisted;
pub(crate) mod unknown_fields;
pub(crate) mod weight;
