//! Blocks that the node has beside its active chain: the index stores as stale those that it never connected, because it did not follow
//! the node when they were active, or because they never were. A client may come from another server that sent them, and
//! resume behind such a block.
//!
//! The row of a block depends on the chain below it. So the branch is connected in an update that is dropped, and another
//! update stores the rows:
//!
//! ```text
//!   dropped:    disconnect down to the fork ──► connect the branch ──► its rows
//!   committed:  the rows and bytes of its blocks, as stale
//! ```

use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use tracing::{debug, info};

use super::error::SyncError;
use super::follow::{SyncLoop, Until};
use crate::index::{BlockRow, ChainMembership, IndexError, ParsedBlock, Snapshot, Tip};
use crate::node::{ChainTip, ChainTipStatus, NodeError};

/// The most blocks from the fork up to the tip of the main chain, and so the most that are disconnected. Deeper branches are
/// not stored.
const MAX_DEPTH: u32 = 100;
/// The most blocks of a branch.
const MAX_BRANCH: u32 = 16;
/// The most branches that are stored together, the highest first.
const MAX_BRANCHES: usize = 8;
/// The shortest interval between requests for the node's branches, for which it looks through all its headers.
const INTERVAL: Duration = Duration::from_secs(3);

/// When to request the node's branches.
pub(super) struct Branches {
    /// Whether there may be branches that the index does not have.
    is_due: bool,
    requested_at: Option<Instant>,
    /// Tips of branches that cannot be stored.
    unusable: Vec<BlockHash>,
}

impl Default for Branches {
    /// Due, as the node may have changed its chain before the start.
    fn default() -> Self {
        Self { is_due: true, requested_at: None, unusable: Vec::new() }
    }
}

impl Branches {
    /// Notes a change of the chain. If it is more than the next block, the node may have left a branch in between.
    pub(super) fn note_change(&mut self, disconnected: usize, connected: usize) {
        self.is_due |= (disconnected, connected) != (0, 1);
    }
}

/// A block of a branch, ready to be stored.
struct BranchBlock {
    at: Tip,
    block: ParsedBlock,
    row: BlockRow,
}

