//! How a subscription follows reorganisations without leaving one out: they are numbered as they happen, and every Head
//! holds those before it. One of which it is not known yet what became of transactions, and those behind it, are told when
//! it is known, or will not be any more: an event tells of that, too.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use super::follower::Following;
use super::head_lease::Held;
use crate::api::error::ApiError;
use crate::live::Event;
use crate::view::{Head, Published, Reorg, View};

/// Reorganisations that are taken out of a Head at once.
const TAKEN: usize = 10;

/// The place of one reader among the reorganisations.
pub(crate) struct ReorgFollower {
    events: BroadcastStream<Arc<Event>>,
    /// The number of the next one to be taken.
    next: u64,
    /// Taken, and yet to be told.
    pending: VecDeque<Reorg>,
    /// What they are told from; nothing while there is nothing to tell.
    held: Option<Held>,
    published: Published,
    /// Bytes of transactions that each view may read and tell.
    allowance: usize,
}

impl ReorgFollower {
    /// A reader that has been told everything up to this Head.
    pub(crate) fn at(
        head: Arc<Head>,
        events: Receiver<Arc<Event>>,
        published: Published,
        allowance: usize,
    ) -> Result<Self, ApiError> {
        let (events, next) = (BroadcastStream::new(events), View::new(head).kept_reorgs()?.end);
        Ok(Self { events, next, pending: VecDeque::new(), held: None, published, allowance })
    }

    /// Takes what the Head has that was not taken before.
    fn take(&mut self) -> Result<(), ApiError> {
        let Some(held) = &self.held else { return Ok(()) };
        for found in View::new(held.head().clone()).reorgs(self.next..u64::MAX)?.take(TAKEN) {
            let (number, reorg) = found?;
            if reorg.outcome.is_none() {
                break;
            }
            self.next = number.saturating_add(1);
            self.pending.push_back(reorg);
        }
        Ok(())
    }
}

impl Following for ReorgFollower {
    type Found = (View, Reorg);

    /// The next one, and the view to tell it from; `None` once there will be no more.
    ///
    /// Errors: INTERNAL_SERVER_ERROR. There is nothing to be told after an error.
    async fn next(&mut self) -> Option<Result<(View, Reorg), ApiError>> {
        // what was taken is told from the newest Head as well
        if let Some(newest) = self.held.as_mut().and_then(|held| held.outlived(&self.published)) {
            self.held = Some(Held::new(newest));
        }
        loop {
            if self.pending.is_empty()
                && let Err(error) = self.take()
            {
                return Some(Err(error));
            }
            if let (Some(reorg), Some(held)) = (self.pending.pop_front(), &self.held) {
                let view = self.published.view_of(held.head().clone(), self.allowance, self.published.node_client());
                return Some(Ok((view, reorg)));
            }
            self.held = None;
            // after a gap the next event's Head has all that was missed
            if let Ok(event) = self.events.next().await? {
                self.held = Some(Held::new(event.head.clone()));
            }
        }
    }
}
