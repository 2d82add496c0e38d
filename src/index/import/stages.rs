//! The stages of an import by their numbers in a checkpoint.

/// The first byte of a stage, which what it has follows.
pub(super) const READING: u8 = 0;
pub(super) const JOINING: u8 = 1;
pub(super) const OUTPUTS: u8 = 2;
pub(super) const SCRIPTS: u8 = 3;
