//! Partially signed transactions: the whole, its inputs and outputs, and the keys and signatures of them.

mod decoded_psbt;
mod psbt_entry;
mod psbt_input;
mod psbt_key;
mod psbt_output;
mod psbt_role;

pub(crate) use decoded_psbt::DecodedPsbt;
pub(crate) use psbt_entry::{PsbtPreimage, PsbtProprietaryEntry, PsbtTapLeaf, PsbtUnknownEntry, PsbtXpub};
pub(crate) use psbt_input::PsbtInput;
pub(crate) use psbt_key::{PsbtDerivation, PsbtSignature};
pub(crate) use psbt_output::PsbtOutput;
