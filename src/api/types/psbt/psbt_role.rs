use async_graphql::Enum;

use crate::chain::psbt::PsbtRole;

/// Who has to act next on a PSBT, or on an input of one (BIP174).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "PsbtRole")]
pub(crate) enum PsbtRoleEnum {
    /// Spent outputs, scripts or keys have to be added.
    Updater,
    /// Signatures are missing.
    Signer,
    /// There are enough signatures, which have to be put into scriptSig or witness.
    Finalizer,
    /// Everything is final.
    Extractor,
}

impl From<PsbtRole> for PsbtRoleEnum {
    fn from(role: PsbtRole) -> Self {
        match role {
            PsbtRole::Updater => Self::Updater,
            PsbtRole::Signer => Self::Signer,
            PsbtRole::Finalizer => Self::Finalizer,
            PsbtRole::Extractor => Self::Extractor,
        }
    }
}
