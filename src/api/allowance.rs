//! What an answer reads, counted against the bytes that it may read (`server.limits.transactionBytes`).

use crate::api::error::ApiError;
use crate::view::{IndexError, Transaction, View};

/// What an item of a list that a client sees whole adds to an answer beside its own bytes.
pub(crate) const ITEM_BYTES: usize = 32;

/// The transaction that `find` finds, if any. Its bytes count as read.
///
/// Errors: QUERY_LIMIT_EXCEEDED; those of `find`.
pub(crate) fn find_transaction(
    view: &View,
    find: impl FnOnce(&View) -> Result<Option<Transaction>, IndexError>,
) -> Result<Option<Transaction>, ApiError> {
    // the size is known only after reading: nothing more is read once the answer is too large
    view.count(0)?;
    let found = find(view)?;
    view.count(found.as_ref().map_or(0, |transaction| transaction.bytes_read))?;
    Ok(found)
}

/// The transaction that `read` returns. Its bytes count as read.
///
/// Errors: QUERY_LIMIT_EXCEEDED; those of `read`.
pub(crate) fn read_transaction(
    view: &View,
    read: impl FnOnce(&View) -> Result<Transaction, IndexError>,
) -> Result<Transaction, ApiError> {
    view.count(0)?;
    let found = read(view)?;
    view.count(found.bytes_read)?;
    Ok(found)
}
