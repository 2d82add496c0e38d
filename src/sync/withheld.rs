//! Withholds an index that lacks an announced block, so that no answer after a crash is older than an announcement.
//!
//! Clients receive a block before it is durable, and a crash may remove it from the index. A client that saw a
//! confirmed payment must not see it unconfirmed after a restart. So if the index lacks the newest announced block, it
//! is withheld:
//!
//! ```text
//!   lost announcement ──► withheld ──┬── the index has the block, or another of its height ────► shown
//!                                    ├── the node considers the block invalid ─────┐
//!                                    └── the wait is over ─────────────────────────┴─► abandoned ─────────► shown
//! ```
//!
//! Only in this case do queries depend on the node. The server waits for a node that is behind, as after a crash of its
//! own, but not without a bound, since the node may be on another chain. [`SyncState::abandoned_block`] shows
//! the block until the index reaches its height; the next start does not wait for it.
//!
//! A block that a reorganisation disconnected is not lost. It leaves the index in the commit of the blocks that replace it, unless
//! the reorganisation is deep or the node's chain is shorter (`advance.rs`): after a crash in the middle of the former, or after the
//! latter, the shorter chain is shown.

use std::time::{Duration, Instant};

use tracing::warn;

use super::error::SyncError;
use crate::index::{Index, IndexError, Tip};
use crate::mempool::MempoolSnapshot;
use crate::view::{Head, Published, SyncState};

/// A lost block: it was announced, and a crash removed it from the index. The index is not shown until the block is
/// there again, or the wait for it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withheld {
    pub(super) block: Tip,
    since: Instant,
    patience: Duration,
}

impl Withheld {
    /// The remaining time of the wait.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.patience.saturating_sub(self.since.elapsed())
    }

    /// Shows the index with this mempool if the wait is over, and returns `None` then.
    ///
    /// Errors: the index or the note of the announcement cannot be read.
    pub fn release_when_due(
        self,
        index: &Index,
        mempool: MempoolSnapshot,
        published: &Published,
    ) -> Result<Option<Self>, SyncError> {
        if !self.remaining().is_zero() {
            return Ok(Some(self));
        }
        self.abandon(index)?;
        show(index, mempool, published)?;
        Ok(None)
    }

    /// Whether a chain with this tip may be shown.
    pub(super) fn is_reached_by(&self, tip: Option<Tip>) -> bool {
        tip.is_some_and(|tip| tip.height >= self.block.height)
    }

    pub(super) fn abandon(self, index: &Index) -> Result<(), IndexError> {
        let Tip { height, hash } = self.block;
        let (height, seconds) = (height.to_u32(), self.patience.as_secs());
        warn!(
            height,
            %hash,
            seconds,
            "the block that was announced before a crash did not return within sync.lost_block_seconds: it was \
             announced in vain, and queries are answered without it"
        );
        index.abandon_announcement(self.block)
    }
}

/// Publishes the index with this mempool, unless the index lacks an announced block; that block is awaited for
/// `patience`. An empty index is not published.
///
/// Errors: the index or the note of the announcement cannot be read.
pub fn publish(
    index: &Index,
    mempool: MempoolSnapshot,
    published: &Published,
    patience: Duration,
) -> Result<Option<Withheld>, SyncError> {
    let (awaited_block, abandoned_block) = (index.lost_announcement()?, index.abandoned_announcement()?);
    published.change_state(|state| SyncState { awaited_block, abandoned_block, ..state });
    let Some(block) = awaited_block else {
        show(index, mempool, published)?;
        return Ok(None);
    };
    let (height, seconds) = (block.height.to_u32(), patience.as_secs());
    warn!(
        height,
        hash = %block.hash,
        seconds,
        "a crash removed the newest announced block from the index: no query is answered until the node sends it \
         again, or until sync.lost_block_seconds have passed"
    );
    Withheld { block, since: Instant::now(), patience }.release_when_due(index, mempool, published)
}

fn show(index: &Index, mempool: MempoolSnapshot, published: &Published) -> Result<(), SyncError> {
    if let Some(head) = Head::after(published.head().as_deref(), index.snapshot()?.into(), mempool) {
        published.publish(head.into());
    }
    Ok(())
}
