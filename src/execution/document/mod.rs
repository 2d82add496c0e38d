//! From the text of a request to an admitted document.
//!
//! ```text
//!   request ──► persisted.rs ──► admission.rs ──► cache.rs ──► guard.rs, unknown_fields.rs ──► Admitted
//!               query by hash    values, client   parsed once  bounds on what it may be        or a Refusal
//! ```

pub(crate) mod admission;
pub(crate) mod allowed;
pub(crate) mod cache;
pub mod guard;
pub(crate) mod introspection;
pub(crate) mod persisted;
pub(crate) mod refusal;
pub(crate) mod request_key;
pub(crate) mod unknown_fields;
pub(crate) mod weight;
