//! The UTXO set right after a block, from the running totals of its chain.

use crate::chain::ScriptType;
use crate::index::{ChainTotals, CountAndValue, IndexError};

/// The unspent outputs by script type, in the order of [`ScriptType::ALL`], right after the last block of a chain with these
/// totals. Errors: totals that do not add up.
pub fn unspent_by_type(running: &ChainTotals) -> Result<Vec<(ScriptType, CountAndValue)>, IndexError> {
    let rest = |script_type: ScriptType| {
        let totals = &running.types[script_type.index()];
        let left = |all: u128, spent: u128, unspendable: u128| all.checked_sub(spent)?.checked_sub(unspendable);
        let count = left(totals.created.count.into(), totals.spent.count.into(), totals.unspendable.count.into());
        let count = count.and_then(|count| u64::try_from(count).ok())?;
        let value = left(totals.created.value, totals.spent.value, totals.unspendable.value)?;
        Some((script_type, CountAndValue { count, value }))
    };
    let by_type: Option<Vec<_>> = ScriptType::ALL.into_iter().map(rest).collect();
    let adds_up = |by_type: &Vec<(ScriptType, CountAndValue)>| {
        let count: u128 = by_type.iter().map(|(_, pair)| u128::from(pair.count)).sum();
        let value = by_type.iter().try_fold(0_u128, |sum, (_, pair)| sum.checked_add(pair.value));
        count == u128::from(running.utxo_count) && value == Some(running.utxo_value.into())
    };
    by_type
        .filter(adds_up)
        .ok_or_else(|| IndexError::corrupt("blocks", "the script types of a row are not its UTXO set"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{BlockRow, TypeTotals};

    fn pair(count: u64, value: u128) -> CountAndValue {
        CountAndValue { count, value }
    }

    fn running() -> ChainTotals {
        let mut types = [TypeTotals::default(); ScriptType::ALL.len()];
        types[ScriptType::P2wpkh.index()] =
            TypeTotals { created: pair(9, 900), spent: pair(4, 300), unspendable: pair(1, 100) };
        types[ScriptType::OpReturn.index()] =
            TypeTotals { created: pair(2, 7), spent: pair(0, 0), unspendable: pair(2, 7) };
        types[ScriptType::P2tr.index()] =
            TypeTotals { created: pair(3, 30), spent: pair(0, 0), unspendable: pair(0, 0) };
        ChainTotals { utxo_count: 7, utxo_value: 530, types, ..BlockRow::example().running }
    }

    #[test]
    fn what_is_neither_spent_nor_unspendable_is_unspent() {
        for (script_type, found) in unspent_by_type(&running()).unwrap() {
            let expected = match script_type {
                ScriptType::P2wpkh => pair(4, 500),
                ScriptType::P2tr => pair(3, 30),
                _ => pair(0, 0),
            };
            assert_eq!(found, expected, "{script_type:?}");
        }
    }

    #[test]
    fn types_that_do_not_add_up_are_damage() {
        let good = running();
        let mut overspent = good.clone();
        overspent.types[ScriptType::P2tr.index()].spent = pair(4, 30);
        for bad in
            [ChainTotals { utxo_count: 8, ..good.clone() }, ChainTotals { utxo_value: 529, ..good.clone() }, overspent]
        {
            assert!(unspent_by_type(&bad).unwrap_err().to_string().contains("are not its UTXO set"));
        }
    }
}
