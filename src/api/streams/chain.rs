//! How a subscription follows the chain without leaving out a block.
//!
//! ```text
//!   event ──► take back, block by block, what its Head does not have ──► walk its Head up to its tip
//! ```
//!
//! An event's Head says up to where to go, and the way there is read from it, too. So whatever was skipped, because the
//! reader was too slow for the ring, or began to listen a moment late, or was away for a week and comes back with a
//! cursor, is sent all the same.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::BlockHash;
use tokio::sync::broadcast::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::follower::{Follower, block_not_stored};
use super::head_lease::HeadLease;
use super::resume::ChainCursor;
use crate::api::error::ApiError;
use crate::live::Event;
use crate::view::{self, Head, Published, View};

/// The place of one reader in the chain.
pub(crate) struct ChainFollower {
    events: BroadcastStream<Arc<Event>>,
    /// The newest block of the chain as it was sent, or the tip when the reader came.
    sent: BlockHash,
    /// How often the tip had changed in the Head that was turned to last.
    tip_changes: u64,
    /// Blocks that are not sent yet as gone, the highest first.
    back: VecDeque<BlockHash>,
    /// Where to go, and what all blocks on the way are answered from.
    ahead: Option<HeadLease>,
    published: Published,
    /// Bytes of transactions that each view may read.
    allowance: usize,
    /// How many blocks were answered from the Head where to go.
    walked: usize,
}

/// After so many blocks a reader that walks far turns to the newest Head, and lets go of the one it read from.
const PAGE: usize = 1_000;

/// A block that joined the main chain or left it, and the view to answer from.
pub(crate) struct Change {
    pub(crate) view: View,
    pub(crate) block: view::Block,
    pub(crate) joined: bool,
}

impl Change {
    /// Where the reader is that has heard of it.
    pub(crate) fn place(&self) -> ChainCursor {
        let hash = self.block.row.hash;
        if self.joined { ChainCursor::Connected(hash) } else { ChainCursor::Disconnected(hash) }
    }
}

impl ChainFollower {
    /// A reader that has received everything up to the tip of a Head, and whose views get this allowance each.
    pub(crate) fn at(head: &Head, events: Receiver<Arc<Event>>, published: Published, allowance: usize) -> Self {
        let (sent, tip_changes) = (head.tip.hash, head.tip_history.count());
        let events = BroadcastStream::new(events);
        Self { events, sent, tip_changes, back: VecDeque::new(), ahead: None, published, allowance, walked: 0 }
    }

    /// A reader that continues from where it was to where the Head is.
    ///
    /// Errors: CURSOR_EXPIRED if the block it was informed of last is not known here.
    pub(crate) fn after(
        place: ChainCursor,
        head: &Arc<Head>,
        events: Receiver<Arc<Event>>,
        published: Published,
        allowance: usize,
    ) -> Result<Self, ApiError> {
        let mut follower = Self::at(head, events, published, allowance);
        follower.sent = match place {
            ChainCursor::Connected(hash) => hash,
            ChainCursor::Disconnected(hash) => {
                let block = View::new(head.clone()).block(hash)?.ok_or_else(|| block_not_stored(hash))?;
                block.row.header.prev_blockhash
            }
        };
        follower.switch_to(head)?;
        Ok(follower)
    }

    /// Where the reader is.
    pub(crate) fn place(&self) -> ChainCursor {
        ChainCursor::Connected(self.sent)
    }

    /// The next block on the way, if there is one.
    fn walk(&mut self) -> Result<Option<Change>, ApiError> {
        let Some(ahead) = self.ahead.take() else { return Ok(None) };
        let head = ahead.head();
        let view = self.published.view_of(head.clone(), self.allowance, self.published.node_client());
        if let Some(hash) = self.back.pop_front() {
            // it was there when this Head was turned to
            let block = view.block(hash)?.ok_or_else(|| block_not_stored(hash))?;
            self.sent = block.row.header.prev_blockhash;
            self.ahead = Some(ahead);
            return Ok(Some(Change { view, block, joined: false }));
        }
        if self.sent == head.tip.hash {
            return Ok(None);
        }
        let place = view.block_place(self.sent)?.ok_or_else(|| block_not_stored(self.sent))?;
        let Some(block) = view.block_at(place.height.next())? else { return Ok(None) };
        self.sent = block.row.hash;
        self.ahead = Some(ahead);
        Ok(Some(Change { view, block, joined: true }))
    }

    /// Switches to the newest Head when many blocks were answered from one that may have been replaced long ago, or that one was
    /// in use for long.
    fn switch_if_far(&mut self) -> Result<(), ApiError> {
        let Some(lease) = &mut self.ahead else { return Ok(()) };
        let newest = if self.walked < PAGE { lease.newer_head(&self.published) } else { self.published.head() };
        newest.map_or(Ok(()), |newest| self.switch_to(&newest))
    }

    /// Looks ahead to this Head: first back to the newest block that its chain shares with what was sent.
    fn switch_to(&mut self, head: &Arc<Head>) -> Result<(), ApiError> {
        (self.walked, self.tip_changes) = (0, head.tip_history.count());
        self.ahead = None;
        self.back.clear();
        if head.tip.hash == self.sent {
            return Ok(());
        }
        let view = View::new(head.clone());
        let mut hash = self.sent;
        let fork = view.fork_height(hash)?.ok_or_else(|| block_not_stored(hash))?;
        // all blocks from there to the fork are kept
        while let Some(block) = view.block(hash)?.filter(|block| block.height > fork) {
            self.back.push_back(hash);
            hash = block.row.header.prev_blockhash;
        }
        self.ahead = Some(HeadLease::new(head.clone()));
        Ok(())
    }
}

impl Follower for ChainFollower {
    type Item = Change;

    /// What happened next; `None` once there will be no more.
    ///
    /// Errors: CURSOR_EXPIRED if the reader stands on a branch that is no longer kept; INTERNAL_SERVER_ERROR. There is
    /// nothing to be sent after an error.
    async fn next(&mut self) -> Option<Result<Change, ApiError>> {
        loop {
            match self.switch_if_far().and_then(|()| self.walk()) {
                Ok(Some(found)) => {
                    self.walked += 1;
                    return Some(Ok(found));
                }
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(BroadcastStreamRecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "a subscription fell behind and continues from the index");
                    continue;
                }
            };
            // an older Head than the one that was turned to does not know the blocks that were sent
            if event.head.tip_history.count() > self.tip_changes
                && let Err(error) = self.switch_to(&event.head)
            {
                return Some(Err(error));
            }
        }
    }
}
