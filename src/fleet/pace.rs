//! How many blocks of an object are requested at a time while it is filled.

/// How an object is filled.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Blocks of a request.
    pub(super) blocks: usize,
    /// Requests at the same time.
    pub(super) concurrent: usize,
}

impl Pace {
    /// No reader waits meanwhile.
    pub(super) const ALONE: Self = Self { blocks: 64, concurrent: 8 };
    /// Readers wait for what is being fetched.
    pub(super) const BESIDE_READERS: Self = Self { blocks: 16, concurrent: 4 };
}
