//! The published Head, and the answer to a question over it.
//!
//! `sync` opens one snapshot after each commit and publishes it, together with the matching mempool, by one atomic swap. A
//! request, and each event of a subscription, pins the current Head in a [`View`], so that one answer is from one state of
//! the chain. Nothing else opens a read transaction.
//!
//! ```text
//!   Published ── head() ──► Head ── View::new ──► View ──► Block         block, block_contents, chain, series
//!                                                     ├──► Transaction   transaction, output, prevouts, figures, proofs, …
//!                                                     ├──► LedgerTotals  ledger, period
//!                                                     └──► NodeClient    node: what only the node knows
//! ```
//!
//! The encoding of rows is internal to the index, and the form of queries to the API.

mod addresses;
mod answer;
mod balance_changes;
mod block;
mod block_contents;
mod block_spends;
mod chain;
mod compared_blocks;
mod dry_run;
mod filters;
mod find_block;
mod find_transaction;
mod head;
mod ledger;
mod mined_cluster;
mod node;
mod observed;
mod output;
mod prevouts;
mod proofs;
mod relative_lock;
mod replaced;
mod sync_state;
mod tip_history;
mod together;
mod transaction;
#[expect(clippy::module_inception, reason = "the type this module is about")]
mod view;

pub use crate::chain::{OutputPart, TransactionParts};
pub use addresses::FoundAddress;
pub use answer::{BudgetExceeded, Dependency, Freshness, MinedFeerates, ReadSet};
pub use balance_changes::ScriptChange;
pub use block::Block;
pub use block_contents::{BlockContents, PayingTransaction, Share};
pub use chain::figures::OutputAge;
pub use chain::period::Period;
pub use chain::series::ChainPeriod;
pub use chain::utxo_set::unspent_by_type;
pub use chain::{BlockRange, ImmatureCoinbase, Span, Supply};
pub use compared_blocks::{ComparedBlocks, ComparedTotals};
pub use dry_run::Obstacles;
pub(crate) use head::random_u64;
pub use head::{Head, Published};
pub use ledger::{
    Coin, FeeAttribution, Ledger, LedgerPeriod, LedgerTotals, LostMovement, Movement, Movements, NetEffect, Pending,
    PendingMovement, SeriesRead, SeriesShape, StaleMovements, TooManyPeriods, UnspentCandidate,
};
pub use mined_cluster::{MOST_PARTS, MinedCluster};
pub use node::{MissingFilter, NodeClient, NodeClientError, NodeLimits};
pub use observed::BlockArrival;
pub use output::{SpendStatus, Spender, UnspendableReason, mature_at};
pub use prevouts::FundedOutput;
pub use proofs::{MerkleProof, WtxidProof};
pub use relative_lock::{LockEnd, LockKind, RelativeLock};
pub use replaced::Replacement;
pub use sync_state::{IndexingSpeed, SyncPhase, SyncState, SyncStatus};
pub use tip_history::{TipChange, TipHistory};
pub use together::wait_once;
pub use transaction::{ConfirmedPlace, Transaction, TransactionState, state_after};
pub use view::View;

pub use crate::index::{
    BlockRow, ChainMembership, ChainTotals, CountAndValue, DeadTransaction, DiskShortage, FORMAT_VERSION, IndexError,
    MinerTotals, OpReturnPosition, OptionalTable, OptionalTables, OutputPosition, QUANTILES, Reorg, SHORTEST_DATA,
    STORED_PERCENTS, ScriptKey, TableRows, Tip, TxNum, TypeTotals, WantedTransaction,
};
pub use crate::mempool::{
    ArrivalRate, BlockAudit, Coins, Departed, Departure, Entry, FeeBin, FeeBins, FeeFraction, FeerateKind,
    MempoolEvent, MempoolEventKind, MempoolSample, MempoolSnapshot, MempoolTotals, MinedClusters, MinedTransaction,
    NodeMempool, PrevoutSource, ProjectedBlock, ProjectedPlace, Rank, Remainder, SAMPLED_TARGETS, SampledEstimates,
    ScriptPlace, ScriptTotals, Sums, ahead_of_better,
};
pub use crate::node::{
    ChainInfo, ChainTip, ChainTipStatus, CompactFilter, Deployment, DeploymentStatus, Deployments, EstimateMode,
    FeeEstimate, MaxFees, MempoolAcceptance, NetworkInfo, PackageOutcome, Refusal, SignalStatistics,
    SignalledDeployment, SubmittedTransaction, TestedTransaction,
};
