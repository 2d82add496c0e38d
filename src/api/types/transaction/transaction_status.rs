//! Where transactions are, sent whenever that changes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use async_graphql::{ComplexObject, SimpleObject};
use bitcoin::{BlockHash, Txid};
use tokio::time::timeout;

use super::transaction::Transaction;
use crate::api::allowance::find_transaction;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{self, int, int_of};
use crate::api::streams::follower::Follower;
use crate::api::streams::head_lease::HeadLease;
use crate::api::streams::heads::HeadFollower;
use crate::api::streams::projections::{GOOD_FOR, Projections};
use crate::api::types::enums::TxState;
use crate::view::{Head, IndexError, MempoolSnapshot, Published, TransactionState, View};

/// The current state of a transaction.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(crate) struct TransactionStatusEvent {
    /// The txid of the transaction.
    txid: scalars::Txid,
    /// The state of the transaction. Null while neither a block nor the mempool contains it and the server does not
    /// remember it.
    state: Option<TxState>,
    /// The txid of the transaction that replaced it, in the mempool or in a block. Null if there is none.
    replaced_by_txid: Option<scalars::Txid>,
    #[graphql(skip)]
    status: Status,
    #[graphql(skip)]
    view: Arc<View>,
}

impl FieldCacheability for TransactionStatusEvent {
    const NEVER: &'static str = "txid state replacedByTxid confirmations projectedBlockIndex transaction";
}

impl TransactionStatusEvent {
    pub(crate) fn new(view: View, SentStatus { txid, status, .. }: SentStatus) -> Self {
        Self {
            txid: scalars::Txid(txid),
            state: status.state.map(TxState::from),
            replaced_by_txid: status.replaced_by.map(scalars::Txid),
            status,
            view: Arc::new(view),
        }
    }
}

#[ComplexObject]
impl TransactionStatusEvent {
    /// The number of blocks that confirm the transaction, 0 if none; at most `untilConfirmations`.
    async fn confirmations(&self) -> Result<i32, ApiError> {
        int(self.status.confirmations)
    }

    /// The index of the projected block that contains the transaction, 0 for the next block. Null unless the
    /// transaction is in the mempool, and for up to a second after it arrives. A change of the index is sent at most
    /// once per second.
    async fn projected_block_index(&self) -> Option<Result<i32, ApiError>> {
        self.status.projected_block.map(int_of)
    }

    /// The transaction, in the state of this event. Null if it is not known.
    async fn transaction(&self) -> Option<Result<Transaction, ApiError>> {
        let found = find_transaction(&self.view, |view| view.transaction(&self.txid.0)).transpose()?;
        Some(found.map(|found| Transaction::new(&self.view, found)))
    }
}

/// The reported status of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    state: Option<TransactionState>,
    confirmations: u32,
    replaced_by: Option<Txid>,
    projected_block: Option<usize>,
}

/// That a transaction is where it was not before.
pub(crate) struct SentStatus {
    txid: Txid,
    status: Status,
    /// What the last event reported.
    before: Option<Status>,
}

/// What a client subscribes to.
pub(crate) struct StatusRequest {
    /// Of which transactions.
    pub(crate) txids: Vec<Txid>,
    /// Up to how many confirmations.
    pub(crate) until: u32,
    /// Whether also the projected block that they are in.
    pub(crate) projected: bool,
}

impl StatusRequest {
    /// Where a transaction is in a state, and among the blocks that miners would make of one that may be older.
    fn status(&self, view: &View, projected: Option<&MempoolSnapshot>, txid: &Txid) -> Result<Status, IndexError> {
        let Some((state, block)) = view.current_state(txid)? else { return Ok(Status::default()) };
        let mut status = Status { state: Some(state), ..Status::default() };
        match state {
            TransactionState::Confirmed => status.confirmations = self.confirmations(view, block)?,
            TransactionState::Unconfirmed => {
                let place = projected.and_then(|projected| projected.projected_place(txid));
                status.projected_block = place.map(|place| place.block);
            }
            TransactionState::Replaced | TransactionState::Conflicted => {
                status.replaced_by =
                    view.mempool().departed(txid).and_then(|departed| departed.departure.conflicting());
            }
            _ => {}
        }
        Ok(status)
    }

    fn confirmations(&self, view: &View, block: Option<BlockHash>) -> Result<u32, IndexError> {
        let place = block.map(|block| view.block_place(block)).transpose()?.flatten();
        Ok(place.map_or(0, |place| view.confirmations(place.height)).min(self.until))
    }

    /// Whether the stream is complete: it is confirmed as often as asked for, or what took its place is, so
    /// that it can come back only as the other could be undone.
    fn is_settled(&self, view: &View, status: &Status) -> Result<bool, IndexError> {
        if status.confirmations >= self.until {
            return Ok(true);
        }
        let Some(by) = status.replaced_by else { return Ok(false) };
        let newest = view.newest_replacement(&by)?.unwrap_or(by);
        match view.current_state(&newest)? {
            Some((TransactionState::Confirmed, block)) => Ok(self.confirmations(view, block)? >= self.until),
            _ => Ok(false),
        }
    }
}

