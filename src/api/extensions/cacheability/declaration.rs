//! What a type of the schema declares of its fields.

use super::mark::Cacheability;

/// How cacheable the fields of a type are: the names in the schema of those that are alike, separated by spaces. A field that is
/// in none is never cached, and a test refuses it.
pub(crate) trait FieldCacheability {
    /// Those that are [`Cacheability::Immutable`].
    const IMMUTABLE: &'static str = "";
    /// Those that are [`Cacheability::ImmutableIfFound`].
    const IMMUTABLE_IF_FOUND: &'static str = "";
    /// Those that are [`Cacheability::ByArgument`].
    const BY_ARGUMENT: &'static str = "";
    /// Those that are [`Cacheability::UntilNextTip`].
    const UNTIL_NEXT_TIP: &'static str = "";
    /// Those that are [`Cacheability::UntilNextHead`].
    const UNTIL_NEXT_HEAD: &'static str = "";
    /// Those that are [`Cacheability::Never`].
    const NEVER: &'static str = "";
}

/// What a type declares, by cacheability.
pub(super) fn declared<T: FieldCacheability>() -> [(Cacheability, &'static str); 6] {
    [
        (Cacheability::Immutable, T::IMMUTABLE),
        (Cacheability::ImmutableIfFound, T::IMMUTABLE_IF_FOUND),
        (Cacheability::ByArgument, T::BY_ARGUMENT),
        (Cacheability::UntilNextTip, T::UNTIL_NEXT_TIP),
        (Cacheability::UntilNextHead, T::UNTIL_NEXT_HEAD),
        (Cacheability::Never, T::NEVER),
    ]
}
