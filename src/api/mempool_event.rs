use std::sync::Arc;

use async_graphql::{Enum, Object, SimpleObject, Union};

use super::block::Block;
use super::error::ApiError;
use super::resume::MempoolPlace;
use super::scalars::{Txid, UInt53};
use super::transaction::Transaction;
use crate::view::{self, Departure, MempoolEventKind, View};

/// Why a transaction left the mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum RemovalReason {
    /// A block holds it.
    Mined,
    /// Another transaction took its place, or the place of one that it stood on.
    Replaced,
    /// A block holds a transaction that spends the same output, or one that a transaction spends which it stood on.
    ConflictedByBlock,
    /// It waited for too long.
    Expired,
    /// The mempool was full, and it paid the least.
    SizeLimit,
    /// A reorganisation took out of the chain what it stood on, or brought the chain back to where its lock time or that of
    /// an input (BIP68) is not reached.
    Reorg,
    /// The Bitcoin node did not say why, and nothing that is known explains it.
    Unknown,
}

impl RemovalReason {
    pub(super) fn of(departure: Departure) -> Self {
        match departure {
            Departure::Mined { .. } => Self::Mined,
            Departure::Replaced { .. } => Self::Replaced,
            Departure::Conflicted { .. } => Self::ConflictedByBlock,
            Departure::Expired => Self::Expired,
            Departure::Evicted => Self::SizeLimit,
            Departure::ReorgedOut { .. } => Self::Reorg,
            Departure::Unknown => Self::Unknown,
        }
    }
}

/// A change of the mempool.
#[derive(Union)]
pub(super) enum MempoolEvent {
    /// A transaction entered it.
    Added(TransactionAdded),
    /// A transaction left it.
    Removed(TransactionRemoved),
}

/// A transaction that entered the mempool: it arrived, or a reorganisation took it out of the chain.
pub(super) struct TransactionAdded {
    view: Arc<View>,
    place: Place,
    txid: bitcoin::Txid,
}

/// A transaction that left the mempool.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(super) struct TransactionRemoved {
    /// The number of this event in this stream, from 1.
    seq: UInt53,
    /// To go on behind this event, as long as this server runs and remembers what happened since.
    cursor: String,
    /// The transaction.
    txid: Txid,
    /// Why it left.
    reason: RemovalReason,
    /// The transaction that took its place, in the mempool or in a block; null where there is none.
    replaced_by: Option<Txid>,
    #[graphql(skip)]
    view: Arc<View>,
    #[graphql(skip)]
    block: Option<bitcoin::BlockHash>,
}

/// Where in a stream an event stands.
struct Place {
    seq: UInt53,
    cursor: String,
}

impl MempoolEvent {
    pub(super) fn new(view: View, event: view::MempoolEvent, run: u64, seq: UInt53) -> Self {
        let view = Arc::new(view);
        let cursor = MempoolPlace { run, sequence: event.sequence }.cursor();
        match event.kind {
            MempoolEventKind::Added { txid, .. } => {
                Self::Added(TransactionAdded { view, place: Place { seq, cursor }, txid })
            }
            MempoolEventKind::Removed { txid, departure } => {
                let (replaced_by, block) = match departure {
                    Departure::Mined { block, .. } | Departure::ReorgedOut { block } => (None, Some(block)),
                    Departure::Replaced { by } => (Some(by), None),
                    Departure::Conflicted { by, block } => (Some(by), Some(block)),
                    Departure::Expired | Departure::Evicted | Departure::Unknown => (None, None),
                };
                let reason = RemovalReason::of(departure);
                let replaced_by = replaced_by.map(Txid);
                Self::Removed(TransactionRemoved { seq, cursor, txid: Txid(txid), reason, replaced_by, view, block })
            }
        }
    }
}

/// A transaction that entered the mempool: it arrived, or a reorganisation took it out of the chain.
#[Object]
impl TransactionAdded {
    /// The number of this event in this stream, from 1.
    async fn seq(&self) -> UInt53 {
        self.place.seq
    }

    /// To go on behind this event, as long as this server runs and remembers what happened since.
    async fn cursor(&self) -> String {
        self.place.cursor.clone()
    }

    /// Its txid.
    async fn txid(&self) -> Txid {
        Txid(self.txid)
    }

    /// The transaction, as it is in the state that this event is told from; null if it left so long ago that it is not
    /// remembered, which only a reader who comes late can find.
    async fn transaction(&self) -> Option<Result<Transaction, ApiError>> {
        let found = Transaction::read(&self.view, |view| view.transaction(&self.txid)).transpose()?;
        Some(found.map(|found| Transaction::new(&self.view, found)))
    }
}

#[async_graphql::ComplexObject]
impl TransactionRemoved {
    /// The block that holds it, or what conflicts with it, or that left the chain and took away what it stood on; null
    /// where no block is the reason.
    async fn block(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.view.block(self.block?))
    }
}
