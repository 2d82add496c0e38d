//! Scalars, one file each, and the rule for the built-in `Int`.
//!
//! Each is as strict in `is_valid` as in `parse`, so that a bad literal or variable is refused before anything is
//! executed. async-graphql exposes every Rust integer as `Int`, which clients read as 32 bits: resolvers return `i32`
//! by way of [`int`], or one of these types.

mod big_int;
mod date_time;
mod decimal;
mod hashes;
mod hex;
mod int53;
mod int_range;
mod integer;
mod rules;
mod sats;
mod signed_sats;
mod uint53;

pub(crate) use big_int::BigInt;
pub(crate) use date_time::DateTime;
pub(crate) use decimal::Decimal;
pub(crate) use hashes::{BlockHash, Hash256, Txid, Wtxid};
pub(crate) use hex::Hex;
pub(crate) use int_range::IntRange;
pub(crate) use int53::Int53;
pub(crate) use integer::{int, int_of};
pub(crate) use rules::explain;
pub(crate) use sats::Sats;
pub(crate) use signed_sats::SignedSats;
pub(crate) use uint53::UInt53;

#[cfg(test)]
mod tests;
