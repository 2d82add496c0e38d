//! The effect of one transaction on a ledger, from its parts and the outputs that it spends: no row of an index is needed,
//! so it is the same for a confirmed transaction, an unconfirmed one, and one that was never sent.

use bitcoin::{Amount, TxOut};

use super::Ledger;
use crate::chain::script::never_spendable;
use crate::index::TxNum;
use crate::view::{Transaction, View};

/// Who pays the fee of a transaction, as far as a ledger is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeeAttribution {
    /// The ledger owns no input, and pays nothing.
    NoInputs,
    /// The ledger owns all inputs, and pays the whole fee.
    AllInputs,
    /// The ledger owns some inputs, and pays the part of the fee that their value is of the value of all inputs, rounded down.
    Proportional,
    /// A spent output is not known, so the effect is unknown.
    Unknown,
}

/// The effect of a transaction on a ledger. Outputs that can never be spent belong to no ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetEffect {
    /// The value of its outputs to the ledger, in sat.
    pub received: u64,
    /// The value of the ledger's outputs that it spends, in sat. `None` if a spent output is not known.
    pub spent: Option<u64>,
    /// The part of the fee that the ledger pays, in sat. `None` if the attribution is unknown, or the ledger owns inputs of a
    /// transaction whose outputs exceed its inputs.
    pub fee_paid: Option<u64>,
    /// Why it pays that part.
    pub fee_attribution: FeeAttribution,
    /// How many of its inputs spend outputs of the ledger. `None` if a spent output is not known.
    pub own_inputs: Option<usize>,
    /// How many of its outputs pay the ledger.
    pub own_outputs: usize,
    /// Whether the ledger owns all inputs, all outputs that can be spent, and at least one of those. `None` if a spent output is
    /// not known.
    pub is_self_transfer: Option<bool>,
}

impl NetEffect {
    /// The change of the ledger's balance in sat. `None` if a spent output is not known.
    #[must_use]
    pub fn net(&self) -> Option<i128> {
        Some(i128::from(self.received) - i128::from(self.spent?))
    }
}

impl View {
    /// The effect of a transaction on a ledger. `prevouts` are the outputs that it spends, one for each input
    /// ([`View::prevouts`]).
    #[must_use]
    pub fn net_effect(&self, ledger: &Ledger, transaction: &Transaction, prevouts: &[Option<TxOut>]) -> NetEffect {
        let is_own = |output: &TxOut| self.owns(ledger, output);
        effect(&transaction.parts, prevouts, is_own, |output| can_be_spent(transaction, output))
    }

    /// The outputs of a transaction to a ledger, by their indexes.
    #[must_use]
    pub fn own_outputs(&self, ledger: &Ledger, transaction: &Transaction) -> Vec<u32> {
        let outputs = (0..).zip(&transaction.parts.output);
        let own = outputs.filter(|(_, output)| can_be_spent(transaction, output) && self.owns(ledger, output));
        own.map(|(vout, _)| vout).collect()
    }

    /// Whether an output has a script of a ledger, and can be spent by that.
    #[must_use]
    pub fn owns(&self, ledger: &Ledger, output: &TxOut) -> bool {
        self.script_within(ledger, output.script_pubkey.as_bytes()).is_some()
    }
}

/// Whether an output of a transaction can ever be spent. Those of the genesis block cannot.
fn can_be_spent(transaction: &Transaction, output: &TxOut) -> bool {
    let is_genesis = transaction.place.is_some_and(|place| place.txnum == TxNum(0));
    !is_genesis && !never_spendable(&output.script_pubkey)
}

