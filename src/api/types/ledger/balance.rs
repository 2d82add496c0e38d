use std::time::SystemTime;

use async_graphql::{ComplexObject, Context, SimpleObject};

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, Sats, SignedSats};
use crate::api::types::rates::CurrencyValue;
use crate::view::{Block, Ledger, Pending, View};

/// The balance of a ledger on the main chain, and the changes that the mempool would make to it. With `at`, even at the
/// tip, the mempool is ignored and its parts are 0. Unspendable outputs are not part of any amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SimpleObject)]
#[graphql(complex)]
pub(crate) struct Balance {
    /// When it was so; now, if no block is newer.
    #[graphql(skip)]
    time: DateTime,
    /// The sum of the ledger's outputs on the main chain that no transaction of the main chain spends, in satoshis.
    confirmed: Sats,
    /// The part of `confirmed` in coinbase outputs that are not mature enough to be spent in the next block, in
    /// satoshis.
    immature: Sats,
    /// The part of `confirmed` and `pendingIn` that mempool transactions spend, in satoshis.
    spent_in_mempool: Sats,
    /// The sum of the ledger's outputs that mempool transactions create, in satoshis. This is a gross amount: it
    /// includes change, and outputs that other mempool transactions spend again.
    pending_in: Sats,
    /// The change that the mempool would make to `confirmed`, in satoshis: `pendingIn` minus `spentInMempool`.
    unconfirmed_delta: SignedSats,
    /// The balance once the whole mempool is confirmed, in satoshis: `confirmed` plus `unconfirmedDelta`, which equals
    /// the sum of `utxos` without a filter.
    total: Sats,
    /// The part of `confirmed` that can be spent in the next block and that no mempool transaction spends, in satoshis.
    /// Unconfirmed outputs are not included, not even the ledger's own change.
    spendable: Sats,
}

impl FieldCacheability for Balance {
    const IMMUTABLE: &'static str = "confirmed immature spentInMempool pendingIn unconfirmedDelta total spendable";
    const NEVER: &'static str = "value";
}

impl Balance {
    /// The balance of a ledger right after a block, with these changes by the mempool.
    pub(crate) fn of(view: &View, ledger: &Ledger, at: &Block, pending: &Pending) -> Result<Self, ApiError> {
        let confirmed = view.totals(ledger, at)?.balance()?;
        let immature = view.immature(ledger, at)?;
        let mature = confirmed
            .checked_sub(immature)
            .ok_or_else(|| ApiError::internal("the immature balance of a script exceeds its balance"))?;
        let (created, spent) = (pending.created.value, pending.spent());
        // no node's mempool spends what is immature, but this server does not depend on that: nothing falls below zero for it
        let total = confirmed.saturating_add(created).saturating_sub(spent);
        let is_newest = at.height == view.tip().height;
        let now = DateTime::from_system(SystemTime::now());
        Ok(Self {
            time: if is_newest { now } else { DateTime::from_unix(at.row.median_time) },
            confirmed: Sats::new(confirmed)?,
            immature: Sats::new(immature)?,
            spent_in_mempool: Sats::new(spent)?,
            pending_in: Sats::new(created)?,
            unconfirmed_delta: SignedSats::new(i128::from(created) - i128::from(spent))?,
            total: Sats::new(total)?,
            spendable: Sats::new(mature.saturating_sub(pending.spent_confirmed.value))?,
        })
    }
}

#[ComplexObject]
impl Balance {
    /// The value of `total` in a currency, by the rate at the median time past of the block that it was asked for; without one,
    /// or at the newest block, by the rate of now. Null if there is no rate of that time. Fails with FEATURE_DISABLED if the
    /// operator has no table of rates.
    async fn value(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The code of the currency (ISO 4217), such as EUR.")] currency: String,
    ) -> Option<Result<CurrencyValue, ApiError>> {
        CurrencyValue::of(ctx, self.total.to_sat().into(), &currency, self.time).transpose()
    }
}
