//! How a subscription follows reorganisations without leaving one out: they are numbered as they happen, and every Head
//! holds those before it. One of which it is not known yet what became of transactions, and those behind it, are sent when
//! it is known, or will not be any more: an event reports that, too.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use super::follower::Follower;
use super::head_lease::HeadLease;
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
    /// Taken, and not sent yet.
    pending: VecDeque<Reorg>,
    /// What they are answered from; nothing while there is nothing to tell.
    lease: Option<HeadLease>,
    published: Published,
    /// Bytes of transactions that each view may read.
    allowance: usize,
}

impl ReorgFollower {
    /// A reader that has received everything up to this Head.
    pub(crate) fn at(
        head: Arc<Head>,
        events: Receiver<Arc<Event>>,
        published: Published,
        allowance: usize,
    ) -> Result<Self, ApiError> {
        let (events, next) = (BroadcastStream::new(events), View::new(head).kept_reorgs()?.end);
        Ok(Self { events, next, pending: VecDeque::new(), lease: None, published, allowance })
    }

    /// Takes what the Head has that was not taken before.
    fn take(&mut self) -> Result<(), ApiError> {
        let Some(lease) = &self.lease else { return Ok(()) };
        for found in View::new(lease.head().clone()).reorgs(self.next..u64::MAX)?.take(TAKEN) {
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

impl Follower for ReorgFollower {
    type Item = (View, Reorg);

    /// The next one, and the view to tell it from; `None` once there will be no more.
    ///
    /// Errors: INTERNAL_SERVER_ERROR. The stream ends with an error.
    async fn next(&mut self) -> Option<Result<(View, Reorg), ApiError>> {
        // what was taken is answered from the newest Head as well
        if let Some(newest) = self.lease.as_mut().and_then(|lease| lease.newer_head(&self.published)) {
            self.lease = Some(HeadLease::new(newest));
        }
        loop {
            if self.pending.is_empty()
                && let Err(error) = self.take()
            {
                return Some(Err(error));
            }
            if let (Some(reorg), Some(lease)) = (self.pending.pop_front(), &self.lease) {
                let view = self.published.view_of(lease.head().clone(), self.allowance, self.published.node_client());
                return Some(Ok((view, reorg)));
            }
            self.lease = None;
            // after a gap the next event's Head has all that was skipped
            if let Ok(event) = self.events.next().await? {
                self.lease = Some(HeadLease::new(event.head.clone()));
            }
        }
    }
}
