//! What inputs reveal of the outputs that they spend, when they may spend them, and what follows from those outputs.

pub(crate) mod figures;
mod output_age;
mod relative_lock;
mod sighash_type;
mod tap_leaf;
mod transaction_feature;
mod transaction_hop;

pub(crate) use output_age::OutputAgeObject;
pub(crate) use relative_lock::RelativeLockObject;
pub(crate) use sighash_type::SighashType;
pub(crate) use tap_leaf::TapLeafObject;
pub(crate) use transaction_feature::TransactionFeature;
pub(crate) use transaction_hop::{HopDirection, TransactionHop, hops};
