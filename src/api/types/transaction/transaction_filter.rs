//! Which transactions a list has, confirmed or not.
//!
//! What is asked about a transaction is in itself and in the row that places it, so nothing else is read for it. No table
//! is ordered by any of it: rows are read one by one, and a page ends where it has read enough.

use std::cell::Cell;
use std::ops::Range;

use async_graphql::{Context, InputObject, Value};
use bitcoin::consensus::deserialize;
use bitcoin::{Amount, Script, ScriptBuf, TxOut};

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::pagination::page::{Page, PageRequest, Walk};
use crate::api::scalars::{Hex, Sats};
use crate::api::types::enums::{ScriptTypeEnum, SortOrder};
use crate::api::types::filter_rules::{check_bounds, check_not_both, check_not_empty, check_not_negative};
use crate::api::types::spend::TransactionFeature;
use crate::chain::script::op_return;
use crate::chain::{self};
use crate::limits::Limits;
use crate::view::{Entry, Transaction};

/// Bytes of transactions that one page reads while it looks for those that a filter lets through.
pub(crate) const SCAN_BYTES: usize = 8 << 20;

/// Conditions on transactions; a transaction must meet all of them. Conditions that contradict each other are BAD_USER_INPUT.
/// The server scans row by row, at most `server.limits.pages.scanRows` rows per page, or fewer if they are large; the page then
/// ends early. Each transaction that is read costs 1, whether it is returned or not, so a page of a long scan costs up to that
/// limit: see `server.limits.requests.complexity`. In the mempool three cost 1, unless scripts or features are asked about.
#[derive(Clone, Debug, Default, PartialEq, InputObject)]
pub(crate) struct TransactionFilter {
    /// Only transactions with at least this feerate for their own size, in sat/vB. Coinbases pay no fee and are excluded.
    pub(crate) min_fee_rate: Option<f64>,
    /// Only transactions with at most this feerate for their own size, in sat/vB. Coinbases pay no fee and are excluded
    /// too.
    pub(crate) max_fee_rate: Option<f64>,
    /// Only transactions whose outputs add up to at least this many satoshis.
    pub(crate) min_value: Option<Sats>,
    /// Only transactions whose outputs add up to at most this many satoshis.
    pub(crate) max_value: Option<Sats>,
    /// Only transactions with an output of one of these script types.
    pub(crate) script_types: Option<Vec<ScriptTypeEnum>>,
    /// Only transactions with all of these features. For those of what is spent (TAPROOT_KEY_SPEND, TAPROOT_SCRIPT_SPEND, ANNEX,
    /// MULTISIG_SPEND, INSCRIPTION_ENVELOPE, PARTIAL_SIGHASH) the spent outputs of each transaction that may have them are looked
    /// up, so a page ends earlier, and each costs 1 more.
    pub(crate) features: Option<Vec<TransactionFeature>>,
    /// If true, only coinbases; if false, no coinbases.
    pub(crate) is_coinbase: Option<bool>,
    /// Only transactions with an OP_RETURN output whose pushed data, concatenated, starts with these bytes. An empty
    /// prefix matches any data.
    pub(crate) op_return_prefix: Option<Hex>,
}

/// On which side of the bounds of a filter a figure lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterBounds {
    pub(crate) too_low: bool,
    pub(crate) too_high: bool,
}

impl FilterBounds {
    fn within(self) -> bool {
        !self.too_low && !self.too_high
    }
}

