use std::sync::Arc;

use async_graphql::{Context, SimpleObject};
use bitcoin::secp256k1::{Secp256k1, VerifyOnly};

use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::block_id;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::Hex;
use crate::api::types::enums::SortOrder;
use crate::api::types::transaction::{Transaction, filtered};
use crate::chain::silent_payments;
use crate::view::{self, Dependency, View};

/// A transaction that may be a silent payment, and the tweak by which a receiver finds out (BIP352).
#[derive(Clone, SimpleObject)]
pub(crate) struct SilentPaymentTweak {
    /// The transaction. Its P2TR outputs are the candidates.
    transaction: Transaction,
    /// The tweak: the sum of the public keys of the inputs, multiplied by the hash of the lowest outpoint and that sum. A
    /// compressed public key of 33 bytes, which a receiver multiplies by the scan key.
    tweak: Hex,
}

impl FieldCacheability for SilentPaymentTweak {
    const IMMUTABLE: &'static str = "transaction tweak";
}

/// A page of the transactions of a block that may be silent payments, `None` for a stale block.
pub(super) fn page(
    ctx: &Context<'_>,
    view: &Arc<View>,
    block: &view::Block,
    args: &PageArgs,
) -> Result<Option<Connection<SilentPaymentTweak>>, ApiError> {
    if !block.is_main() {
        return Ok(None);
    }
    let (hash, limits) = (block.row.hash, limits(ctx)?);
    // where such a page ends depends on the server's settings
    view.read_set().depends_on(Dependency::Chain);
    let scope = Scope::new("silentPaymentTweaks", block_id(hash));
    let request = args.read(&scope, view, limits)?;
    let secp = Secp256k1::verification_only();
    let page = filtered(ctx, &request, 0..block.row.transactions.into(), SortOrder::Asc, limits, |index| {
        let index = u32::try_from(index).map_err(|_| ApiError::internal("a block has too many transactions"))?;
        let left = view.bytes_left();
        view.count(0)?;
        let missing = || ApiError::internal("a transaction of a block is missing");
        let found = view.block_transaction(block, index)?.ok_or_else(missing)?;
        view.count(found.bytes_read)?;
        let tweak = tweak(ctx, view, &secp, &found)?;
        let found = tweak.map(|tweak| SilentPaymentTweak { transaction: Transaction::new(view, found), tweak });
        Ok((left.saturating_sub(view.bytes_left()), found))
    })?;
    Connection::new(&scope, page, None, |_| Ok(Some(hash)), |_, found| Ok(found)).map(Some)
}

fn tweak(
    ctx: &Context<'_>,
    view: &View,
    secp: &Secp256k1<VerifyOnly>,
    transaction: &view::Transaction,
) -> Result<Option<Hex>, ApiError> {
    if !silent_payments::has_candidates(&transaction.parts) {
        return Ok(None);
    }
    let inputs = transaction.parts.input.len();
    costs::spend(ctx, inputs.saturating_add(costs::TWEAK))?;
    let prevouts = view.prevouts::<ApiError>(transaction, 0..inputs)?;
    let Some(prevouts) = prevouts.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let tweak = silent_payments::tweak(secp, &transaction.parts, &prevouts);
    Ok(tweak.map(|tweak| Hex::new(tweak.serialize())))
}
