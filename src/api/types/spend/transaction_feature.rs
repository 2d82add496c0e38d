use async_graphql::Enum;

use crate::chain::StructuralFeature;

/// A feature of a transaction: a fact about its structure, and no guess at its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum TransactionFeature {
    /// An input has a witness (BIP141).
    Witness,
    /// An input signals replaceability (BIP125).
    RbfSignal,
    /// The version is 3, which restricts unconfirmed ancestors and descendants (BIP431).
    Truc,
    /// A lock time applies: it is not 0, and an input has a sequence number below 4294967295.
    LockTime,
    /// An input has a relative lock time that is not 0 (BIP68).
    RelativeLockTime,
    /// An output starts with OP_RETURN.
    OpReturn,
    /// An input spends a P2TR output by its key (BIP341).
    TaprootKeySpend,
    /// An input spends a P2TR output by a leaf of its script tree (BIP341).
    TaprootScriptSpend,
    /// An input that spends a P2TR output has an annex (BIP341).
    Annex,
    /// An input spends bare multisig, or reveals a redeem script or witness script with OP_CHECKMULTISIG.
    MultisigSpend,
    /// A tapscript that an input reveals has an inscription envelope: OP_FALSE, OP_IF and a push of `ord`.
    InscriptionEnvelope,
    /// A signature leaves inputs or outputs open: NONE, SINGLE or ANYONECANPAY.
    PartialSighash,
}

impl From<StructuralFeature> for TransactionFeature {
    fn from(feature: StructuralFeature) -> Self {
        match feature {
            StructuralFeature::Witness => Self::Witness,
            StructuralFeature::RbfSignal => Self::RbfSignal,
            StructuralFeature::Truc => Self::Truc,
            StructuralFeature::LockTime => Self::LockTime,
            StructuralFeature::RelativeLockTime => Self::RelativeLockTime,
            StructuralFeature::OpReturn => Self::OpReturn,
            StructuralFeature::TaprootKeySpend => Self::TaprootKeySpend,
            StructuralFeature::TaprootScriptSpend => Self::TaprootScriptSpend,
            StructuralFeature::Annex => Self::Annex,
            StructuralFeature::MultisigSpend => Self::MultisigSpend,
            StructuralFeature::InscriptionEnvelope => Self::InscriptionEnvelope,
            StructuralFeature::PartialSighash => Self::PartialSighash,
        }
    }
}

impl From<TransactionFeature> for StructuralFeature {
    fn from(feature: TransactionFeature) -> Self {
        match feature {
            TransactionFeature::Witness => Self::Witness,
            TransactionFeature::RbfSignal => Self::RbfSignal,
            TransactionFeature::Truc => Self::Truc,
            TransactionFeature::LockTime => Self::LockTime,
            TransactionFeature::RelativeLockTime => Self::RelativeLockTime,
            TransactionFeature::OpReturn => Self::OpReturn,
            TransactionFeature::TaprootKeySpend => Self::TaprootKeySpend,
            TransactionFeature::TaprootScriptSpend => Self::TaprootScriptSpend,
            TransactionFeature::Annex => Self::Annex,
            TransactionFeature::MultisigSpend => Self::MultisigSpend,
            TransactionFeature::InscriptionEnvelope => Self::InscriptionEnvelope,
            TransactionFeature::PartialSighash => Self::PartialSighash,
        }
    }
}
