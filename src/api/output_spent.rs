//! Which transactions spend outputs, told whenever another does.

use std::collections::VecDeque;
use std::sync::Arc;

use async_graphql::SimpleObject;
use bitcoin::{BlockHash, OutPoint, Txid};

use super::error::ApiError;
use super::follow::Following;
use super::follow_heads::HeadFollower;
use super::input::Input;
use super::output::Output;
use super::transaction::Transaction;
use crate::view::{Head, Published, Spender, View};

/// That a transaction spends an output.
#[derive(SimpleObject)]
pub(super) struct OutputSpentEvent {
    /// The output.
    output: Output,
    /// The input that spends it.
    spent_by: Input,
    /// Whether a block of the main chain holds that, or it waits in the mempool.
    confirmed: bool,
}

impl OutputSpentEvent {
    pub(super) fn new(view: View, Spend { outpoint, by }: Spend) -> Result<Self, ApiError> {
        let view = Arc::new(view);
        let missing = || ApiError::internal(&format!("{outpoint} is spent, but it is not known"));
        let output = Output::find(&view, outpoint)?.ok_or_else(missing)?;
        let spent_by = match by {
            By::Block(_, spender) => Input::spending(&view, spender)?,
            By::Waiting(txid, vin) => {
                let entry = view.mempool().get(&txid).cloned().ok_or_else(missing)?;
                let spending = Transaction::read(&view, |view| Ok(view.unconfirmed(&entry)))?.ok_or_else(missing)?;
                Input::new(&view, &Arc::new(spending), vin)
            }
        };
        Ok(Self { output, spent_by, confirmed: matches!(by, By::Block(..)) })
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

/// That an output is spent.
pub(super) struct Spend {
    outpoint: OutPoint,
    by: By,
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
pub(super) struct SpendFollower {
    heads: HeadFollower,
    published: Published,
    allowance: usize,
    followed: Vec<Followed>,
    include_mempool: bool,
    pending: VecDeque<Spend>,
    /// The state that is told from, until all of it is.
    head: Option<Arc<Head>>,
    /// The tip of the state that was looked at last.
    tip: Option<BlockHash>,
}

impl SpendFollower {
    pub(super) fn new(
        heads: HeadFollower,
        published: Published,
        allowance: usize,
        (outpoints, include_mempool): (Vec<OutPoint>, bool),
    ) -> Self {
        let followed = outpoints.into_iter().map(|outpoint| Followed { outpoint, by_block: None, told: None });
        let (followed, pending) = (followed.collect(), VecDeque::new());
        Self { heads, published, allowance, followed, include_mempool, pending, head: None, tip: None }
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
                *told = identity;
                self.pending.extend(by.map(|by| Spend { outpoint: *outpoint, by }));
            }
        }
        self.head = Some(head.clone());
        Ok(())
    }
}

impl Following for SpendFollower {
    type Found = (View, Spend);

    /// What is to be told next, and the view to answer from; `None` once there will be no more.
    async fn next(&mut self) -> Option<Result<(View, Spend), ApiError>> {
        loop {
            if let (Some(head), Some(spend)) = (&self.head, self.pending.pop_front()) {
                let view = self.published.view_of(head.clone(), self.allowance, self.published.ask());
                return Some(Ok((view, spend)));
            }
            self.head = None;
            let head = self.heads.next().await?;
            if let Err(error) = self.look(&head) {
                return Some(Err(error));
            }
        }
    }
}
