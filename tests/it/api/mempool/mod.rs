//! Unconfirmed transactions.

mod broadcasts;
mod entries;
mod fees;
mod lists;
pub(crate) mod projected;
mod replacements;
