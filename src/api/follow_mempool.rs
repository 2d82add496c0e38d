//! How a subscription follows the mempool without leaving anything out.
//!
//! Everything that happens there has a number, and each Head carries what happened last: whoever knows the number up to
//! which he was told finds the rest in any later Head, as long as that remembers so much.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::error::ApiError;
use super::follow::Following;
use crate::live::Event;
use crate::view::{Head, MempoolEvent, Published, View};

/// Events that are taken out of a Head at once.
const TAKEN: usize = 1_000;

/// The place of one reader in what happens in the mempool.
pub(super) struct MempoolFollower {
    events: BroadcastStream<Arc<Event>>,
    /// The number of the last event that was taken.
    taken: u64,
    /// Whether there may be much more to take.
    is_far: bool,
    /// Taken, and yet to be told.
    pending: VecDeque<MempoolEvent>,
    /// What they are told from.
    head: Arc<Head>,
    published: Published,
    /// Bytes of transactions that each view may read and tell.
    allowance: usize,
}

impl MempoolFollower {
    /// A reader that has been told everything up to this number.
    ///
    /// Errors: CURSOR_EXPIRED if that is too long ago.
    pub(super) fn after(
        sequence: u64,
        head: Arc<Head>,
        events: Receiver<Arc<Event>>,
        published: Published,
        allowance: usize,
    ) -> Result<Self, ApiError> {
        let (events, pending) = (BroadcastStream::new(events), VecDeque::new());
        let mut follower = Self { events, taken: sequence, is_far: false, pending, head, published, allowance };
        follower.take()?;
        Ok(follower)
    }

    /// Takes what the Head has that was not taken before; where that is much, from the newest Head, so that none is held
    /// for long.
    fn take(&mut self) -> Result<(), ApiError> {
        let newest = self.published.head().filter(|_| std::mem::take(&mut self.is_far));
        if let Some(newest) = newest.filter(|newest| newest.mempool.sequence() >= self.taken) {
            self.head = newest;
        }
        let events = self.head.mempool.events_after(self.taken).ok_or_else(|| {
            ApiError::cursor_expired(
                "what happened in the mempool since then is not remembered any more: subscribe again, and read \
                 `mempool` anew",
            )
        })?;
        self.pending.extend(events.take(TAKEN));
        self.is_far = self.pending.len() == TAKEN;
        self.taken = self.pending.back().map_or(self.taken, |event| event.sequence);
        Ok(())
    }
}

impl Following for MempoolFollower {
    type Found = (View, MempoolEvent);

    /// The next event, and the view to answer from; `None` once there will be no more.
    ///
    /// Errors: CURSOR_EXPIRED if the reader fell behind what is remembered. There is nothing to be told after an error.
    async fn next(&mut self) -> Option<Result<(View, MempoolEvent), ApiError>> {
        loop {
            if self.pending.is_empty()
                && let Err(error) = self.take()
            {
                return Some(Err(error));
            }
            if let Some(event) = self.pending.pop_front() {
                let view = self.published.view_of(self.head.clone(), self.allowance, self.published.ask());
                return Some(Ok((view, event)));
            }
            match self.events.next().await? {
                // an older Head than the one that the reader began with has nothing new to tell
                Ok(event) if event.head.mempool.sequence() >= self.taken => self.head = event.head.clone(),
                Ok(_) => {}
                Err(BroadcastStreamRecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "a subscription fell behind and goes on from what is remembered");
                }
            }
        }
    }
}
