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
pub(crate) use chain_event::{BlockConnected, BlockDisconnected, ChainEventObject};
pub(crate) use chain_summary::ChainSummary;
pub(crate) use chain_tip::ChainTipObject;
pub(crate) use deployment::{Bip9DeploymentObject, Bip9Statistics, DeploymentObject};
pub(crate) use difficulty_adjustment::DifficultyAdjustment;
pub(crate) use difficulty_epoch::DifficultyEpochObject;
pub(crate) use halving::Halving;
pub(crate) use range_totals::RangeTotals;
pub(crate) use reorg::{ConflictedTransaction, Reorg, ReorgBlock};
pub(crate) use script_type_totals::ScriptTypeTotals;
pub(crate) use series_point::SeriesPoint;
pub(crate) use snapshot::SnapshotObject;
pub(crate) use supply::SupplyObject;
pub(crate) use utxo_set::{UtxoSetObject, UtxoTypeCount};
