//! Bytes that are in memory for clients, of all of them together. Each answer, body and subscription is bounded by
//! itself; a budget bounds how many large ones there are.
//!
//! ```text
//!   MemoryBudget ── reserve ──► Reservation, kept with the bytes ──► dropped with the last of them ──► free again
//!         └─ exceeded: refused at once
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_graphql::ServerError;
use tokio_util::bytes::Bytes;

use super::error::error;
use crate::api::code;

/// Answers and bodies up to this size are not counted: what a connection costs anyway is bounded by how many there are.
pub(crate) const SMALL: usize = 64 << 10;

/// So many bytes for one purpose. A clone is the same budget.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget {
    limit: usize,
    used: Arc<AtomicUsize>,
    exceeded: fn(BudgetOverrun) -> ServerError,
}

/// Some bytes of a budget, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of a budget do not suffice.
#[derive(Clone, Copy)]
struct BudgetOverrun {
    limit: usize,
    actual: usize,
}

/// Bytes with their reservation.
struct Reserved {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl MemoryBudget {
    /// For request bodies and answers that clients have not read.
    pub(crate) fn of_unread_responses(limit: usize) -> Self {
        let exceeded = |_| error(code::RESOURCE_EXHAUSTED, "clients have too many unread responses: retry later");
        Self { limit, used: Arc::default(), exceeded }
    }

    /// For the documents and variables of open subscriptions.
    pub(crate) fn of_subscriptions(limit: usize) -> Self {
        let exceeded = |BudgetOverrun { limit, actual }| {
            let message = format!(
                "the documents and variables of all subscriptions may take {limit} bytes together, and this one would \
                 make it {actual}: retry later"
            );
            let mut error = error(code::RESOURCE_EXHAUSTED, message);
            let extensions = error.extensions.get_or_insert_default();
            extensions.set("which", "subscriptionBytes");
            extensions.set("limit", limit);
            extensions.set("actual", actual);
            error
        };
        Self { limit, used: Arc::default(), exceeded }
    }

    /// Reserves some bytes.
    ///
    /// Errors: RESOURCE_EXHAUSTED.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation, ServerError> {
        let more = |used: usize| Some(used.saturating_add(bytes)).filter(|used| *used <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Reservation { used: self.used.clone(), bytes }),
            Err(used) => Err((self.exceeded)(BudgetOverrun { limit: self.limit, actual: used.saturating_add(bytes) })),
        }
    }

    /// Reserves some bytes unless they are few ([`SMALL`]).
    ///
    /// Errors: RESOURCE_EXHAUSTED.
    pub(crate) fn reserve_large(&self, bytes: usize) -> Result<Option<Reservation>, ServerError> {
        if bytes <= SMALL { Ok(None) } else { self.reserve(bytes).map(Some) }
    }

    /// These bytes, reserved until the last part of them is dropped.
    ///
    /// Errors: RESOURCE_EXHAUSTED.
    pub(crate) fn keep(&self, bytes: Bytes) -> Result<Bytes, ServerError> {
        Ok(match self.reserve_large(bytes.len())? {
            None => bytes,
            Some(reservation) => reservation.with(bytes),
        })
    }
}

impl Reservation {
    /// These bytes with this reservation, until the last part of them is dropped.
    pub(crate) fn with(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Reserved { bytes, _reservation: self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(size: usize) -> Bytes {
        vec![7; size].into()
    }

    #[test]
    fn large_bytes_are_counted_until_their_last_part_is_dropped() {
        let budget = MemoryBudget::of_unread_responses(300 << 10);
        let first = budget.keep(bytes(200 << 10)).unwrap();
        assert!(budget.keep(bytes(200 << 10)).is_err());
        let second = budget.keep(bytes(100 << 10)).unwrap();
        let part = first.slice(5..6);
        drop(first);
        assert!(budget.keep(bytes(65 << 10)).is_err());
        assert_eq!(part, bytes(1));
        drop(part);
        assert_eq!(budget.keep(bytes(200 << 10)), Ok(bytes(200 << 10)));
        drop(second);
    }

    #[test]
    fn small_bytes_are_not_counted() {
        let budget = MemoryBudget::of_unread_responses(0);
        assert_eq!(budget.keep(bytes(SMALL)), Ok(bytes(SMALL)));
        assert!(budget.keep(bytes(SMALL + 1)).is_err());
    }

    #[test]
    fn an_error_names_the_limit_and_the_actual_bytes() {
        let budget = MemoryBudget::of_subscriptions(10);
        let _first = budget.reserve(6).unwrap();
        let refused = budget.reserve(6).unwrap_err().extensions.unwrap();
        assert_eq!(refused.get("code"), Some(&"RESOURCE_EXHAUSTED".into()));
        assert_eq!((refused.get("limit"), refused.get("actual")), (Some(&10.into()), Some(&12.into())));
    }
}
