//! The published Head, and the answer to a question over it.
//!
//! `sync` opens one snapshot after each commit and publishes it, with the mempool that belongs to it, by one atomic swap. A request, and each event of a
//! subscription, pins the Head it begins with in a [`View`], so that everything in one answer is from one state of the
//! chain. Nothing else begins reads.
//!
//! ```text
//!   Published ── head() ──► Head ── View::new ──► View ──► Block         block, chain
//!                                                     ├──► Transaction   transaction, output, replaced
//!                                                     ├──► Totals …      ledger
//!                                                     └──► Ask           the node, for what is not in the index: ask,
//!                                                                        and for what clients bring: submit, offered
//! ```
//!
//! How rows are stored is the index's business, and how questions are asked is the API's.

mod allowance;
mod ask;
mod block;
mod chain;
mod head;
mod ledger;
mod observed;
mod offered;
mod output;
mod reads;
mod replaced;
mod submit;
mod sync_state;
mod transaction;
mod turns;

use std::sync::Arc;
use std::time::SystemTime;

use bitcoin::Network;

use crate::chain::Height;
use allowance::Allowance;

pub use allowance::AllowanceExceeded;
pub use ask::{Ask, AskError, NodeLimits};
pub use block::Block;
pub use chain::{BlockRange, ImmatureCoinbase, Span, Supply};
pub(crate) use head::drawn;
pub use head::{Head, Published};
pub use ledger::{
    Candidate, Coin, Ledger, LostMovement, Movement, Movements, Pending, PendingMovement, StaleMovements, Totals,
};
pub use offered::Obstacles;
pub use output::{SpendStatus, Spender, UnspendableReason, mature_at};
pub use reads::{Basis, Lasting, Reads};
pub use replaced::Replacement;
pub use sync_state::{Pace, SyncPhase, SyncState};
pub use transaction::{MerkleProof, Place, Transaction, TransactionState};
pub use turns::{Turn, Turns};

pub use crate::index::{
    BlockRow, ChainMembership, ChainTotals, CountAndValue, DeadTransaction, DiskShortage, FORMAT_VERSION, IndexError,
    OutputPosition, QUANTILES, Reorg, ScriptKey, TableRows, Tip, TxNum, TypeTotals,
};
pub use crate::mempool::{
    ArrivalRate, Coins, Departed, Departure, Entry, FeeBin, FeeBins, FeeFraction, FeerateKind, MempoolEvent,
    MempoolEventKind, MempoolSample, MempoolSnapshot, MempoolTotals, NodeMempool, PrevoutSource, ProjectedBlock,
    ProjectedPlace, Rank, Remainder, ScriptPlace, ScriptTotals, Sums,
};
pub use crate::node::{
    ChainInfo, ChainTip, ChainTipStatus, EstimateMode, FeeEstimate, MaxFees, MempoolAcceptance, NetworkInfo,
    PackageOutcome, Refusal, SubmittedTransaction, TestedTransaction,
};

/// One state of the chain and the questions that can be asked of it. Kept for one request or one event.
///
/// Every question fails only where the index does ([`IndexError::Storage`], [`IndexError::Corrupt`]).
pub struct View {
    head: Arc<Head>,
    allowance: Allowance,
    state: SyncState,
    ask: Ask,
    reads: Reads,
}

impl View {
    /// A view of this Head, to ask without limit. It knows nothing of the node; [`Published::view_of`] makes one that
    /// does.
    #[must_use]
    pub fn new(head: Arc<Head>) -> Self {
        Self::with_allowance(head, usize::MAX)
    }

    /// A view of this Head for an answer that may read and tell this many bytes of transactions.
    #[must_use]
    pub fn with_allowance(head: Arc<Head>, bytes: usize) -> Self {
        let (state, ask, reads) = (SyncState::default(), Ask::default(), Reads::default());
        Self { head, allowance: Allowance::new(bytes), state, ask, reads }
    }

    /// This view, which notes here what is read of it.
    #[must_use]
    pub fn noting(self, reads: Reads) -> Self {
        reads.of_head(&self.head);
        Self { reads, ..self }
    }

    /// What the answer was made from so far, to note more.
    #[must_use]
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Notes that the answer tells of a block.
    pub fn note_block(&self, block: &Block) {
        self.reads.of_block(block);
    }

    /// Notes that the answer tells of the main chain up to this height, and of nothing that comes later.
    pub fn note_chain_up_to(&self, height: Height) {
        self.reads.up_to(height);
    }

    /// Notes that the answer tells of a transaction, or a part of one.
    pub fn note_transaction(&self, transaction: &Transaction) {
        self.reads.of_transaction(transaction, self.network().params().bip34_height);
    }

    /// Counts bytes of transactions that the answer has read or is about to tell; the view cannot know by itself what
    /// of it a question is worth.
    ///
    /// Errors: more than the allowance, now or before. With 0 bytes it only asks whether there is any left.
    pub fn count(&self, bytes: usize) -> Result<(), AllowanceExceeded> {
        self.allowance.take(bytes)
    }

    /// The newest block.
    #[must_use]
    pub fn tip(&self) -> Tip {
        self.head.tip
    }

    /// The transactions that wait for the next block.
    #[must_use]
    pub fn mempool(&self) -> &MempoolSnapshot {
        &self.head.mempool
    }

    /// Whether the mempool is followed: whether anything came of it yet, were it only what the node says of it.
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

    /// How far the index had come when the view was made.
    #[must_use]
    pub fn sync_state(&self) -> &SyncState {
        &self.state
    }

    /// Whether this was in sync when the view was made: its newest block was the node's.
    #[must_use]
    pub fn is_in_sync(&self) -> bool {
        self.state.is_at(self.head.tip)
    }

    /// Asks the node for what is not in the index. Its answers are those of this moment, not of the view's.
    #[must_use]
    pub fn ask(&self) -> &Ask {
        &self.ask
    }

    /// How many rows each table of the index has, without reading them.
    pub fn tables(&self) -> Result<Vec<TableRows>, IndexError> {
        self.head.chain.tables()
    }

    /// Bytes of the index file, `None` if the file system does not tell.
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

/// An error of the index that says which row cannot be what was written.
fn corrupt(table: &'static str, what: impl Into<String>) -> IndexError {
    IndexError::Corrupt { table, what: what.into() }
}