fn effect(
    parts: &bitcoin::Transaction,
    prevouts: &[Option<TxOut>],
    is_own: impl Fn(&TxOut) -> bool,
    can_be_spent: impl Fn(&TxOut) -> bool,
) -> NetEffect {
    let (mut received, mut own_outputs, mut paid, mut pays_others) = (0_u64, 0, 0_u64, false);
    for output in &parts.output {
        paid = paid.saturating_add(output.value.to_sat());
        if !can_be_spent(output) {
            continue;
        }
        if is_own(output) {
            received = received.saturating_add(output.value.to_sat());
            own_outputs += 1;
        } else {
            pays_others = true;
        }
    }
    let inputs = if parts.is_coinbase() { Some(InputSums::default()) } else { InputSums::of(prevouts, is_own) };
    let Some(InputSums { all, own, value, own_value }) = inputs else {
        let (fee_attribution, unknown) = (FeeAttribution::Unknown, None);
        return NetEffect {
            received,
            spent: None,
            fee_paid: None,
            fee_attribution,
            own_inputs: unknown,
            own_outputs,
            is_self_transfer: None,
        };
    };
    let fee_attribution = match own {
        0 => FeeAttribution::NoInputs,
        _ if own == all => FeeAttribution::AllInputs,
        _ => FeeAttribution::Proportional,
    };
    let fee_paid = match fee_attribution {
        FeeAttribution::NoInputs => Some(0),
        _ => value.checked_sub(paid).and_then(|fee| share(fee, own_value, value, own == all)),
    };
    NetEffect {
        received,
        spent: Some(own_value),
        fee_paid,
        fee_attribution,
        own_inputs: Some(own),
        own_outputs,
        is_self_transfer: Some(own > 0 && own == all && own_outputs > 0 && !pays_others),
    }
}

/// `fee` times `own` divided by `all`, rounded down.
fn share(fee: u64, own: u64, all: u64, is_whole: bool) -> Option<u64> {
    if is_whole || all == 0 {
        // without any value there is no fee either
        return Some(fee);
    }
    u64::try_from(u128::from(fee) * u128::from(own) / u128::from(all)).ok()
}

/// The inputs of a transaction, all of which are known.
#[derive(Clone, Copy, Default)]
struct InputSums {
    all: usize,
    own: usize,
    value: u64,
    own_value: u64,
}

impl InputSums {
    /// `None` if a spent output is not known, or if they have more value than all coins there can be, as a transaction that
    /// spends an output several times.
    fn of(prevouts: &[Option<TxOut>], is_own: impl Fn(&TxOut) -> bool) -> Option<Self> {
        let (mut inputs, mut sum, mut own_sum) = (Self::default(), Amount::ZERO, Amount::ZERO);
        for prevout in prevouts {
            let prevout = prevout.as_ref()?;
            sum = sum.checked_add(prevout.value).filter(|sum| *sum <= Amount::MAX_MONEY)?;
            inputs.all += 1;
            if is_own(prevout) {
                own_sum = own_sum.checked_add(prevout.value)?;
                inputs.own += 1;
            }
        }
        (inputs.value, inputs.own_value) = (sum.to_sat(), own_sum.to_sat());
        Some(inputs)
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::absolute::LockTime;
    use bitcoin::transaction::Version;
    use bitcoin::{OutPoint, ScriptBuf, Transaction, TxIn, Txid};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const OWN: u8 = 0x51;
    const OTHER: u8 = 0x52;
    const DATA: u8 = 0x6a;

    fn output((value, script): (u64, u8)) -> TxOut {
        TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::from_bytes(vec![script]) }
    }

    fn effect_of(inputs: &[Option<(u64, u8)>], outputs: &[(u64, u8)]) -> NetEffect {
        use bitcoin::hashes::Hash;
        let spent = OutPoint { txid: Txid::from_byte_array([7; 32]), vout: 0 };
        let input = inputs.iter().map(|_| TxIn { previous_output: spent, ..TxIn::default() }).collect();
        let parts = Transaction {
            version: Version::TWO,
            lock_time: LockTime::ZERO,
            input,
            output: outputs.iter().copied().map(output).collect(),
        };
        let prevouts: Vec<_> = inputs.iter().map(|input| input.map(output)).collect();
        let is_own = |output: &TxOut| output.script_pubkey.as_bytes() == [OWN];
        effect(&parts, &prevouts, is_own, |output| !never_spendable(&output.script_pubkey))
    }

