//! The view: one pinned Head, and what belongs to the one answer that is made from it.

use std::sync::Arc;
use std::time::SystemTime;

use bitcoin::{BlockHash, Network};
use parking_lot::Mutex;

use super::answer::{BudgetExceeded, ByteBudget, KeptByBlock, MinedFeerates, ReadSet, WantedTogether, WitnessTree};
use super::block::Block;
use super::head::{Head, Published};
use super::node::NodeClient;
use super::sync_state::SyncState;
use super::transaction::Transaction;
use crate::chain::Height;
use crate::chain::merkle::MerkleTree;
use crate::index::{IndexError, SpendCursor, TableRows, Tip};
use crate::mempool::{FeeFraction, MempoolSnapshot, NodeMempool};

/// One state of the chain and the queries on it, kept for one request or one event.
///
/// A query fails only where the index does ([`IndexError::Storage`], [`IndexError::Corrupt`]).
pub struct View {
    pub(super) head: Arc<Head>,
    pub(super) budget: ByteBudget,
    state: SyncState,
    node_client: NodeClient,
    read_set: ReadSet,
    pub(super) wanted: WantedTogether,
    pub(super) spend_cursor: Mutex<SpendCursor>,
    mined: KeptByBlock<MinedFeerates>,
    pub(super) txid_trees: KeptByBlock<MerkleTree>,
    pub(super) witness_trees: KeptByBlock<Option<WitnessTree>>,
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

    /// The effective feerates of a block, if they were computed for this answer before.
    #[must_use]
    pub fn mined_feerates(&self, block: &BlockHash) -> Option<Arc<MinedFeerates>> {
        self.mined.get(block)
    }

    /// Keeps the effective feerates of a block's transactions without the coinbase, in block order.
    pub fn keep_mined_feerates(&self, block: BlockHash, effective: Vec<FeeFraction>) -> Arc<MinedFeerates> {
        self.mined.keep(block, MinedFeerates::new(effective))
    }
}

impl Published {
    /// A view of this Head for one answer that may read and return this many bytes of transactions, with the state of
    /// synchronization now.
    #[must_use]
    pub fn view_of(&self, head: Arc<Head>, bytes: usize, node_client: NodeClient) -> View {
        View::for_answer(head, bytes, self.state(), node_client)
    }
}
