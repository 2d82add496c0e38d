//! What belongs to one answer: its byte budget, its reads, and what its fields wait for together or keep for each other.

mod byte_budget;
mod kept_by_block;
mod mined_feerates;
mod read_set;
mod wanted_together;
mod witness_tree;

pub use byte_budget::BudgetExceeded;
pub(super) use byte_budget::ByteBudget;
pub(super) use kept_by_block::KeptByBlock;
pub use mined_feerates::MinedFeerates;
pub use read_set::{Dependency, Freshness, ReadSet};
pub(super) use wanted_together::{QueuePlace, ReadingStep, WantedTogether};
pub(super) use witness_tree::WitnessTree;
