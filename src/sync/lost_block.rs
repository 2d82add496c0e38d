//! What the loop does while a lost block is awaited: it withholds the index (`withheld.rs`) until the block is there, is
//! invalid, or the wait is over.

use tracing::info;

use super::error::SyncError;
use super::fork::is_on_invalid_branch;
use super::sync_loop::SyncLoop;
use super::withheld::Withheld;
use crate::chain::Height;
use crate::index::{IndexError, Snapshot, Tip};
use crate::node::{Node, NodeError};

impl SyncLoop<'_> {
    /// Whether this chain must not be shown. The first chain that may be shown ends the wait.
    pub(super) fn is_withheld(&mut self, chain: &Snapshot) -> bool {
        let tip = chain.tip();
        if let Some(Withheld { block, .. }) = self.withheld.take_if(|withheld| withheld.is_reached_by(tip)) {
            info!(height = block.height.to_u32(), "the index has a block at the height of the lost block again");
        }
        let published = self.follow.published;
        if let Some(tip) = tip {
            let state = published.state();
            if state.with_lost_blocks_above(tip) != state {
                published.change_state(|state| state.with_lost_blocks_above(tip));
            }
        }
        self.withheld.is_some()
    }

    /// Whether to log this interruption. While a lost block is awaited the node fails at every poll, and only a cause
    /// that differs from the last one is logged.
    pub(super) fn is_new_cause(&mut self, error: &SyncError) -> bool {
        if self.withheld.is_none() {
            self.logged_cause = None;
            return true;
        }
        let cause = match error {
            // these contain the height of the node, which grows while the node catches up
            SyncError::Awaited { .. } | SyncError::NodeBehind { .. } => String::new(),
            other => other.to_string(),
        };
        let is_new = self.logged_cause.as_ref() != Some(&cause);
        self.logged_cause = Some(cause);
        is_new
    }

    /// Abandons the lost block if the wait for it is over. Returns whether it did: then the index has to be published.
    pub(super) fn abandon_when_due(&mut self) -> Result<bool, IndexError> {
        let Some(withheld) = self.withheld.take_if(|withheld| withheld.remaining().is_zero()) else { return Ok(false) };
        withheld.abandon(self.follow.index)?;
        Ok(true)
    }

    /// Shows the index, which is at the node's tip, if the node rejects the lost block. Otherwise the node is only
    /// behind.
    ///
    /// Errors: [`SyncError::Awaited`]; those of the node.
    pub(super) fn release_if_invalid(&mut self, tip: Option<Tip>) -> Result<(), SyncError> {
        let Some(Withheld { block, .. }) = self.withheld else { return Ok(()) };
        if !is_invalid(self.follow.node, block)? {
            let node = tip.map_or(Height::GENESIS, |tip| tip.height);
            return Err(SyncError::Awaited { node, announced: block.height });
        }
        let (height, hash) = (block.height.to_u32(), block.hash);
        info!(height, %hash, "the node considers the lost block invalid: queries are answered without it");
        self.follow.index.abandon_announcement(block)?;
        self.withheld = None;
        self.reannounce()
    }
}

/// Whether the node has this block and considers it invalid, wherever its branch leaves the active chain.
fn is_invalid(node: &Node, block: Tip) -> Result<bool, NodeError> {
    if node.header(&block.hash)?.is_none_or(|header| header.is_active()) {
        return Ok(false);
    }
    is_on_invalid_branch(node, block.height, |leaves_at| leaves_at < block.height.to_u32())
}