impl TransactionFilter {
    /// The filter as it was given, `None` if it has no condition.
    ///
    /// Errors: BAD_USER_INPUT for conditions that no transaction can meet.
    pub(crate) fn checked(given: Option<Self>) -> Result<Option<Self>, ApiError> {
        let Some(given) = given.filter(Self::leaves_out) else { return Ok(None) };
        check_not_negative("minFeeRate", "a feerate", given.min_fee_rate)?;
        check_not_negative("maxFeeRate", "a feerate", given.max_fee_rate)?;
        check_bounds(("minFeeRate", given.min_fee_rate), ("maxFeeRate", given.max_fee_rate))?;
        let [least, most] = [given.min_value, given.max_value].map(|bound| bound.map(Sats::to_sat));
        check_bounds(("minValue", least), ("maxValue", most))?;
        check_not_empty("scriptTypes", given.script_types.as_deref())?;
        check_not_empty("features", given.features.as_deref())?;
        let is_coinbase = given.is_coinbase == Some(true);
        let rates = [("minFeeRate", given.min_fee_rate), ("maxFeeRate", given.max_fee_rate)];
        for (name, rate) in rates.into_iter().filter_map(|(name, rate)| rate.map(|rate| (name, rate))) {
            check_not_both(is_coinbase, ("isCoinbase", true), (name, rate), "a coinbase pays no fee")?;
        }
        let of_spent =
            given.features.iter().flatten().find(|feature| chain::StructuralFeature::from(**feature).needs_prevouts());
        if let Some(feature) = of_spent {
            let features = format!("a list with {}", Value::from(*feature));
            check_not_both(is_coinbase, ("isCoinbase", true), ("features", features), "a coinbase spends no output")?;
        }
        Ok(Some(given))
    }

    /// Whether there is a condition at all.
    pub(crate) fn leaves_out(&self) -> bool {
        *self != Self::default()
    }

    /// Where a feerate lies, in sat/vB.
    pub(crate) fn of_rate(&self, rate: f64) -> FilterBounds {
        FilterBounds {
            too_low: self.min_fee_rate.is_some_and(|least| rate < least),
            too_high: self.max_fee_rate.is_some_and(|most| rate > most),
        }
    }

    /// Where the sum of outputs lies, in sat.
    pub(crate) fn of_value(&self, value: u64) -> FilterBounds {
        FilterBounds {
            too_low: self.min_value.is_some_and(|least| value < least.to_sat()),
            too_high: self.max_value.is_some_and(|most| value > most.to_sat()),
        }
    }

    /// Whether the scripts of outputs have to be looked at.
    pub(crate) fn asks_for_scripts(&self) -> bool {
        self.script_types.is_some() || self.op_return_prefix.is_some() || self.features.is_some()
    }

    /// Whether it lets an unconfirmed transaction through, which is no coinbase.
    pub(crate) fn keeps_unconfirmed(&self, entry: &Entry) -> bool {
        let rate = Some(entry.feerate().to_sat_per_vb());
        let scripts = || entry.outputs().map(|output| Script::from_bytes(output.script_pubkey));
        self.keeps(false, rate, entry.output_value, scripts) && self.keeps_features(entry)
    }

    /// Whether an unconfirmed transaction has the features.
    fn keeps_features(&self, entry: &Entry) -> bool {
        let Some(wanted) = &self.features else { return true };
        // every entry of the mempool was parsed there
        let Ok(parts) = deserialize::<bitcoin::Transaction>(&entry.raw) else { return false };
        let prevouts: Vec<_> = entry
            .prevouts
            .iter()
            .map(|prevout| TxOut {
                value: Amount::from_sat(prevout.value),
                script_pubkey: ScriptBuf::from_bytes(prevout.script_pubkey.to_vec()),
            })
            .collect();
        let found = chain::features(&parts, &prevouts);
        wanted.iter().all(|feature| found.contains(&chain::StructuralFeature::from(*feature)))
    }

    /// Whether feerates have to be looked at.
    pub(crate) fn asks_for_rate(&self) -> bool {
        self.min_fee_rate.is_some() || self.max_fee_rate.is_some()
    }

    /// Whether it lets a transaction through that pays this feerate, in sat/vB. A coinbase has none, nor has one of which it
    /// is not known; where it is not asked for, it need not be given.
    pub(crate) fn keeps_transaction(&self, transaction: &Transaction, rate: Option<f64>) -> bool {
        let scripts = || transaction.parts.output.iter().map(|output| output.script_pubkey.as_script());
        self.keeps(transaction.parts.is_coinbase(), rate, transaction.output_value(), scripts)
    }

    fn keeps<'s, S: Iterator<Item = &'s Script>>(
        &self,
        is_coinbase: bool,
        rate: Option<f64>,
        value: u64,
        scripts: impl Fn() -> S,
    ) -> bool {
        let pays = match rate {
            Some(rate) => self.of_rate(rate).within(),
            None => !self.asks_for_rate(),
        };
        let is_of_kind = self.is_coinbase.is_none_or(|wanted| wanted == is_coinbase);
        let has_type = |types: &Vec<ScriptTypeEnum>| {
            scripts().any(|script| types.contains(&ScriptTypeEnum::from(chain::ScriptType::of(script))))
        };
        let has_data = |prefix: &Hex| scripts().any(|script| begins_with(script, prefix.as_bytes()));
        pays && is_of_kind
            && self.of_value(value).within()
            && self.script_types.as_ref().is_none_or(has_type)
            && self.op_return_prefix.as_ref().is_none_or(has_data)
    }
}

