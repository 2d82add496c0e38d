//! What is held in memory for clients, of all of them together and in bytes: bodies of requests on their way in, and answers
//! that are finished and wait to be read. Each is bounded by itself; this bounds how many there are of the large ones.
//!
//! ```text
//!   MemoryBudget ── claim ──► Reservation, goes with the bytes ──► dropped with the last of them ──► free again
//!     └─ none left: refused, at once
//! ```
//!
//! Small ones are not counted: what a connection costs anyway is bounded by how many there are.

use std::sync::Arc;

use async_graphql::ServerError;
use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::code;
use crate::server::http::response::error;

/// The most bytes that are not counted.
pub(crate) const SMALL: usize = 64 << 10;

/// What one place stands for, in bytes.
const UNIT: usize = 1 << 10;

/// How much may be held, and is. A clone is the same.
#[derive(Clone)]
pub(crate) struct MemoryBudget(Arc<Semaphore>);

/// So much of it.
#[derive(Debug)]
pub(crate) struct Reservation {
    _places: OwnedSemaphorePermit,
}

/// There is not enough left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("clients have too many unread responses: retry later")]
pub(crate) struct BudgetExhausted;

impl From<BudgetExhausted> for ServerError {
    fn from(reason: BudgetExhausted) -> Self {
        error(code::RESOURCE_EXHAUSTED, reason.to_string())
    }
}

/// Bytes with what they have claimed.
struct Claimed {
    bytes: Bytes,
    _claim: Reservation,
}

impl AsRef<[u8]> for Claimed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl MemoryBudget {
    /// So many bytes may be.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).min(Semaphore::MAX_PERMITS))))
    }

    /// So many of them; none is claimed for what is small.
    pub(crate) fn claim(&self, bytes: usize) -> Result<Option<Reservation>, BudgetExhausted> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let units = u32::try_from(bytes.div_ceil(UNIT)).map_err(|_| BudgetExhausted)?;
        let places = self.0.clone().try_acquire_many_owned(units).map_err(|_| BudgetExhausted)?;
        Ok(Some(Reservation { _places: places }))
    }

    /// These bytes, which are counted as long as anybody has any of them.
    pub(crate) fn hold(&self, bytes: Bytes) -> Result<Bytes, BudgetExhausted> {
        Ok(match self.claim(bytes.len())? {
            None => bytes,
            Some(claim) => Bytes::from_owner(Claimed { bytes, _claim: claim }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(size: usize) -> Bytes {
        vec![7; size].into()
    }

    #[test]
    fn what_is_large_is_held_as_long_as_there_is_room_and_makes_room_with_its_last_byte() {
        let held = MemoryBudget::new(300 << 10);
        let first = held.hold(bytes(200 << 10)).unwrap();
        assert_eq!(held.hold(bytes(200 << 10)), Err(BudgetExhausted));
        let second = held.hold(bytes(100 << 10)).unwrap();
        let part = first.slice(5..6);
        drop(first);
        assert_eq!(held.hold(bytes(65 << 10)), Err(BudgetExhausted));
        assert_eq!(part, bytes(1));
        drop(part);
        assert_eq!(held.hold(bytes(200 << 10)), Ok(bytes(200 << 10)));
        drop(second);
    }

    #[test]
    fn what_is_small_is_not_counted() {
        let held = MemoryBudget::new(0);
        assert_eq!(held.hold(bytes(SMALL)), Ok(bytes(SMALL)));
        assert_eq!(held.hold(bytes(SMALL + 1)), Err(BudgetExhausted));
    }
}
