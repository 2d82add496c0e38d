//! Where the deletion of shadowed rows resumes.

/// Where the next step resumes: a table and a key in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::index) struct SweepCursor {
    pub(super) table: usize,
    pub(super) key: Vec<u8>,
}
