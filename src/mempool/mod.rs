//! The unconfirmed transactions, in memory: one writer, and snapshots that never change.
//!
//! ```text
//!   Arrival ──► Mempool ──► snapshot() ──► MempoolSnapshot     get, spender, parents, children      graph
//!   block   ──►   │ one writer                                 script, script_totals                scripts
//!                 │                                            touched, touched_script              touched
//!                 │                                            by_arrival, by_feerate, …            feerate
//!                 ▼                                            fee_histogram                        histogram
//!            State: persistent maps,                           projected_blocks, projected_place    projection
//!            shared with all snapshots                         events_after                         events
//!                                                              departed, replaces, replacements     departed
//!                                                              is_replaceable, replacement_fee  bump
//!                                                              recommended_fees         recommended
//!                                                              MempoolSample            sample
//! ```
//!
//! The node decides what is in its mempool; this room is told so, and only keeps its own books right. It reads no
//! clock, no disk and no network, and does not judge transactions: rules of relay are the node's.
//!
//! What a transaction *effectively* offers depends on those around it. `linearise` orders a cluster as Core's miner
//! does and cuts it into chunks, `settle` does so for what changed, and `projection` fills blocks with the chunks.
//! `written` turns what is to outlive the process into bytes.

mod arrivals;
mod bump;
mod departed;
mod entry;
mod events;
mod feerate;
mod graph;
mod histogram;
mod ids;
mod limits;
mod linearise;
mod prevouts;
mod projection;
mod recommended;
mod sample;
mod scripts;
mod settle;
mod snapshot;
mod state;
mod touched;
mod writer;
mod written;

#[cfg(test)]
mod tests;

pub use arrivals::{ArrivalRate, RATE_WINDOW};
pub use departed::Departed;
pub use entry::{Arrival, Cause, Entry, Prevout, PrevoutSource};
pub use events::{Departure, MempoolEvent, MempoolEventKind};
pub use feerate::{FeeFraction, Rank};
pub use graph::{Relatives, Sums};
pub use histogram::{FeeBin, FeeBins, FeerateKind};
pub use limits::{MempoolLimits, NodeMempool};
pub use prevouts::{PrevoutRef, Prevouts, PrevoutsIter};
pub use projection::{PROJECTED_BLOCK_WEIGHT, PROJECTED_PERCENT, ProjectedBlock, ProjectedPlace, Remainder};
pub use recommended::RecommendedFees;
pub use sample::MempoolSample;
pub use scripts::{Coins, ScriptTotals};
pub use snapshot::MempoolSnapshot;
pub use state::MempoolTotals;
pub use touched::{ScriptPlace, TouchedScript};
pub use writer::{AddError, Added, BlockEffect, ConnectedBlock, Mempool};
