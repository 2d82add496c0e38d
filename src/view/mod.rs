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
mod balance_changes;
mod block;
mod block_contents;
mod block_spends;
mod byte_budget;
mod chain;
mod compared_blocks;
mod dry_run;
mod filters;
mod head;
mod kept_by_block;
mod ledger;
mod mined_cluster;
mod mined_feerates;
mod node;
mod observed;
mod output;
mod prevouts;
mod proofs;
mod read_set;
mod relative_lock;
mod replaced;
mod sync_state;
mod tip_history;
mod together;
mod transaction;

use std::sync::Arc;
use std::time::SystemTime;

use bitcoin::Network;
use parking_lot::Mutex;

use crate::chain::Height;
use crate::chain::merkle::MerkleTree;
use crate::index::SpendCursor;
use byte_budget::ByteBudget;
use kept_by_block::KeptByBlock;
use proofs::WitnessTree;
use together::WantedTogether;

pub use crate::chain::{OutputPart, TransactionParts};
pub use addresses::FoundAddress;
pub use balance_changes::ScriptChange;
pub use block::Block;
pub use block_contents::{BlockContents, PayingTransaction, Share};
pub use byte_budget::BudgetExceeded;
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
pub use mined_feerates::MinedFeerates;
pub use node::{MissingFilter, NodeClient, NodeClientError, NodeLimits};
pub use observed::BlockArrival;
pub use output::{SpendStatus, Spender, UnspendableReason, mature_at};
pub use prevouts::FundedOutput;
pub use proofs::{MerkleProof, WtxidProof};
pub use read_set::{Dependency, Freshness, ReadSet};
pub use relative_lock::{LockEnd, LockKind, RelativeLock};
pub use replaced::Replacement;
pub use sync_state::{IndexingSpeed, SyncPhase, SyncState, SyncStatus};
pub use tip_history::{TipChange, TipHistory};
pub use together::wait_once;
pub use transaction::{ConfirmedPlace, Transaction, TransactionState, state_after};

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

/// One state of the chain and the queries on it, kept for one request or one event.
///
/// A query fails only where the index does ([`IndexError::Storage`], [`IndexError::Corrupt`]).
pub struct View {
    head: Arc<Head>,
    budget: ByteBudget,
    state: SyncState,
    node_client: NodeClient,
    read_set: ReadSet,
    wanted: WantedTogether,
    spend_cursor: Mutex<SpendCursor>,
    mined: KeptByBlock<MinedFeerates>,
    txid_trees: KeptByBlock<MerkleTree>,
    witness_trees: KeptByBlock<Option<WitnessTree>>,
}

impl View {
    /// A view of this Head without a byte budget and without the node; [`Published::view_of`] makes one with both.
    #[must_use]
    pub fn new(head: Arc<Head>) -> Self {
        Self::for_answer(head, usize::MAX, SyncState::default(), NodeClient::default())
    }

    /// A view of this Head for an answer that may read and return this many bytes of transactions, in this state of synchronization.
    /// Subscriptions make thousands a second, so nothing is made here only to be replaced.
    fn for_answer(head: Arc<Head>, bytes: usize, state: SyncState, node_client: NodeClient) -> Self {
        Self {
            head,
            budget: ByteBudget::new(bytes),
            state,
            node_client,
            read_set: ReadSet::default(),
            wanted: WantedTogether::default(),
            spend_cursor: Mutex::default(),
            mined: KeptByBlock::default(),
            txid_trees: KeptByBlock::default(),
            witness_trees: KeptByBlock::default(),
        }
    }

    /// Records the reads of this view in `read_set`.
    #[must_use]
    pub fn recording(self, read_set: ReadSet) -> Self {
        read_set.add_head(&self.head);
        Self { read_set, ..self }
    }

    /// The reads of the answer so far, to record more.
    #[must_use]
    pub fn read_set(&self) -> &ReadSet {
        &self.read_set
    }

    /// Records that the answer reads a block.
    pub fn note_block(&self, block: &Block) {
        self.read_set.add_block(block);
    }

    /// Records that the answer reads the main chain up to this height only.
    pub fn note_chain_up_to(&self, height: Height) {
        self.read_set.add_chain_up_to(height);
    }

    /// Records that the answer reads a transaction, or a part of one.
    pub fn note_transaction(&self, transaction: &Transaction) {
        self.read_set.add_transaction(transaction, self.network().params().bip34_height);
    }

    /// Counts bytes of transactions that the answer has read or is about to return; the view does not know which of its
    /// reads count.
    ///
    /// Errors: the byte budget is exceeded, now or before. With 0 bytes it only checks whether any is left.
    pub fn count(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.budget.spend(bytes)
    }

    /// The bytes that the answer may still read and return.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        self.budget.left()
    }

    /// The number of times that the tip had changed when this state was published, in this run of the server.
    #[must_use]
    pub fn tip_changes(&self) -> u64 {
        self.head.tip_history.count()
    }

    /// The newest block.
    #[must_use]
    pub fn tip(&self) -> Tip {
        self.head.tip
    }

    /// The unconfirmed transactions.
    #[must_use]
    pub fn mempool(&self) -> &MempoolSnapshot {
        &self.head.mempool
    }

    /// Whether the mempool is followed: whether any report of it arrived yet.
    #[must_use]
    pub fn follows_mempool(&self) -> bool {
        let mempool = self.mempool();
        self.state.mempool_in_sync || mempool.sequence() > 0 || mempool.node() != NodeMempool::default()
    }

    /// When this state was published.
    #[must_use]
    pub fn taken_at(&self) -> SystemTime {
        self.head.taken_at
    }

    /// The state of synchronization when the view was made.
    #[must_use]
    pub fn sync_state(&self) -> &SyncState {
        &self.state
    }

    /// Whether this was in sync when the view was made: its tip was the node's.
    #[must_use]
    pub fn is_in_sync(&self) -> bool {
        self.state.is_at(self.head.tip)
    }

    /// The client of the node, for what the index does not contain. Its answers are current, not of the view's state.
    #[must_use]
    pub fn node_client(&self) -> &NodeClient {
        &self.node_client
    }

    /// The number of rows of each table of the index, without reading them.
    pub fn tables(&self) -> Result<Vec<TableRows>, IndexError> {
        self.head.chain.tables()
    }

    /// The bytes of a table whose rows are of different sizes, `None` for any other table. Reads the whole table.
    pub fn table_bytes(&self, name: &str) -> Result<Option<u64>, IndexError> {
        self.head.chain.table_bytes(name)
    }

    /// The size of the index file in bytes, `None` if the file system does not report it.
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        self.head.chain.file_bytes()
    }

    /// The network whose chain this is.
    #[must_use]
    pub fn network(&self) -> Network {
        self.head.chain.network()
    }
}

/// An error for a row that contradicts its table's encoding.
fn corrupt(table: &'static str, what: impl Into<String>) -> IndexError {
    IndexError::Corrupt { table, what: what.into() }
}
