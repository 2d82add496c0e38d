//! No answer is older than what was announced.
//!
//! Clients learn of a block before the disk has it, and a crash may take it back. A client that saw a payment confirmed
//! must not learn from the restarted server that it is not. So if the index lacks the newest block that was announced, it
//! is withheld:
//!
//! ```text
//!   lost announcement ──► withheld ──┬── the index has the block, or another of its height ────► shown
//!                                    ├── the node holds the block for invalid ─────┐
//!                                    └── it was awaited for long enough ───────────┴─► noted as abandoned ──► shown
//! ```
//!
//! A node that is away keeps reads from going on in this case alone, and one that is behind, as after a crash of its own, is
//! waited for: but not for ever, since it may have moved to another chain. A block that was abandoned was announced in
//! vain. [`SyncState::lost_block`] says so until the index reaches its height; the next start does not wait for it again.

use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::error::SyncError;
use super::follow::SyncLoop;
use super::fork::is_on_invalid_branch;
use crate::chain::Height;
use crate::index::{Index, IndexError, Snapshot, Tip};
use crate::mempool::MempoolSnapshot;
use crate::node::{Node, NodeError};
use crate::view::{Head, Published, SyncState};

/// A block that was announced and that a crash took back: the index is not shown before it is there again, or was awaited
/// for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withheld {
    block: Tip,
    since: Instant,
    patience: Duration,
}

impl Withheld {
    /// For how much longer the block is awaited.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.patience.saturating_sub(self.since.elapsed())
    }

    /// Shows what the index holds, with this mempool, if the block was awaited for long enough; `None` then.
    ///
    /// Errors: the index, or what is noted beside it, cannot be read.
    pub fn release_when_due(
        self,
        index: &Index,
        mempool: MempoolSnapshot,
        published: &Published,
    ) -> Result<Option<Self>, SyncError> {
        if !self.left().is_zero() {
            return Ok(Some(self));
        }
        self.abandon(index)?;
        show(index, mempool, published)?;
        Ok(None)
    }

    /// Whether a chain of this tip may be shown.
    fn is_reached_by(&self, tip: Option<Tip>) -> bool {
        tip.is_some_and(|tip| tip.height >= self.block.height)
    }

    fn abandon(self, index: &Index) -> Result<(), IndexError> {
        let Tip { height, hash } = self.block;
        let (height, seconds) = (height.to_u32(), self.patience.as_secs());
        warn!(
            height,
            %hash,
            seconds,
            "the block that was announced before a crash did not come back in sync.lost_block_seconds: it was announced in \
             vain, and the index is answered for without it"
        );
        index.abandon_announcement(self.block)
    }
}

/// Makes what the index holds, and this mempool, the state that is read, unless the index lacks a block that was announced
/// before a crash: that is awaited for so long. An empty index publishes nothing.
///
/// Errors: the index, or what is noted beside it, cannot be read.
pub fn publish(
    index: &Index,
    mempool: MempoolSnapshot,
    published: &Published,
    patience: Duration,
) -> Result<Option<Withheld>, SyncError> {
    let awaited = index.lost_announcement()?;
    let lost_block = match awaited {
        Some(block) => Some(block),
        None => index.abandoned_announcement()?,
    };
    published.change_state(|state| SyncState { lost_block, ..state });
    let Some(block) = awaited else {
        show(index, mempool, published)?;
        return Ok(None);
    };
    let (height, seconds) = (block.height.to_u32(), patience.as_secs());
    warn!(
        height,
        hash = %block.hash,
        seconds,
        "a crash took back the newest block that was announced: nothing is answered until the node gives it again, at most \
         for sync.lost_block_seconds"
    );
    Withheld { block, since: Instant::now(), patience }.release_when_due(index, mempool, published)
}

fn show(index: &Index, mempool: MempoolSnapshot, published: &Published) -> Result<(), SyncError> {
    if let Some(head) = Head::behind(published.head().as_deref(), index.snapshot()?.into(), mempool) {
        published.publish(head.into());
    }
    Ok(())
}

impl SyncLoop<'_> {
    /// Whether this chain must not be shown; from the first that may be on, nothing is withheld any more.
    pub(super) fn is_withheld(&mut self, chain: &Snapshot) -> bool {
        let tip = chain.tip();
        if let Some(Withheld { block, .. }) = self.withheld.take_if(|withheld| withheld.is_reached_by(tip)) {
            info!(height = block.height.to_u32(), "the index has a block at the height of the lost block again");
        }
        let is_reached = |lost: Tip| tip.is_some_and(|tip| tip.height >= lost.height);
        if self.follow.published.state().lost_block.is_some_and(is_reached) {
            self.follow.published.change_state(|state| SyncState { lost_block: None, ..state });
        }
        self.withheld.is_some()
    }

    /// Whether to log this interruption. While a lost block is awaited the node is asked at every poll, and only a cause
    /// that differs from the last one is logged.
    pub(super) fn is_new_cause(&mut self, error: &SyncError) -> bool {
        if self.withheld.is_none() {
            self.logged_cause = None;
            return true;
        }
        let cause = match error {
            // the height of a node that catches up differs each time
            SyncError::Awaited { .. } => String::new(),
            other => other.to_string(),
        };
        let is_new = self.logged_cause.as_ref() != Some(&cause);
        self.logged_cause = Some(cause);
        is_new
    }

    /// Withholds nothing any more if the lost block was awaited for long enough. Whether that is so now: then there is
    /// something to show.
    pub(super) fn abandon_when_due(&mut self) -> Result<bool, IndexError> {
        let Some(withheld) = self.withheld.take_if(|withheld| withheld.left().is_zero()) else { return Ok(false) };
        withheld.abandon(self.follow.index)?;
        Ok(true)
    }

    /// The index is at this tip, the node's: shows it, if the node is not merely behind on the chain that was announced.
    ///
    /// Errors: [`SyncError::Awaited`]; the node's.
    pub(super) fn release_if_invalid(&mut self, tip: Option<Tip>) -> Result<(), SyncError> {
        let Some(Withheld { block, .. }) = self.withheld else { return Ok(()) };
        if !is_invalid(self.follow.node, block)? {
            let node = tip.map_or(Height::GENESIS, |tip| tip.height);
            return Err(SyncError::Awaited { node, announced: block.height });
        }
        info!(height = block.height.to_u32(), hash = %block.hash, "the node holds the block that a crash took back for invalid");
        self.follow.index.abandon_announcement(block)?;
        self.withheld = None;
        self.reannounce()
    }
}

/// Whether the node knows this block and holds it for invalid, wherever its branch leaves the active chain.
fn is_invalid(node: &Node, block: Tip) -> Result<bool, NodeError> {
    if node.header(&block.hash)?.is_none_or(|header| header.is_active()) {
        return Ok(false);
    }
    is_on_invalid_branch(node, block.height, |leaves_at| leaves_at < block.height.to_u32())
}
