//! How cacheable a field is, and what that makes an answer depend on.

use async_graphql::Value;

use crate::view::Dependency;

/// How cacheable a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cacheability {
    /// Its value for an object deep in the main chain never changes.
    Immutable,
    /// It looks objects up: one that was found stays found.
    ImmutableIfFound,
    /// It depends on its arguments, and its resolver notes on what.
    ByArgument,
    /// It depends on the main chain up to the tip, and on nothing else.
    UntilNextTip,
    /// It depends on the mempool, on stale blocks, or on when they were seen.
    UntilNextHead,
    /// It depends on something without a version: the node, the clock, this server.
    Never,
}

impl Cacheability {
    /// What an answer depends on in which the field has this value; `None` is null.
    pub(crate) fn dependency(self, value: Option<&Value>) -> Dependency {
        match self {
            Self::Immutable | Self::ByArgument => Dependency::Object,
            Self::ImmutableIfFound if value.is_some_and(is_all_there) => Dependency::Object,
            Self::UntilNextTip => Dependency::Chain,
            // an object that is missing may arrive in the mempool, or become stale
            Self::ImmutableIfFound | Self::UntilNextHead => Dependency::Head,
            Self::Never => Dependency::External,
        }
    }
}

/// Whether nothing that was looked for is missing.
fn is_all_there(found: &Value) -> bool {
    match found {
        Value::Null => false,
        Value::List(items) => !items.contains(&Value::Null),
        _ => true,
    }
}
