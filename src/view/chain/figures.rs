//! Figures of a transaction that follow from the outputs that it spends, and the age of outputs.

use std::collections::HashMap;

use bitcoin::TxOut;

use super::super::prevouts::FundedOutput;
use super::super::{BudgetExceeded, SpendStatus, Transaction, View};
use crate::chain::raw::RawTransaction;
use crate::chain::{Height, policy_weight, sigop_cost};
use crate::index::IndexError;

/// How long an output has been unspent, or was until it was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputAge {
    /// The difference of the heights.
    pub blocks: u32,
    /// The difference of the median times past, in seconds.
    pub seconds: u32,
}

impl Transaction {
    /// The sigop cost. `spent` are the outputs that it spends ([`View::spent_outputs`]); `None` if one is not known, unless it
    /// is a coinbase.
    #[must_use]
    pub fn sigop_cost(&self, spent: &[Option<FundedOutput>]) -> Option<u64> {
        if self.parts.is_coinbase() {
            return Some(sigop_cost(&self.parts, []));
        }
        let prevouts: Vec<&TxOut> =
            spent.iter().map(|spent| spent.as_ref().map(|spent| &spent.output)).collect::<Option<_>>()?;
        (prevouts.len() == self.parts.input.len()).then(|| sigop_cost(&self.parts, prevouts))
    }
}

impl View {
    /// The weight by which policy judges a transaction of the active chain ([`policy_weight`]).
    ///
    /// Errors: those of the index, and the byte budget where the outputs that it spends are read.
    pub(in crate::view) fn policy_weight<E>(&self, transaction: &Transaction) -> Result<u64, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let raw = RawTransaction::parse_whole(transaction.raw())
            .map_err(|error| IndexError::corrupt("transactions", format!("{}: {error}", transaction.txid)))?;
        policy_weight(&raw, || {
            let spent = self.prevouts::<E>(transaction, 0..transaction.parts.input.len())?;
            Ok(spent.into_iter().flatten().collect())
        })
    }

    /// The sum over the outputs that a transaction of the active chain spends of their value in sat times their age in seconds,
    /// which is the difference of median times past, as in the rows of blocks. `spent` are those outputs. `None` for other
    /// transactions.
    pub fn coin_age(
        &self,
        transaction: &Transaction,
        spent: &[Option<FundedOutput>],
    ) -> Result<Option<u128>, IndexError> {
        let Some(place) = transaction.place else { return Ok(None) };
        let mut median_times = HashMap::new();
        let own = self.median_time_at(place.height)?;
        let mut sum = 0_u128;
        for FundedOutput { output, height } in spent.iter().flatten() {
            // what a transaction of the active chain spends is there, too
            let Some(height) = height else { continue };
            let created = match median_times.get(height) {
                Some(created) => *created,
                None => *median_times.entry(*height).or_insert(self.median_time_at(*height)?),
            };
            sum = sum.saturating_add(u128::from(output.value.to_sat()) * u128::from(own.saturating_sub(created)));
        }
        Ok(Some(sum))
    }

    /// How old an output of the active chain is at the tip, if no transaction of that chain spends it and one can.
    pub fn output_age(&self, transaction: &Transaction, vout: u32) -> Result<Option<OutputAge>, IndexError> {
        let Some(place) = transaction.place else { return Ok(None) };
        let tip = self.tip_block()?;
        if self.spend_status_at(transaction, vout, &tip)? != Some(SpendStatus::Unspent) {
            return Ok(None);
        }
        self.age_between(place.height, tip.height).map(Some)
    }

    /// How long an output existed until a transaction of the active chain spent it; `None` while there is none.
    pub fn output_lifespan(&self, transaction: &Transaction, vout: u32) -> Result<Option<OutputAge>, IndexError> {
        let (Some(place), Some(spender)) = (transaction.place, self.spender(transaction, vout)?) else {
            return Ok(None);
        };
        self.age_between(place.height, spender.height).map(Some)
    }

    fn age_between(&self, from: Height, to: Height) -> Result<OutputAge, IndexError> {
        let blocks = to.to_u32().saturating_sub(from.to_u32());
        let seconds = self.median_time_at(to)?.saturating_sub(self.median_time_at(from)?);
        Ok(OutputAge { blocks, seconds })
    }

    /// The median time past of the block at a height that is not above the tip, in seconds since 1970.
    fn median_time_at(&self, height: Height) -> Result<u32, IndexError> {
        Ok(self.main_block(height)?.row.median_time)
    }
}
