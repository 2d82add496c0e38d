use async_graphql::SimpleObject;

use super::super::error::ApiError;
use super::super::scalars::Sats;
use crate::view::{Block, Ledger, View};

/// What a ledger holds. Outputs that can never be spent are in none of these amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SimpleObject)]
pub(in crate::api) struct Balance {
    /// The sum of its outputs on the main chain that no transaction of the main chain spends, in satoshis.
    confirmed: Sats,
    /// The part of `confirmed` that coinbases created and the next block may not spend yet, in satoshis.
    immature: Sats,
    /// The part of `confirmed` that the next block may spend, in satoshis.
    spendable: Sats,
}

impl Balance {
    /// What a ledger held right after a block.
    pub(super) fn of(view: &View, ledger: &Ledger, at: &Block) -> Result<Self, ApiError> {
        let confirmed = view.totals(ledger, at)?.balance()?;
        let immature = view.immature(ledger, at)?;
        let spendable = confirmed
            .checked_sub(immature)
            .ok_or_else(|| ApiError::internal("a script has more immature coins than coins"))?;
        Ok(Self { confirmed: Sats::new(confirmed)?, immature: Sats::new(immature)?, spendable: Sats::new(spendable)? })
    }
}
