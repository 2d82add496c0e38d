//! Where the deletion of shadowed rows goes on.

/// Where the next step goes on: a table and a key in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::index) struct SweepCursor {
    pub(super) table: usize,
    pub(super) key: Vec<u8>,
}
