use async_graphql::{Enum, SimpleObject};
use bitcoin::Script;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::int;
use crate::chain::spending::input_weight;
use crate::chain::{Feerate, Height};
use crate::view::mature_at;

/// A reason why an output cannot be safely spent in the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum SpendObstacle {
    /// No block contains it yet, so it may never be confirmed.
    Unconfirmed,
    /// A coinbase created it, and it is not mature enough for the next block to spend it.
    Immature,
    /// A mempool transaction spends it.
    SpentInMempool,
}

/// Whether an output can be spent in the next block, and if not, why.
#[derive(Debug, PartialEq, SimpleObject)]
pub(crate) struct Spendability {
    /// Whether the output can be spent. The amounts of all outputs of a ledger for which this is true add up to
    /// `balance.spendable`.
    is_spendable: bool,
    /// The reasons why the output cannot be spent. Empty if `isSpendable` is true.
    #[graphql(complexity = "costs::few(child_complexity)")]
    reasons: Vec<SpendObstacle>,
    /// The lowest height of a block that may spend the output. Null unless the output is an immature coinbase output.
    not_before_height: Option<i32>,
}

impl FieldCacheability for Spendability {
    const IMMUTABLE: &'static str = "isSpendable reasons notBeforeHeight";
}

impl Spendability {
    /// That of an output which a block of this height created, right after the block at `at`. `height` is `None` while it
    /// is unconfirmed.
    pub(crate) fn of(
        height: Option<Height>,
        is_coinbase: bool,
        at: Height,
        spent_in_mempool: bool,
    ) -> Result<Self, ApiError> {
        let mature = height.filter(|_| is_coinbase).map(mature_at).filter(|mature| *mature > at.next());
        let obstacles = [
            (height.is_none(), SpendObstacle::Unconfirmed),
            (mature.is_some(), SpendObstacle::Immature),
            (spent_in_mempool, SpendObstacle::SpentInMempool),
        ];
        let reasons: Vec<_> = obstacles.into_iter().filter_map(|(there, obstacle)| there.then_some(obstacle)).collect();
        let not_before_height = mature.map(|height| int(height.to_u32())).transpose()?;
        Ok(Self { is_spendable: reasons.is_empty(), reasons, not_before_height })
    }
}

/// What is left of an amount once the input that spends it is paid for at a feerate, in sat; `None` if it is unknown how
/// large that input is. The fee is rounded up.
pub(crate) fn effective_value(value: u64, script_pubkey: &Script, feerate: Feerate) -> Option<i128> {
    let weight = i128::from(input_weight(script_pubkey)?.to_wu());
    // both are at most 64 bits
    let fee = (i128::from(feerate.to_sat_per_kvb()) * weight + 3_999) / 4_000;
    Some(i128::from(value) - fee)
}

#[cfg(test)]
mod tests {
    use bitcoin::ScriptBuf;

    use super::*;

    #[test]
    fn a_coinbase_matures_100_blocks_above_its_own() {
        let of = |at: u32| Spendability::of(Some(5.into()), true, at.into(), false).unwrap();
        let immature =
            Spendability { is_spendable: false, reasons: vec![SpendObstacle::Immature], not_before_height: Some(105) };
        assert_eq!((of(5), of(103)), (immature, of(5)));
        assert_eq!(of(104), Spendability { is_spendable: true, reasons: Vec::new(), not_before_height: None });
        assert!(Spendability::of(Some(5.into()), false, 5.into(), false).unwrap().is_spendable, "others need no time");
    }

    #[test]
    fn all_reasons_are_reported() {
        let of =
            |height: Option<u32>, spent| Spendability::of(height.map(Height::from), true, 5.into(), spent).unwrap();
        assert_eq!(of(None, true).reasons, [SpendObstacle::Unconfirmed, SpendObstacle::SpentInMempool]);
        assert_eq!(of(Some(5), true).reasons, [SpendObstacle::Immature, SpendObstacle::SpentInMempool]);
    }

    #[test]
    fn the_fee_for_an_input_is_rounded_up() {
        let p2wpkh = ScriptBuf::from_hex(&format!("0014{}", "00".repeat(20))).unwrap();
        for (value, sat_per_vb, left) in
            [(1_000, 0.0, 1_000), (1_000, 1.0, 932), (1_000, 0.001, 999), (100, 10.0, -580), (0, 2.5, -170)]
        {
            let feerate = Feerate::from_sat_per_vb(sat_per_vb).unwrap();
            assert_eq!(effective_value(value, &p2wpkh, feerate), Some(left), "{value} at {sat_per_vb}");
        }
        let most = Feerate::from_sat_per_kvb(u64::MAX);
        assert!(effective_value(u64::MAX, &p2wpkh, most).is_some());
        assert_eq!(effective_value(1, &ScriptBuf::new(), Feerate::ZERO), None);
    }
}
