use async_graphql::{Enum, SimpleObject};

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Sats, SignedSats, int_of};
use crate::view;

/// How much of a transaction's fee an owner pays. A fee is paid by the owners of the inputs, each by the value of their
/// inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "FeeAttribution")]
pub(crate) enum FeeAttributionEnum {
    /// Nothing: the owner has none of the inputs.
    NoInputs,
    /// The whole fee: the owner has all inputs.
    AllInputs,
    /// A part of the fee: `fee` times `spent`, divided by `totalInputValue`, rounded down to the satoshi.
    Proportional,
    /// Unknown, because a spent output is not known.
    Unknown,
}

impl From<view::FeeAttribution> for FeeAttributionEnum {
    fn from(attribution: view::FeeAttribution) -> Self {
        match attribution {
            view::FeeAttribution::NoInputs => Self::NoInputs,
            view::FeeAttribution::AllInputs => Self::AllInputs,
            view::FeeAttribution::Proportional => Self::Proportional,
            view::FeeAttribution::Unknown => Self::Unknown,
        }
    }
}

/// The effect of a transaction on the balance of an owner, whether the transaction is confirmed or not, or was never sent.
/// Outputs that can never be spent are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SimpleObject)]
#[graphql(name = "NetEffect")]
pub(crate) struct NetEffectObject {
    /// The sum of the transaction's outputs to the owner, in satoshis, including change.
    received: Sats,
    /// The sum of the owner's outputs that the transaction spends, in satoshis. Null if a spent output is not known, and if
    /// the transaction spends more than the coin supply.
    spent: Option<Sats>,
    /// The change of the balance, in satoshis: `received` minus `spent`. Null if `spent` is null.
    net: Option<SignedSats>,
    /// The part of the fee that the owner pays, in satoshis; `feeAttribution` says which. The owner sends `spent` minus
    /// `received` minus `feePaid` to others. Null if a spent output is not known, and if the owner has inputs of a transaction
    /// whose outputs exceed its inputs.
    fee_paid: Option<Sats>,
    /// The rule by which `feePaid` was found.
    fee_attribution: FeeAttributionEnum,
    /// The number of inputs that spend outputs of the owner. Null if a spent output is not known.
    own_input_count: Option<i32>,
    /// The number of outputs to the owner.
    own_output_count: i32,
    /// Whether the transaction moves coins within the owner: the owner has all inputs, all outputs that can be spent, and at
    /// least one of those. False if it burns the coins or pays them all as fee. Null if a spent output is not known.
    is_self_transfer: Option<bool>,
}

impl FieldCacheability for NetEffectObject {
    const IMMUTABLE: &'static str =
        "received spent net feePaid feeAttribution ownInputCount ownOutputCount isSelfTransfer";
}

impl NetEffectObject {
    pub(crate) fn new(effect: &view::NetEffect) -> Result<Self, ApiError> {
        Ok(Self {
            received: Sats::new(effect.received)?,
            spent: effect.spent.map(Sats::new).transpose()?,
            net: effect.net().map(SignedSats::new).transpose()?,
            fee_paid: effect.fee_paid.map(Sats::new).transpose()?,
            fee_attribution: effect.fee_attribution.into(),
            own_input_count: effect.own_inputs.map(int_of).transpose()?,
            own_output_count: int_of(effect.own_outputs)?,
            is_self_transfer: effect.is_self_transfer,
        })
    }
}
