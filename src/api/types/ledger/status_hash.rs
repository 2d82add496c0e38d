//! The status of a ledger in the Electrum protocol.

use std::io::Write;

use async_graphql::Context;
use bitcoin::hashes::{Hash, sha256};

use super::holdings::{Holdings, ROW_BYTES};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::chain::Height;
use crate::view;

/// The heights of unconfirmed transactions without and with an unconfirmed input.
const UNCONFIRMED: [i8; 2] = [0, -1];

/// The SHA-256 of a list of `txid:height:`, one for each transaction of the ledger up to this block in the order of the chain, and
/// for each of its unconfirmed ones in the order of arrival if `pending`. `None` if there is none.
///
/// Errors: QUERY_LIMIT_EXCEEDED for more than `most` transactions.
pub(super) fn status_hash(
    ctx: &Context<'_>,
    holdings: &Holdings,
    at: &view::Block,
    pending: bool,
    most: u32,
) -> Result<Option<sha256::Hash>, ApiError> {
    let Holdings { view, ledger, .. } = holdings;
    let too_long = |count: u64| ApiError::limit_exceeded("scanRows", most.into(), count);
    let until = view.txnums(Height::GENESIS..at.height.next())?;
    let too_many = u64::from(most).saturating_add(1);
    let counted = holdings.count_movements(ctx, &until, most)?;
    let mut count = counted.map_or(too_many, |counted| counted.transactions.into());
    if pending && count <= most.into() {
        let waiting = holdings.count_pending(ctx, most.into())?;
        count = waiting.map_or(too_many, |waiting| count.saturating_add(waiting));
    }
    if count > most.into() {
        return Err(too_long(count));
    }
    let rows = usize::try_from(count).unwrap_or(usize::MAX);
    costs::spend(ctx, rows.div_ceil(costs::ROWS_APART))?;
    let mut engine = sha256::Hash::engine();
    // writing to a hash cannot fail
    for movement in view.movements(ledger, &until, true)? {
        view.count(ROW_BYTES)?;
        let txnum = movement?.txnum;
        let _ = write!(engine, "{}:{}:", view.txid_at(txnum)?, view.height_of(txnum)?);
    }
    if pending {
        for entry in view.arrivals(ledger, &(0..u64::MAX), true) {
            view.count(ROW_BYTES)?;
            let _ = write!(engine, "{}:{}:", entry.txid, UNCONFIRMED[usize::from(entry.has_parents())]);
        }
    }
    Ok((count > 0).then(|| sha256::Hash::from_engine(engine)))
}
