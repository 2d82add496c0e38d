//! An object that is downloaded, and what its blocks are compared with.

use std::sync::Arc;

use super::checksums::BlockChecksums;
use super::error::FleetError;
use super::names::ContentHash;
use crate::chain::wide;

/// An object that is downloaded.
#[derive(Clone)]
pub(super) struct WantedObject {
    pub(super) object: ContentHash,
    pub(super) bytes: u64,
    pub(super) sums: Arc<BlockChecksums>,
}

impl WantedObject {
    /// An object of so many bytes whose checksums are the content of the object `sums`.
    ///
    /// Errors: [`FleetError::Truncated`], `Changed`.
    pub(super) fn new(
        object: ContentHash,
        bytes: u64,
        sums: ContentHash,
        content: Vec<u8>,
    ) -> Result<Self, FleetError> {
        let (found, expected) = (wide(content.len()), BlockChecksums::encoded_bytes(bytes));
        let has_name = ContentHash::of(&content) == sums;
        match BlockChecksums::decode(content, bytes) {
            None => Err(FleetError::Truncated { object: sums.object(), found, expected }),
            Some(_) if !has_name => Err(FleetError::Changed { object: sums.object(), offset: 0 }),
            Some(decoded) => Ok(Self { object, bytes, sums: Arc::new(decoded) }),
        }
    }
}