impl SyncLoop<'_> {
    /// Stores and publishes the node's branches, if there may be new ones, or a client waits for a block that the index does
    /// not have. The chain of the index is that of the node.
    ///
    /// Errors: the index cannot be read or written; the service stops.
    pub(super) fn store_branches_when_due(&mut self) -> Result<(), SyncError> {
        if self.follow.until == Until::CaughtUp || self.withheld.is_some() {
            return Ok(());
        }
        self.branches.is_due |= self.follow.published.take_block_request();
        let is_early = self.branches.requested_at.is_some_and(|requested| requested.elapsed() < INTERVAL);
        if !self.branches.is_due || is_early {
            return Ok(());
        }
        self.branches.requested_at = Some(Instant::now());
        self.branches.is_due = false;
        let tips = match self.follow.node.chain_tips() {
            Ok(tips) => tips,
            Err(error) => return self.postpone_branches(error.into()),
        };
        self.branches.unusable.retain(|hash| tips.iter().any(|tip| tip.hash == *hash));
        let mut stored = 0;
        for branch in self.wanted_branches(tips)? {
            match self.store_branch(branch) {
                Ok(0) => self.branches.unusable.push(branch.hash),
                Ok(blocks) => stored += blocks,
                Err(error) if is_of_branch(&error) => {
                    debug!(%error, hash = %branch.hash, "a branch of the node cannot be stored");
                    self.branches.unusable.push(branch.hash);
                }
                Err(error) => {
                    self.postpone_branches(error)?;
                    break;
                }
            }
        }
        if stored == 0 {
            return Ok(());
        }
        info!(blocks = stored, "stored stale blocks that the node has beside its chain");
        self.follow.index.flush_soon()?;
        self.reannounce()
    }

    /// Tries again later if a retry may succeed, and otherwise at the next occasion: whether the node lists its branches decides about
    /// nothing else.
    ///
    /// Errors: this one, if it is of the index, or the service stops.
    fn postpone_branches(&mut self, error: SyncError) -> Result<(), SyncError> {
        self.branches.is_due = error.is_transient();
        if error.is_stop() || !(self.branches.is_due || matches!(error, SyncError::Node(_))) {
            return Err(error);
        }
        debug!(%error, "the node's branches cannot be read now");
        Ok(())
    }

    /// The branches near the tip whose blocks the node has and the index does not, the highest first.
    fn wanted_branches(&self, mut tips: Vec<ChainTip>) -> Result<Vec<Tip>, IndexError> {
        let chain = self.follow.index.snapshot()?;
        let Some(tip) = chain.tip() else { return Ok(Vec::new()) };
        tips.sort_unstable_by_key(|branch| std::cmp::Reverse(branch.height));
        let mut wanted = Vec::new();
        for branch in tips {
            let is_available = matches!(branch.status, ChainTipStatus::ValidFork | ChainTipStatus::ValidHeaders);
            let fork = branch.height.to_u32().saturating_sub(branch.branch_length);
            let is_near = fork.saturating_add(MAX_DEPTH) >= tip.height.to_u32() && branch.branch_length <= MAX_BRANCH;
            let is_unusable = self.branches.unusable.contains(&branch.hash);
            if is_available && is_near && !is_unusable && chain.block_place(branch.hash)?.is_none() {
                wanted.push(Tip { height: branch.height, hash: branch.hash });
            }
        }
        wanted.truncate(MAX_BRANCHES);
        Ok(wanted)
    }

    /// Stores the blocks of a branch up to its tip. Returns how many blocks the index has now that it did not have before: none
    /// if the branch is too long, leaves the main chain too far below its tip, or is too low to be kept.
    fn store_branch(&mut self, tip: Tip) -> Result<usize, SyncError> {
        let chain = self.follow.index.snapshot()?;
        let Some((fork, branch)) = self.path_to_fork(&chain, tip)? else { return Ok(0) };
        let mut new = Vec::new();
        for block in self.rows_of_branch(fork, branch)?.unwrap_or_default() {
            if chain.block_place(block.at.hash)?.is_none() {
                new.push(block);
            }
        }
        drop(chain);
        let mut update = self.follow.index.update()?;
        for BranchBlock { at, block, row } in &new {
            update.store_stale(at.height, block, row)?;
        }
        update.commit_non_durable()?;
        let stored = self.follow.index.snapshot()?;
        let mut kept = 0;
        for block in &new {
            kept += usize::from(stored.block_place(block.at.hash)?.is_some());
        }
        Ok(kept)
    }

    /// The newest block of the main chain below a branch, and the hashes of the branch, the lowest first; `None` if it is too
    /// long.
    fn path_to_fork(&self, chain: &Snapshot, tip: Tip) -> Result<Option<(Tip, Vec<BlockHash>)>, SyncError> {
        let (mut hash, mut branch) = (tip.hash, Vec::new());
        for _ in 0..=MAX_BRANCH {
            if let Some(place) = chain.block_place(hash)?
                && place.membership == ChainMembership::Main
            {
                branch.reverse();
                return Ok(Some((Tip { height: place.height, hash }, branch)));
            }
            branch.push(hash);
            let Some(header) = self.follow.node.header(&hash)? else { break };
            let Some(previous) = header.previous else { break };
            hash = previous;
        }
        Ok(None)
    }

    /// The blocks of a branch and their rows, `None` if it leaves the main chain too far below its tip. Changes nothing.
    fn rows_of_branch(&mut self, fork: Tip, branch: Vec<BlockHash>) -> Result<Option<Vec<BranchBlock>>, SyncError> {
        let mut dropped = self.follow.index.update()?;
        for _ in 0..=MAX_DEPTH {
            if dropped.tip() == Some(fork) {
                break;
            }
            if dropped.is_full()? {
                return Ok(None);
            }
            dropped.disconnect()?;
        }
        if dropped.tip() != Some(fork) {
            return Ok(None);
        }
        let (parser, mut height, mut blocks) = (dropped.parser(), fork.height, Vec::new());
        for hash in branch {
            let block = parser.parse(hash, self.follow.node.block(&hash)?)?;
            dropped.connect(std::slice::from_ref(&block))?;
            height = height.next();
            blocks.push(BranchBlock { at: Tip { height, hash }, row: dropped.block(height)?, block });
        }
        Ok(Some(blocks))
    }
}

/// Whether the error means that this branch cannot be stored, and nothing else.
fn is_of_branch(error: &SyncError) -> bool {
    match error {
        SyncError::Node(NodeError::Stopped) => false,
        SyncError::Node(error) => !error.is_transient(),
        SyncError::Index(error) => matches!(
            error,
            IndexError::InvalidBlock { .. }
                | IndexError::Malformed { .. }
                | IndexError::NotOnTip { .. }
                | IndexError::Unresolved { .. }
        ),
        _ => false,
    }
}
