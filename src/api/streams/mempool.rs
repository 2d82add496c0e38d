//! How a subscription follows the mempool without leaving anything out.
//!
//! Everything that happens there has a number, and each Head carries what happened last: the part that knows the number up to
//! which it was sent finds the rest in any later Head, as long as that remembers so much.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::follower::Follower;
use super::head_lease::HeadLease;
use crate::api::error::ApiError;
use crate::live::Event;
use crate::view::{Head, MempoolEvent, MempoolEventKind, Published, View};

/// Events that are taken out of a Head at once.
const TAKEN: usize = 1_000;

/// The place of one reader in what happens in the mempool.
pub(crate) struct MempoolFollower {
    events: BroadcastStream<Arc<Event>>,
    /// Which events are sent. The others cost next to nothing: a block is some thousand that most readers do not want.
    wanted: fn(&MempoolEventKind) -> bool,
    /// The number of the last event that was taken, or left.
    taken: u64,
    /// Whether there may be much more to take.
    is_far: bool,
    /// Taken, and not sent yet.
    pending: VecDeque<MempoolEvent>,
    /// What they are answered from.
    lease: HeadLease,
    published: Published,
    /// Bytes of transactions that each view may read.
    allowance: usize,
    /// The number that it began behind.
    begun_behind: u64,
}

impl MempoolFollower {
    /// A reader that has received everything up to this number, and wants these.
    ///
    /// Errors: CURSOR_EXPIRED if that is too long ago.
    pub(crate) fn after(
        sequence: u64,
        wanted: fn(&MempoolEventKind) -> bool,
        head: Arc<Head>,
        events: Receiver<Arc<Event>>,
        published: Published,
        allowance: usize,
    ) -> Result<Self, ApiError> {
        let (events, pending) = (BroadcastStream::new(events), VecDeque::new());
        let mut follower = Self {
            events,
            wanted,
            taken: sequence,
            is_far: false,
            pending,
            lease: HeadLease::new(head),
            published,
            allowance,
            begun_behind: sequence,
        };
        follower.take()?;
        Ok(follower)
    }

    /// The number of the last event that the reader had received when it began.
    pub(crate) fn begun_behind(&self) -> u64 {
        self.begun_behind
    }

    /// Switches to the newest state if this one was in use for long.
    pub(crate) fn switch_if_expired(&mut self) {
        // what was taken is answered from the newest Head as well as from any before it
        if let Some(newest) = self.lease.newer_head(&self.published) {
            self.lease = HeadLease::new(newest);
        }
    }

    /// The state that events are answered from now.
    pub(crate) fn head(&self) -> &Arc<Head> {
        self.lease.head()
    }

    /// A view of [`Self::head`] for one answer.
    pub(crate) fn view(&self) -> View {
        self.published.view_of(self.lease.head().clone(), self.allowance, self.published.node_client())
    }

    /// The next event, which is answered from [`Self::view`]; `None` once there will be no more.
    ///
    /// Errors: CURSOR_EXPIRED if the reader fell behind what is remembered. The stream ends with an error.
    pub(crate) async fn next_event(&mut self) -> Option<Result<MempoolEvent, ApiError>> {
        self.switch_if_expired();
        loop {
            if self.pending.is_empty()
                && let Err(error) = self.take()
            {
                return Some(Err(error));
            }
            if let Some(event) = self.pending.pop_front() {
                return Some(Ok(event));
            }
            match self.events.next().await? {
                // an older Head than the one that the reader began with has nothing new to tell
                Ok(event) if event.head.mempool.sequence() >= self.taken => {
                    self.lease = HeadLease::new(event.head.clone());
                }
                Ok(_) => {}
                Err(BroadcastStreamRecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "a subscription fell behind and continues from the stored mempool events");
                }
            }
        }
    }

    /// Takes what the Head has that was not taken before; where that is much, from the newest Head, so that none is kept
    /// for long.
    fn take(&mut self) -> Result<(), ApiError> {
        let newest = self.published.head().filter(|_| std::mem::take(&mut self.is_far));
        if let Some(newest) = newest.filter(|newest| newest.mempool.sequence() >= self.taken) {
            self.lease = HeadLease::new(newest);
        }
        let events = self.lease.head().mempool.events_after(self.taken).ok_or_else(|| {
            ApiError::cursor_expired(
                "the server no longer stores the mempool events since then: subscribe again, and query \
                 `mempool` again",
            )
        })?;
        let (wanted, taken) = (self.wanted, &mut self.taken);
        let passed = events.inspect(|event| *taken = event.sequence);
        self.pending.extend(passed.filter(|event| wanted(&event.kind)).take(TAKEN));
        self.is_far = self.pending.len() == TAKEN;
        Ok(())
    }
}

impl Follower for MempoolFollower {
    type Item = (View, MempoolEvent);

    async fn next(&mut self) -> Option<Result<(View, MempoolEvent), ApiError>> {
        let event = self.next_event().await?;
        Some(event.map(|event| (self.view(), event)))
    }
}
