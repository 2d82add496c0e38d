use async_graphql::SimpleObject;

use super::super::error::ApiError;
use super::super::scalars::{Sats, SignedSats};
use crate::view::{Block, Ledger, Pending, View};

/// What a ledger holds on the main chain, and what the mempool is about to change of it. At a block that was asked for,
/// the newest one too, there is no mempool: its parts are 0. Outputs that can never be spent are in none of these
/// amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SimpleObject)]
pub(in crate::api) struct Balance {
    /// The sum of its outputs on the main chain that no transaction of the main chain spends, in satoshis.
    confirmed: Sats,
    /// The part of `confirmed` that coinbases created and the next block may not spend yet, in satoshis.
    immature: Sats,
    /// The part of `confirmed` and of `pendingIn` that transactions of the mempool spend, in satoshis.
    spent_in_mempool: Sats,
    /// The sum of the outputs to it that transactions of the mempool create, in satoshis: gross, so change is in it, and
    /// what other transactions of the mempool spend of it again.
    pending_in: Sats,
    /// By how many satoshis the mempool is about to change `confirmed`: `pendingIn` minus `spentInMempool`.
    unconfirmed_delta: SignedSats,
    /// What it will hold when all of the mempool is confirmed, in satoshis: `confirmed` plus `unconfirmedDelta`, which is
    /// the sum of `utxos` without a filter.
    total: Sats,
    /// The part of `confirmed` that the next block may spend and no transaction of the mempool spends, in satoshis. No
    /// coin of the mempool is in it, not even own change.
    spendable: Sats,
}

impl Balance {
    /// What a ledger held right after a block, if that is what the mempool does to it.
    pub(super) fn of(view: &View, ledger: &Ledger, at: &Block, pending: &Pending) -> Result<Self, ApiError> {
        let confirmed = view.totals(ledger, at)?.balance()?;
        let immature = view.immature(ledger, at)?;
        let mature = confirmed
            .checked_sub(immature)
            .ok_or_else(|| ApiError::internal("a script has more immature coins than coins"))?;
        let (created, spent) = (pending.created.value, pending.spent());
        // no node's mempool spends what is immature, but what one tells is not our doing: nothing falls below zero for it
        let total = confirmed.saturating_add(created).saturating_sub(spent);
        Ok(Self {
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
