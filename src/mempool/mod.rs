//! The unconfirmed transactions, in memory: one writer, and snapshots that never change.
//!
//! ```text
//!   Arrival ──► Mempool ──► snapshot() ──► MempoolSnapshot     get, spender, parents, children      graph
//!   block   ──►   │ one writer                                 script, script_totals                scripts
//!                 │                                            script_places, script_at             script_list
//!                 │                                            by_arrival, by_feerate, …            feerate
//!                 ▼                                            fee_histogram                        histogram
//!            MempoolState: persistent                          projected_blocks, projected_place    projection
//!            maps, shared with snapshots                       events_after                         events
//!                                                              departed, replaces, replacing        departed
//!                                                              is_replaceable, replacement_fee      bump
//!                                                              recommended_fees                     recommended
//!                                                              MempoolSample                        sample
//!   transactions of a block ──► MinedClusters                  feerates                             mined
//! ```
//!
//! The node decides what is in its mempool; this module mirrors it and keeps its indexes consistent. It reads no clock,
//! no disk and no network, and does not judge transactions: relay policy is the node's.
//!
//! The *effective* feerate of a transaction depends on its cluster. `linearise` orders a cluster as Core's miner does and
//! splits it into chunks, `clusters` does so for the clusters that changed, and `projection` fills blocks with chunks.
//! `encoding` serialises what outlives the process.

mod admission;
mod arrivals;
mod audit;
mod bump;
mod clusters;
mod departed;
mod encoding;
mod entry;
mod events;
mod feerate;
mod graph;
mod histogram;
mod ids;
mod limits;
mod linearise;
mod mined;
mod prevouts;
mod projection;
mod recommended;
mod sample;
mod scripts;
mod snapshot;
mod state;
mod writer;

#[cfg(test)]
mod tests;

pub use admission::AddError;
pub use arrivals::{ArrivalRate, RATE_WINDOW};
pub use audit::BlockAudit;
pub use departed::Departed;
pub use entry::{Arrival, Cause, Entry};
pub use events::{Departure, MempoolEvent, MempoolEventKind};
pub use feerate::{FeeFraction, Rank};
pub use graph::{Relatives, Sums};
pub use histogram::{FeeBin, FeeBins, FeerateKind};
pub use limits::{MempoolLimits, NodeMempool, PROJECTED_BLOCK_WEIGHT};
pub use mined::{MinedClusters, MinedTransaction, ahead_of_better};
pub use prevouts::{Prevout, PrevoutRef, PrevoutSource, Prevouts, PrevoutsIter};
pub use projection::{PROJECTED_PERCENT, ProjectedBlock, ProjectedPlace, Remainder};
pub use recommended::RecommendedFees;
pub use sample::{MempoolSample, SAMPLED_TARGETS, SampledEstimates};
pub use scripts::list::{MempoolScript, ScriptPlace};
pub use scripts::{Coins, ScriptTotals};
pub use snapshot::MempoolSnapshot;
pub use state::MempoolTotals;
pub use writer::{Added, BlockEffect, ConnectedBlock, Mempool};
