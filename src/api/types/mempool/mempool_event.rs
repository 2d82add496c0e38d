use std::sync::Arc;

use async_graphql::{Enum, Interface, Object, SimpleObject};

use crate::api::allowance::find_transaction;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Txid, UInt53};
use crate::api::streams::resume::MempoolCursor;
use crate::api::types::block::Block;
use crate::api::types::transaction::Transaction;
use crate::view::{self, Departure, MempoolEventKind, View};

/// Why a transaction left the mempool. `TxState` and `LedgerEventKind` name the same departures; to them EXPIRED, SIZE_LIMIT
/// and UNKNOWN are EVICTED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum RemovalReason {
    /// A block contains the transaction.
    Confirmed,
    /// Another transaction replaced it or one of its ancestors.
    Replaced,
    /// A block contains a transaction that spends the same output, or an output that an unconfirmed ancestor spends.
    Conflicted,
    /// The transaction was in the mempool for too long.
    Expired,
    /// The mempool was full, and the transaction had the lowest feerate.
    SizeLimit,
    /// A reorg removed an ancestor of the transaction from the chain, or moved the chain back to where its lock time or
    /// the relative lock time of an input (BIP68) is not reached.
    ReorgedOut,
    /// The Bitcoin node reported no reason, and nothing that the server knows explains it. When a transaction that spends
    /// the same output arrives later, or a block contains one, the reason becomes REPLACED or CONFLICTED.
    Unknown,
}

impl RemovalReason {
    pub(crate) fn of(departure: Departure) -> Self {
        match departure {
            Departure::Mined { .. } => Self::Confirmed,
            Departure::Replaced { .. } => Self::Replaced,
            Departure::Conflicted { .. } => Self::Conflicted,
            Departure::Expired => Self::Expired,
            Departure::Evicted => Self::SizeLimit,
            Departure::ReorgedOut { .. } => Self::ReorgedOut,
            Departure::Unknown => Self::Unknown,
        }
    }
}

/// A change of the mempool.
#[derive(Interface)]
#[graphql(
    name = "MempoolEvent",
    field(
        name = "seq",
        ty = "UInt53",
        desc = "The number of this event in its stream. It goes on from `after`: 1 more than that of the event before it."
    ),
    field(
        name = "cursor",
        ty = "String",
        desc = "The cursor of this event. Pass it as `after` to resume after this event, while this server runs and still \
                stores the events since then."
    )
)]
pub(crate) enum MempoolEventObject {
    /// A transaction entered it.
    Added(TransactionAdded),
    /// A transaction left it, or the reason why one had left became known.
    Removed(TransactionRemoved),
}

impl FieldCacheability for MempoolEventObject {
    const NEVER: &'static str = "seq cursor";
}

/// A transaction that entered the mempool: it is new, or a reorg returned it from a disconnected block.
pub(crate) struct TransactionAdded {
    view: Arc<View>,
    place: EventPlace,
    txid: bitcoin::Txid,
}

/// A transaction that left the mempool, or, with `isCorrection`, the reason why one had left.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(crate) struct TransactionRemoved {
    /// The number of this event in its stream. It goes on from `after`: 1 more than that of the event before it.
    #[graphql(owned)]
    seq: UInt53,
    /// The cursor of this event. Pass it as `after` to resume after this event, while this server runs and still stores
    /// the events since then.
    #[graphql(owned)]
    cursor: String,
    /// The txid of the transaction.
    txid: Txid,
    /// Why the transaction left the mempool.
    reason: RemovalReason,
    /// The txid of the transaction that replaced it, in the mempool or in a block. Null if there is none.
    replaced_by_txid: Option<Txid>,
    /// False for a transaction that leaves now. True for one that had left before for the reason UNKNOWN and did not
    /// return: `reason`, `replacedByTxid` and `block` replace those of the earlier event.
    is_correction: bool,
    #[graphql(skip)]
    view: Arc<View>,
    #[graphql(skip)]
    block: Option<bitcoin::BlockHash>,
}

impl FieldCacheability for TransactionRemoved {
    const NEVER: &'static str = "seq cursor txid reason replacedByTxid isCorrection block";
}

/// Where in a stream an event stands.
struct EventPlace {
    seq: UInt53,
    cursor: String,
}

impl MempoolEventObject {
    /// The cursor of the event.
    pub(crate) fn position(&self) -> &str {
        match self {
            Self::Added(TransactionAdded { place: EventPlace { cursor, .. }, .. })
            | Self::Removed(TransactionRemoved { cursor, .. }) => cursor,
        }
    }

    pub(crate) fn new(view: View, event: view::MempoolEvent, run: u64, seq: UInt53) -> Self {
        let view = Arc::new(view);
        let place = EventPlace { seq, cursor: MempoolCursor { run, sequence: event.sequence }.encode(seq) };
        match event.kind {
            MempoolEventKind::Added { txid, .. } => Self::Added(TransactionAdded { view, place, txid }),
            MempoolEventKind::Removed { txid, departure } => {
                Self::Removed(TransactionRemoved::new(view, place, txid, departure, false))
            }
            MempoolEventKind::Corrected { txid, departure } => {
                Self::Removed(TransactionRemoved::new(view, place, txid, departure, true))
            }
        }
    }
}

impl TransactionRemoved {
    fn new(
        view: Arc<View>,
        EventPlace { seq, cursor }: EventPlace,
        txid: bitcoin::Txid,
        departure: Departure,
        is_correction: bool,
    ) -> Self {
        let (reason, replaced_by_txid) = (RemovalReason::of(departure), departure.conflicting().map(Txid));
        Self { seq, cursor, txid: Txid(txid), reason, replaced_by_txid, is_correction, view, block: departure.block() }
    }
}

impl FieldCacheability for TransactionAdded {
    const NEVER: &'static str = "seq cursor txid transaction";
}

/// A transaction that entered the mempool: it is new, or a reorg returned it from a disconnected block.
#[Object]
impl TransactionAdded {
    /// The number of this event in its stream. It goes on from `after`: 1 more than that of the event before it.
    async fn seq(&self) -> UInt53 {
        self.place.seq
    }

    /// The cursor of this event. Pass it as `after` to resume after this event, while this server runs and still stores
    /// the events since then.
    async fn cursor(&self) -> String {
        self.place.cursor.clone()
    }

    /// The txid of the transaction.
    async fn txid(&self) -> Txid {
        Txid(self.txid)
    }

    /// The transaction, in the state of this event. Null if it left so long ago that the server no longer stores it,
    /// which happens only to clients that resume late.
    async fn transaction(&self) -> Option<Result<Transaction, ApiError>> {
        let found = find_transaction(&self.view, |view| view.transaction(&self.txid)).transpose()?;
        Some(found.map(|found| Transaction::new(&self.view, found)))
    }
}

#[async_graphql::ComplexObject]
impl TransactionRemoved {
    /// The block that contains the transaction or a conflicting one, or the disconnected block that contained an
    /// ancestor of it. Null if no block caused the removal.
    async fn block(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.view.block(self.block?))
    }
}
