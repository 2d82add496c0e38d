//! The engine, with a shorter way through the fields of an object.
//!
//! The engine puts every field into a boxed future of its own and looks its type up in the registry, which for fields that only
//! copy a value is most of their time. A file with
//!
//! ```text
//! use crate::api::engine as async_graphql;
//! ```
//!
//! lets the macros of the engine, which write `async_graphql::…`, find [`container::resolve_container`] in the place of the
//! engine's. All else is the engine's own. Worth it for the objects that are many in one answer, and [`List`] for long lists.

mod container;
mod list;

pub(crate) use async_graphql::*;
pub(crate) use list::List;

/// The engine's, but for how the fields of an object are resolved.
pub(crate) mod resolver_utils {
    pub(crate) use async_graphql::resolver_utils::*;

    pub(crate) use super::container::resolve_container;
}
