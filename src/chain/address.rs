//! Addresses: the text that stands for a scriptPubKey, and back.
//!
//! Base58Check for P2PKH and P2SH, bech32 for witness version 0 (BIP173), bech32m for all others (BIP350). P2PK, bare
//! multisig and everything else have no address. Where an encoding allows both cases, an address is encoded in lower
//! case. Text that is no address is refused with the reason and, where it is known, the position.

mod error;
mod form;
mod positions;
#[cfg(test)]
mod tests;
mod text;

pub use error::{AddressEncoding, AddressError};
pub use text::{address_beginning, address_of, parse_address, parse_any_address};