/// A reader of the status of transactions.
pub(crate) struct StatusFollower {
    heads: HeadFollower,
    published: Published,
    allowance: usize,
    wanted: StatusRequest,
    projections: Arc<Projections>,
    /// Whether the blocks that miners would make are those of an older state than the one that was looked at last.
    is_behind: bool,
    /// The last reported status of each transaction, in the order of the argument.
    sent: Vec<Option<Status>>,
    pending: VecDeque<SentStatus>,
    /// The state that the pending events are answered from.
    lease: Option<HeadLease>,
    /// The tip and the newest event of the mempool of the state that was looked at last.
    seen: Option<(BlockHash, u64)>,
    settled: bool,
}

impl StatusFollower {
    pub(crate) fn new(
        heads: HeadFollower,
        published: Published,
        allowance: usize,
        (wanted, projections): (StatusRequest, Arc<Projections>),
    ) -> Self {
        let (sent, pending) = (vec![None; wanted.txids.len()], VecDeque::new());
        let (lease, seen, is_behind, settled) = (None, None, false, false);
        Self { heads, published, allowance, wanted, projections, is_behind, sent, pending, lease, seen, settled }
    }

    /// The projected blocks, if the client selects them.
    async fn projected(&mut self, head: &Arc<Head>) -> Result<Option<MempoolSnapshot>, ApiError> {
        let waits = |txid| head.mempool.get(txid).is_some();
        if !self.wanted.projected || !self.wanted.txids.iter().any(waits) {
            self.is_behind = false;
            return Ok(None);
        }
        let projected = self.projections.about(&head.mempool).await?;
        self.is_behind = !projected.is_same(&head.mempool);
        Ok(Some(projected))
    }

    async fn look(&mut self, head: &Arc<Head>) -> Result<(), ApiError> {
        let projected = self.projected(head).await?;
        let view = View::new(head.clone());
        let touched = self.seen.and_then(|seen| touched(head, seen));
        let mut settled = true;
        for (txid, sent) in self.wanted.txids.iter().zip(&mut self.sent) {
            let stays = sent.filter(|sent| {
                let is_projected = self.wanted.projected && sent.state == Some(TransactionState::Unconfirmed);
                touched.as_ref().is_some_and(|touched| !touched.contains(txid)) && !is_projected
            });
            let status = stays.map_or_else(|| self.wanted.status(&view, projected.as_ref(), txid), Ok)?;
            if *sent != Some(status) {
                let before = sent.replace(status);
                self.pending.push_back(SentStatus { txid: *txid, status, before });
            }
            settled = settled && self.wanted.is_settled(&view, &status)?;
        }
        self.settled = settled;
        self.seen = Some((head.tip.hash, head.mempool.sequence()));
        self.lease = Some(HeadLease::new(head.clone()));
        Ok(())
    }
}

impl StatusFollower {
    /// Looks at the newest state once the lease is over: events found in the old one and not sent yet are dropped.
    async fn switch_if_expired(&mut self) -> Result<(), ApiError> {
        let newest = self.lease.as_mut().and_then(|lease| lease.newer_head(&self.published));
        let Some(newest) = newest.filter(|_| !self.pending.is_empty()) else { return Ok(()) };
        let found: HashMap<_, _> = self.pending.drain(..).map(|sent| (sent.txid, sent.before)).collect();
        for (txid, sent) in self.wanted.txids.iter().zip(&mut self.sent) {
            if let Some(before) = found.get(txid) {
                *sent = *before;
            }
        }
        self.seen = None;
        self.look(&newest).await
    }

    /// The next state to look at: the next that there is, or after a while the newest once more.
    async fn next_head(&mut self) -> Option<Arc<Head>> {
        if !self.is_behind {
            return self.heads.next().await;
        }
        match timeout(GOOD_FOR, self.heads.next()).await {
            Ok(head) => head,
            Err(_) => self.published.head(),
        }
    }
}

/// The transactions that entered or left the mempool, or whose departure was corrected, since a state with the same tip;
/// `None` if that is not known, or the chain has gone on.
fn touched(head: &Head, (tip, sequence): (BlockHash, u64)) -> Option<HashSet<Txid>> {
    let events = head.mempool.events_after(sequence).filter(|_| head.tip.hash == tip)?;
    Some(events.map(|event| event.kind.txid()).collect())
}

impl Follower for StatusFollower {
    type Item = (View, SentStatus);

    /// The next event, and the view to answer from; `None` once all transactions are confirmed as requested.
    async fn next(&mut self) -> Option<Result<(View, SentStatus), ApiError>> {
        if let Err(error) = self.switch_if_expired().await {
            return Some(Err(error));
        }
        loop {
            if let (Some(lease), Some(sent)) = (&self.lease, self.pending.pop_front()) {
                let view = self.published.view_of(lease.head().clone(), self.allowance, self.published.node_client());
                return Some(Ok((view, sent)));
            }
            self.lease = None;
            if self.settled {
                return None;
            }
            let head = self.next_head().await?;
            if let Err(error) = self.look(&head).await {
                return Some(Err(error));
            }
        }
    }
}
