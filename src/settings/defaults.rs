//! The defaults file, which is compiled in.

use std::sync::LazyLock;

use super::limits;

static DEFAULTS: LazyLock<String> = LazyLock::new(|| limits::document(include_str!("defaults.toml")));

/// The defaults file: every setting with its default and its meaning.
#[must_use]
pub fn defaults() -> &'static str {
    &DEFAULTS
}
