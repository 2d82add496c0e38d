//! Nobody is answered for an older block than what was told.
//!
//! Clients are told of a block before the disk has it, and a crash may take it back. Who was told that a payment is
//! confirmed must not hear from a server that begins again that it is not. So if the index then lacks the newest block that
//! was told of, it is not shown until it has that block, or another of its height, or until the node says that this block
//! is invalid. A node that is away keeps reads from going on in this case alone; one that is behind, as after a crash of
//! its own, is waited for.

use tracing::{info, warn};

use super::error::SyncError;
use super::follow::{Follow, Following, Until};
use super::fork::is_on_invalid_branch;
use crate::chain::Height;
use crate::index::{Index, IndexError, Snapshot, Tip};
use crate::node::{Node, NodeError};

/// The block that has to come before the index is shown: the newest that was told of, if a crash took it back.
pub(super) fn taken_back(index: &Index) -> Result<Option<Tip>, IndexError> {
    let told = index.taken_back()?;
    if let Some(Tip { height, hash }) = told {
        let height = height.to_u32();
        warn!(height, %hash, "a crash took back the newest block that clients were told of, and nothing is answered until the node gave it again");
    }
    Ok(told)
}

impl Following<'_> {
    /// What is held back at the beginning. Who only catches up shows nothing to anybody.
    pub(super) fn held_back_from(follow: &Follow<'_>) -> Result<Option<Tip>, IndexError> {
        if follow.until == Until::Stopped { follow.index.taken_back() } else { Ok(None) }
    }

    /// Whether this chain must not be shown; from the first that may be on, none is held back any more.
    pub(super) fn holds_back(&mut self, chain: &Snapshot) -> bool {
        self.held_back = self.held_back.filter(|told| chain.tip().is_none_or(|tip| tip.height < told.height));
        self.held_back.is_some()
    }

    /// The index is at this tip, the node's: shows it, if the node is not merely behind on the chain that was told of.
    ///
    /// Errors: [`SyncError::Awaited`]; the node's.
    pub(super) fn show_what_is_held_back(&mut self, tip: Option<Tip>) -> Result<(), SyncError> {
        let Some(told) = self.held_back else { return Ok(()) };
        if !is_invalid(self.follow.node, told)? {
            let node = tip.map_or(Height::GENESIS, |tip| tip.height);
            return Err(SyncError::Awaited { node, told: told.height });
        }
        info!("the node left the block that a crash took back");
        // or the next start would hold it back again
        self.follow.index.note_told()?;
        self.held_back = None;
        self.announce_anew()
    }
}

/// Whether the node knows this block and holds it for invalid, wherever its branch leaves the active chain.
fn is_invalid(node: &Node, block: Tip) -> Result<bool, NodeError> {
    if node.header(&block.hash)?.is_none_or(|header| header.is_active()) {
        return Ok(false);
    }
    is_on_invalid_branch(node, block.height, |leaves_at| leaves_at < block.height.to_u32())
}
