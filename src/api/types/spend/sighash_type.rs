use async_graphql::Enum;
use bitcoin::psbt::PsbtSighashType;

use crate::chain::spend::SignatureHash;

/// Which parts of a transaction a signature commits to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum SighashType {
    /// All of it, as taproot signatures do if they do not say otherwise (BIP341).
    Default,
    /// All inputs and outputs.
    All,
    /// All inputs and no output.
    None,
    /// All inputs and the output with the index of the input.
    Single,
    /// Its own input and all outputs.
    AllAnyoneCanPay,
    /// Its own input and no output.
    NoneAnyoneCanPay,
    /// Its own input and the output with the index of the input.
    SingleAnyoneCanPay,
    /// A number without a meaning.
    Nonstandard,
}

impl From<PsbtSighashType> for SighashType {
    fn from(sighash: PsbtSighashType) -> Self {
        match sighash.to_u32() {
            0x00 => Self::Default,
            0x01 => Self::All,
            0x02 => Self::None,
            0x03 => Self::Single,
            0x81 => Self::AllAnyoneCanPay,
            0x82 => Self::NoneAnyoneCanPay,
            0x83 => Self::SingleAnyoneCanPay,
            _ => Self::Nonstandard,
        }
    }
}

impl From<SignatureHash> for SighashType {
    fn from(signature: SignatureHash) -> Self {
        match signature {
            // of ECDSA signatures 0 has no meaning
            SignatureHash::Ecdsa(0) => Self::Nonstandard,
            SignatureHash::Ecdsa(hash_type) | SignatureHash::Schnorr(hash_type) => {
                PsbtSighashType::from_u32(hash_type.into()).into()
            }
        }
    }
}
