//! Why the tip of a world changes.

/// The reason of a change of the tip.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TipChangeCause {
    /// A branch became the longest valid one.
    Growth,
    /// A block of the active chain was invalidated.
    Invalidation,
}