    #[test]
    fn the_fee_is_paid_by_the_owners_of_the_inputs() {
        use FeeAttribution::{AllInputs, NoInputs, Proportional, Unknown};
        type Parts<'p> = &'p [(u64, u8)];
        type Case<'p> = (Parts<'p>, Parts<'p>, (u64, u64, u64), FeeAttribution, bool);
        let cases: [Case<'_>; 11] = [
            (&[(100, OWN)], &[(60, OTHER), (30, OWN)], (30, 100, 10), AllInputs, false),
            (&[(100, OTHER)], &[(60, OWN), (30, OTHER)], (60, 0, 0), NoInputs, false),
            (&[(100, OWN), (50, OWN)], &[(140, OWN)], (140, 150, 10), AllInputs, true),
            (&[(100, OWN)], &[(90, OWN), (0, DATA)], (90, 100, 10), AllInputs, true),
            // without an output to itself it burns its coins, or pays them all to miners
            (&[(100, OWN)], &[(90, DATA)], (0, 100, 10), AllInputs, false),
            (&[(100, OWN)], &[(0, DATA)], (0, 100, 100), AllInputs, false),
            (&[(100, OWN)], &[(0, OWN), (0, DATA)], (0, 100, 100), AllInputs, true),
            // a coinjoin: 10 × 1 / 3 is 3 and a third
            (&[(50, OWN), (100, OTHER)], &[(70, OWN), (70, OTHER)], (70, 50, 3), Proportional, false),
            (&[(0, OWN), (100, OTHER)], &[(90, OTHER)], (0, 0, 0), Proportional, false),
            (&[(0, OWN), (0, OTHER)], &[(0, OTHER)], (0, 0, 0), Proportional, false),
            (&[], &[(50, OWN)], (50, 0, 0), NoInputs, false),
        ];
        for (inputs, outputs, (received, spent, fee), attribution, is_self) in cases {
            let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
            let found = effect_of(&inputs, outputs);
            assert_eq!((found.received, found.spent, found.fee_paid), (received, Some(spent), Some(fee)), "{inputs:?}");
            assert_eq!((found.fee_attribution, found.is_self_transfer), (attribution, Some(is_self)), "{inputs:?}");
            assert_eq!(found.net(), Some(i128::from(received) - i128::from(spent)));
        }
        let unknown = effect_of(&[Some((100, OWN)), None], &[(90, OWN)]);
        assert_eq!((unknown.received, unknown.spent, unknown.net(), unknown.fee_paid), (90, None, None, None));
        assert_eq!((unknown.fee_attribution, unknown.own_inputs), (Unknown, None));
    }

    #[test]
    fn a_transaction_that_no_chain_allows_has_no_fee() {
        let pays_too_much = effect_of(&[Some((100, OWN))], &[(101, OTHER)]);
        assert_eq!((pays_too_much.spent, pays_too_much.fee_paid), (Some(100), None));
        let all = Amount::MAX_MONEY.to_sat();
        let spends_too_much = effect_of(&[Some((all, OWN)), Some((1, OWN))], &[(all, OTHER)]);
        assert_eq!((spends_too_much.spent, spends_too_much.fee_attribution), (None, FeeAttribution::Unknown));
    }

    proptest! {
        #[test]
        fn all_owners_together_pay_the_fee_but_for_what_is_rounded(
            inputs in vec((0..1_u64 << 40, any::<bool>()), 1..20),
            fee in 0..1_u64 << 30,
        ) {
            let value: u64 = inputs.iter().map(|(value, _)| value).sum();
            let fee = fee.min(value);
            let outputs = [(value - fee, OTHER)];
            let as_seen_by = |side: bool| {
                let owner = |own: bool| if own == side { OWN } else { OTHER };
                let inputs: Vec<_> = inputs.iter().map(|(value, own)| Some((*value, owner(*own)))).collect();
                effect_of(&inputs, &outputs)
            };
            let (one, other) = (as_seen_by(true), as_seen_by(false));
            prop_assert_eq!(one.spent.unwrap() + other.spent.unwrap(), value);
            let paid = one.fee_paid.unwrap() + other.fee_paid.unwrap();
            prop_assert!(paid == fee || paid + 1 == fee, "{} of {}", paid, fee);
        }
    }
}
