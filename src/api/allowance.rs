//! What an answer reads, counted against the bytes that it may read (`server.limits.pages.transactionBytes`).

use std::sync::Arc;

use bitcoin::Txid;

use crate::api::error::ApiError;
use crate::view::{IndexError, Transaction, TxNum, View, WantedTransaction};

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

/// The newest transaction with this txid, if any, read together with those that other fields ask for. Its bytes count as read.
///
/// Errors: QUERY_LIMIT_EXCEEDED; those of the index.
pub(crate) async fn find_together(view: &View, txid: Txid) -> Result<Option<Arc<Transaction>>, ApiError> {
    view.count(0)?;
    if let Some(found) = view.read_together(WantedTransaction::Newest(txid)).await {
        view.count(found.bytes_read)?;
        return Ok(Some(found));
    }
    Ok(find_transaction(view, |view| view.transaction(&txid))?.map(Arc::new))
}

/// The transaction at this position, or a later one with its txid (BIP30), read together with those that other fields ask
/// for. Its bytes count as read.
///
/// Errors: QUERY_LIMIT_EXCEEDED; those of the index.
pub(crate) async fn newest_copy_together(view: &View, txnum: TxNum) -> Result<Arc<Transaction>, ApiError> {
    view.count(0)?;
    if let Some(found) = view.read_together(WantedTransaction::At(txnum)).await {
        view.count(found.bytes_read)?;
        return Ok(found);
    }
    read_transaction(view, |view| view.newest_copy(txnum)).map(Arc::new)
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
