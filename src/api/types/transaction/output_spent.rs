//! Which transactions spend outputs, told whenever another does, or none does any more.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use async_graphql::SimpleObject;
use bitcoin::{BlockHash, OutPoint, Txid};

use super::input::Input;
use super::output::Output;
use crate::api::allowance::find_transaction;
use crate::api::error::ApiError;
use crate::api::scalars::{self, int};
use crate::api::streams::follower::Following;
use crate::api::streams::head_lease::Held;
use crate::api::streams::heads::HeadFollower;
use crate::view::{Head, Published, Spender, View};

/// A transaction spends an output, or no transaction spends it any more.
#[derive(SimpleObject)]
pub(crate) struct OutputSpentEvent {
    /// The txid of the output, as given.
    txid: scalars::Txid,
    /// The index of the output in its transaction, from 0, as given.
    vout: i32,
    /// The output. Null if neither a block nor the mempool contains its transaction any more and the server does not
    /// remember it.
    output: Option<Output>,
    /// The input that spends the output. Null if an earlier event reported a spend that is no longer there: the
    /// spending transaction left the mempool, or its block left the main chain, and no other transaction spends the
    /// output.
    spent_by: Option<Input>,
    /// Whether the spending transaction is in a block of the main chain. False if it is in the mempool, or if there is
    /// none.
    confirmed: bool,
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
            Some(By::Waiting(txid, vin)) => {
                let entry = view.mempool().get(&txid).cloned().ok_or_else(missing)?;
                let spending = find_transaction(&view, |view| Ok(view.unconfirmed(&entry)))?.ok_or_else(missing)?;
                Some(Input::new(&view, &Arc::new(spending), vin))
            }
        };
        let (txid, vout) = (scalars::Txid(outpoint.txid), int(outpoint.vout)?);
        Ok(Self { txid, vout, output, spent_by, confirmed: matches!(by, Some(By::Block(..))) })
    }
}

/// What spends an output.
#[derive(Clone, Copy, Debug)]
enum By {
    /// A transaction of the main chain.
    Block(Txid, Spender),
    /// This input of a transaction of the mempool.
    Waiting(Txid, u32),
}

impl By {
    /// What makes it another than it was: the transaction, and whether that is confirmed.
    fn identity(&self) -> (Txid, bool) {
        match self {
            Self::Block(txid, _) => (*txid, true),
            Self::Waiting(txid, _) => (*txid, false),
        }
    }
}

/// What spends an output now.
pub(crate) struct Spend {
    outpoint: OutPoint,
    by: Option<By>,
    /// What was told of it before.
    before: Option<(Txid, bool)>,
}

/// An output that is followed.
struct Followed {
    outpoint: OutPoint,
    /// What spends it on the main chain, as of the tip that was looked at last.
    by_block: Option<By>,
    /// What was told of it last, unless nothing spends it now.
    told: Option<(Txid, bool)>,
}

/// A reader who is told what spends outputs.
pub(crate) struct SpendFollower {
    heads: HeadFollower,
    published: Published,
    allowance: usize,
    followed: Vec<Followed>,
    include_mempool: bool,
    pending: VecDeque<Spend>,
    /// The state that is told from, until all of it is.
    held: Option<Held>,
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
        let followed = outpoints.into_iter().map(|outpoint| Followed { outpoint, by_block: None, told: None });
        let (followed, pending) = (followed.collect(), VecDeque::new());
        Self { heads, published, allowance, followed, include_mempool, pending, held: None, tip: None }
    }

    fn look(&mut self, head: &Arc<Head>) -> Result<(), ApiError> {
        let view = View::new(head.clone());
        let chain_changed = self.tip.replace(head.tip.hash) != Some(head.tip.hash);
        for Followed { outpoint, by_block, told } in &mut self.followed {
            if chain_changed {
                *by_block = match view.spender_of_outpoint(outpoint)? {
                    Some(spender) => Some(By::Block(view.txid_at(spender.txnum)?, spender)),
                    None => None,
                };
            }
            let waiting = || {
                let (txid, vin) = head.mempool.spender(outpoint).filter(|_| self.include_mempool)?;
                Some(By::Waiting(txid, vin))
            };
            let by = by_block.or_else(waiting);
            let identity = by.as_ref().map(By::identity);
            if *told != identity {
                let before = std::mem::replace(told, identity);
                self.pending.push_back(Spend { outpoint: *outpoint, by, before });
            }
        }
        self.held = Some(Held::new(head.clone()));
        Ok(())
    }

    /// Looks at the newest state if one was held for long: what was found in that and is yet to be told is not told.
    fn let_go(&mut self) -> Result<(), ApiError> {
        let newest = self.held.as_mut().and_then(|held| held.outlived(&self.published));
        let Some(newest) = newest.filter(|_| !self.pending.is_empty()) else { return Ok(()) };
        let found: HashMap<_, _> = self.pending.drain(..).map(|spend| (spend.outpoint, spend.before)).collect();
        for Followed { outpoint, told, .. } in &mut self.followed {
            if let Some(before) = found.get(outpoint) {
                *told = *before;
            }
        }
        self.look(&newest)
    }
}

impl Following for SpendFollower {
    type Found = (View, Spend);

    /// What is to be told next, and the view to answer from; `None` once there will be no more.
    async fn next(&mut self) -> Option<Result<(View, Spend), ApiError>> {
        if let Err(error) = self.let_go() {
            return Some(Err(error));
        }
        loop {
            if let (Some(held), Some(spend)) = (&self.held, self.pending.pop_front()) {
                let view = self.published.view_of(held.head().clone(), self.allowance, self.published.node_client());
                return Some(Ok((view, spend)));
            }
            self.held = None;
            let head = self.heads.next().await?;
            if let Err(error) = self.look(&head) {
                return Some(Err(error));
            }
        }
    }
}