/// The page of those transactions at `positions` that a filter lets through. `read` reads one: how many bytes that took, and
/// the transaction if it is let through. Each is charged as it is read.
pub(crate) fn filtered<T>(
    ctx: &Context<'_>,
    request: &PageRequest,
    positions: Range<u64>,
    order: SortOrder,
    limits: &Limits,
    read: impl Fn(u64) -> Result<(usize, Option<T>), ApiError>,
) -> Result<Page<T>, ApiError> {
    let Walk { positions, ascending } = request.walk(positions, order);
    let bytes = Cell::new(0_usize);
    let row = |position| {
        let (size, found) = read(position)?;
        bytes.set(bytes.get().saturating_add(size));
        Ok((position, found))
    };
    let enough = |rows| rows >= limits.scan_rows || bytes.get() > SCAN_BYTES;
    if ascending {
        request.page(enough, costs::charged_rows(ctx, Some(1), positions.map(row)))
    } else {
        request.page(enough, costs::charged_rows(ctx, Some(1), positions.rev().map(row)))
    }
}

/// Whether a script is an OP_RETURN whose pushes, one behind the other, begin with these bytes.
pub(crate) fn begins_with(script: &Script, prefix: &[u8]) -> bool {
    op_return(script).is_some_and(|(_, pushes)| pushes.concat().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(hex: &[&str]) -> Vec<ScriptBuf> {
        hex.iter().map(|hex| ScriptBuf::from_hex(hex).unwrap()).collect()
    }

    #[test]
    fn a_coinbase_has_no_feerate_that_could_meet_a_bound() {
        let keeps =
            |filter: TransactionFilter, rate: Option<f64>| filter.keeps(rate.is_none(), rate, 0, std::iter::empty);
        let least = TransactionFilter { min_fee_rate: Some(0.0), ..Default::default() };
        let most = TransactionFilter { max_fee_rate: Some(9.0), ..Default::default() };
        assert!(keeps(least.clone(), Some(0.0)) && keeps(most.clone(), Some(9.0)));
        assert!(!keeps(least, None) && !keeps(most, None));
        let of_kind = |coinbase| TransactionFilter { is_coinbase: Some(coinbase), ..Default::default() };
        assert!(keeps(of_kind(true), None) && keeps(of_kind(false), Some(1.0)));
        assert!(!keeps(of_kind(false), None) && !keeps(of_kind(true), Some(1.0)));
    }

    #[test]
    fn one_output_is_enough_to_meet_a_condition_on_scripts() {
        // pay to anchor, and two pushes "ab" and "cd" behind OP_RETURN
        let outputs = scripts(&["51024e73", "6a026162026364"]);
        let keeps =
            |filter: &TransactionFilter| filter.keeps(false, None, 0, || outputs.iter().map(ScriptBuf::as_script));
        let types =
            |types: &[ScriptTypeEnum]| TransactionFilter { script_types: Some(types.into()), ..Default::default() };
        assert!(
            keeps(&types(&[ScriptTypeEnum::P2tr, ScriptTypeEnum::P2a])) && keeps(&types(&[ScriptTypeEnum::OpReturn]))
        );
        assert!(!keeps(&types(&[ScriptTypeEnum::P2tr])) && !keeps(&types(&[])));
        let data = |hex: &str| TransactionFilter {
            op_return_prefix: Some(Hex::new(ScriptBuf::from_hex(hex).unwrap().into_bytes())),
            ..Default::default()
        };
        for (prefix, expected) in
            [("", true), ("61", true), ("616263", true), ("61626364", true), ("6162636465", false), ("02", false)]
        {
            assert_eq!(keeps(&data(prefix)), expected, "{prefix:?}");
        }
        assert!(
            !data("").keeps(false, None, 0, || outputs[..1].iter().map(ScriptBuf::as_script)),
            "there is no OP_RETURN"
        );
    }
}
