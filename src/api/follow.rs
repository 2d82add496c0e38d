//! How a subscription follows the chain without leaving out a block.
//!
//! ```text
//!   event ──► take back to the fork what its Head does not have ──► walk its Head up to the event's block
//! ```
//!
//! An event says up to where to go; the way there is read from the event's own Head. So whatever was missed, because
//! the reader was too slow for the ring or because it began to listen a moment late, is told with the next event.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::error::ApiError;
use crate::chain::Height;
use crate::live::{ChainEvent, Event};
use crate::view::{self, Head, Published, Tip, View};

/// The place of one reader in the chain.
pub(super) struct Follower {
    events: BroadcastStream<Arc<Event>>,
    /// The last block told, or the tip when the reader came.
    told: Tip,
    /// Blocks yet to be told: from this Head, up to this height.
    ahead: Option<(Arc<Head>, Height)>,
    published: Published,
    /// Bytes of transactions that each view may read and tell.
    allowance: usize,
}

impl Follower {
    /// A reader that has been told everything up to `tip`, and whose views get this allowance each.
    pub(super) fn new(events: Receiver<Arc<Event>>, tip: Tip, published: Published, allowance: usize) -> Self {
        Self { events: BroadcastStream::new(events), told: tip, ahead: None, published, allowance }
    }

    /// The next block that joined the main chain, and the view to answer from; `None` once there will be no more.
    ///
    /// Errors: CURSOR_EXPIRED if the reader stands on a branch that is no longer kept; INTERNAL_SERVER_ERROR. There is
    /// nothing to be told after an error.
    pub(super) async fn next(&mut self) -> Option<Result<(View, view::Block), ApiError>> {
        loop {
            match self.walk() {
                Ok(Some(found)) => return Some(Ok(found)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(BroadcastStreamRecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "a subscription fell behind and goes on from the index");
                    continue;
                }
            };
            if let Err(error) = self.turn_to(&event) {
                return Some(Err(error));
            }
        }
    }

    /// The next block on the way, if there is one.
    fn walk(&mut self) -> Result<Option<(View, view::Block)>, ApiError> {
        let Some((head, to)) = self.ahead.take() else { return Ok(None) };
        if self.told.height >= to {
            return Ok(None);
        }
        let view = self.published.view_of(head.clone(), self.allowance, self.published.ask());
        let Some(block) = view.block_at(self.told.height.next())? else { return Ok(None) };
        self.told = Tip { height: block.height, hash: block.row.hash };
        self.ahead = Some((head, to));
        Ok(Some((view, block)))
    }

    /// Goes back to the newest block that the event's chain shares with what was told, and looks ahead from there.
    fn turn_to(&mut self, event: &Event) -> Result<(), ApiError> {
        let view = View::new(event.head.clone());
        let fork = view.fork_height(self.told.hash)?.ok_or_else(|| {
            ApiError::cursor_expired(format!(
                "the branch of block {} is not kept any more: subscribe again, and read what changed since",
                self.told.hash
            ))
        })?;
        if fork != self.told.height {
            self.told = Tip { height: fork, hash: view.block_hash(fork)? };
        }
        if let ChainEvent::Connected(tip) = event.event {
            self.ahead = Some((event.head.clone(), tip.height));
        }
        Ok(())
    }
}
