//! Which transactions spend outputs, sent whenever another does, or none does any more.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use async_graphql::SimpleObject;
use bitcoin::{BlockHash, OutPoint, Txid};

use super::input::Input;
use super::outpoint::OutPointObject;
use super::output::Output;
use crate::api::allowance::find_transaction;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::streams::follower::Follower;
use crate::api::streams::head_lease::HeadLease;
use crate::api::streams::heads::HeadFollower;
use crate::view::{Head, Published, Spender, View};

/// A transaction spends an output, or no transaction spends it any more.
#[derive(SimpleObject)]
pub(crate) struct OutputSpentEvent {
    /// The outpoint of the output, as given.
    outpoint: OutPointObject,
    /// The output. Null if neither a block nor the mempool contains its transaction any more and the server does not
    /// remember it.
    output: Option<Output>,
    /// The input that spends the output. Null if an earlier event reported a spend that is no longer there: the
    /// spending transaction left the mempool, or its block left the main chain, and no other transaction spends the
    /// output.
    spent_by: Option<Input>,
    /// Whether the spending transaction is in a block of the main chain. False if it is in the mempool, or if there is
    /// none.
    is_confirmed: bool,
}

impl FieldCacheability for OutputSpentEvent {
    const NEVER: &'static str = "outpoint output spentBy isConfirmed";
}

impl OutputSpentEvent {
    pub(crate) fn new(view: View, Spend { outpoint, by, .. }: Spend) -> Result<Self, ApiError> {
        let view = Arc::new(view);
        let missing =
            || ApiError::internal(&format!("{outpoint} is spent, but its transaction or its spender is missing"));
        let output = Output::find(&view, outpoint)?;
        if output.is_none() && by.is_some() {
            return Err(missing());
        }
        let spent_by = match by {
            None => None,
            Some(By::Block(_, spender)) => Some(Input::spending(&view, spender)?),
            Some(By::Pending(txid, vin)) => {
                let entry = view.mempool().get(&txid).cloned().ok_or_else(missing)?;
                let spending = find_transaction(&view, |view| Ok(view.unconfirmed(&entry)))?.ok_or_else(missing)?;
                Some(Input::new(&view, &Arc::new(spending), vin))
            }
        };
        let outpoint = OutPointObject::new(outpoint)?;
        Ok(Self { outpoint, output, spent_by, is_confirmed: matches!(by, Some(By::Block(..))) })
    }
}

/// What spends an output.
#[derive(Clone, Copy, Debug)]
enum By {
    /// A transaction of the main chain.
    Block(Txid, Spender),
    /// This input of a transaction of the mempool.
    Pending(Txid, u32),
}

impl By {
    /// What makes it another than it was: the transaction, and whether that is confirmed.
    fn identity(&self) -> (Txid, bool) {
        match self {
            Self::Block(txid, _) => (*txid, true),
            Self::Pending(txid, _) => (*txid, false),
        }
    }
}

/// What spends an output now.
pub(crate) struct Spend {
    outpoint: OutPoint,
    by: Option<By>,
    /// What the last event reported.
    before: Option<(Txid, bool)>,
}

/// An output that is followed.
struct WatchedOutput {
    outpoint: OutPoint,
    /// What spends it on the main chain, as of the tip that was looked at last.
    by_block: Option<By>,
    /// What the last event reported, unless nothing spends it now.
    sent: Option<(Txid, bool)>,
}

/// A reader of the spends of outputs.
pub(crate) struct SpendFollower {
    heads: HeadFollower,
    published: Published,
    allowance: usize,
    followed: Vec<WatchedOutput>,
    include_mempool: bool,
    pending: VecDeque<Spend>,
    /// The state that the pending events are answered from.
    lease: Option<HeadLease>,
    /// The tip of the state that was looked at last.
    tip: Option<BlockHash>,
}

impl SpendFollower {
    pub(crate) fn new(
        heads: HeadFollower,
        published: Published,
        allowance: usize,
        (outpoints, include_mempool): (Vec<OutPoint>, bool),
    ) -> Self {
        let followed = outpoints.into_iter().map(|outpoint| WatchedOutput { outpoint, by_block: None, sent: None });
        let (followed, pending) = (followed.collect(), VecDeque::new());
        Self { heads, published, allowance, followed, include_mempool, pending, lease: None, tip: None }
    }

    fn look(&mut self, head: &Arc<Head>) -> Result<(), ApiError> {
        let view = View::new(head.clone());
        let chain_changed = self.tip.replace(head.tip.hash) != Some(head.tip.hash);
        for WatchedOutput { outpoint, by_block, sent } in &mut self.followed {
            if chain_changed {
                *by_block = match view.spender_of_outpoint(outpoint)? {
                    Some(spender) => Some(By::Block(view.txid_at(spender.txnum)?, spender)),
                    None => None,
                };
            }
            let waiting = || {
                let (txid, vin) = head.mempool.spender(outpoint).filter(|_| self.include_mempool)?;
                Some(By::Pending(txid, vin))
            };
            let by = by_block.or_else(waiting);
            let identity = by.as_ref().map(By::identity);
            if *sent != identity {
                let before = std::mem::replace(sent, identity);
                self.pending.push_back(Spend { outpoint: *outpoint, by, before });
            }
        }
        self.lease = Some(HeadLease::new(head.clone()));
        Ok(())
    }

    /// Looks at the newest state once the lease is over: events found in the old one and not sent yet are dropped.
    fn switch_if_expired(&mut self) -> Result<(), ApiError> {
        let newest = self.lease.as_mut().and_then(|lease| lease.newer_head(&self.published));
        let Some(newest) = newest.filter(|_| !self.pending.is_empty()) else { return Ok(()) };
        let found: HashMap<_, _> = self.pending.drain(..).map(|spend| (spend.outpoint, spend.before)).collect();
        for WatchedOutput { outpoint, sent, .. } in &mut self.followed {
            if let Some(before) = found.get(outpoint) {
                *sent = *before;
            }
        }
        self.look(&newest)
    }
}

impl Follower for SpendFollower {
    type Item = (View, Spend);

    /// The next event, and the view to answer from; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Result<(View, Spend), ApiError>> {
        if let Err(error) = self.switch_if_expired() {
            return Some(Err(error));
        }
        loop {
            if let (Some(lease), Some(spend)) = (&self.lease, self.pending.pop_front()) {
                let view = self.published.view_of(lease.head().clone(), self.allowance, self.published.node_client());
                return Some(Ok((view, spend)));
            }
            self.lease = None;
            let head = self.heads.next().await?;
            if let Err(error) = self.look(&head) {
                return Some(Err(error));
            }
        }
    }
}
