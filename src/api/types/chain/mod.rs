//! The main chain: summary, supply, epochs, difficulty, tips, reorgs and its events.

mod chain;
mod chain_event;
mod chain_summary;
mod chain_tip;
mod deployment;
mod difficulty_adjustment;
mod difficulty_epoch;
mod halving;
mod range_totals;
mod reorg;
mod script_type_totals;
mod series_point;
mod snapshot;
mod supply;
mod utxo_set;

pub(crate) use chain::Chain;
pub(crate) use chain_event::ChainEventObject;
pub(crate) use chain_tip::ChainTipObject;
pub(crate) use difficulty_adjustment::DifficultyAdjustment;
pub(crate) use difficulty_epoch::DifficultyEpochObject;
pub(crate) use reorg::{ConflictedTransaction, Reorg, ReorgBlock};
pub(crate) use series_point::SeriesPoint;
pub(crate) use snapshot::SnapshotObject;
