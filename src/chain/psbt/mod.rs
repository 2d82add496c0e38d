//! Partially signed transactions (BIP174): from a text, and what each input still needs.
//!
//! ```text
//!   text.rs ──► parse.rs ──► Psbt ──► input.rs    the spent output, and what is missing of its authorisation
//!                 │                      └── solve.rs    which keys and scripts a script asks for
//!                 └── off_curve.rs    entries that the library refuses and the node does not
//! ```
//!
//! Signatures are counted and not verified. Secrets have no place in a PSBT, and none is looked for.

mod error;
mod input;
mod off_curve;
mod parse;
mod solve;
#[cfg(test)]
mod tests;
mod text;

pub use error::PsbtError;
pub use input::{PsbtInputState, PsbtRole, SpendData, contradicts_itself, input_state, signed_size, utxo_of};
pub use parse::parse_psbt;
pub use solve::MissingParts;
