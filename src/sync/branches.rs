//! Blocks that the node has beside its active chain: the index stores as stale those that it never connected, because it did not follow
//! the node when they were active, or because they never were. A client may come from another server that sent them, and
//! resume behind such a block.
//!
//! ```text
//!   the chain changes by more than a block ──┐
//!   a client waits for a block of a branch ──┴─► the node's branches ──► store those near the tip
//! ```
//!
//! The row of a block depends on the chain below it. So the branch is connected in an update that is dropped, and another
//! update stores the rows:
//!
//! ```text
//!   dropped:    disconnect down to the fork ──► connect the branch ──► its rows
//!   committed:  the rows and bytes of its blocks, as stale
//! ```
//!
//! Nothing else depends on it: what fails here is tried again later, or is left out.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use tracing::{info, warn};

use super::background::Retry;
use super::error::SyncError;
use super::follow::{SyncLoop, Until};
use crate::index::{BlockRow, ChainMembership, IndexError, ParsedBlock, Patience, Snapshot, Tip};
use crate::node::{ChainTip, ChainTipStatus, NodeError};

/// The most blocks from the fork up to the tip of the main chain, and so the most that are disconnected. Deeper branches are
/// not stored.
const MAX_DEPTH: u32 = 100;
/// The most blocks of a branch.
const MAX_BRANCH: u32 = 16;
/// The longest time for the rows of a branch. No block is connected meanwhile.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// What a failure means.
const CANNOT_STORE: &str = "cannot store the blocks of the node's other branches; the main chain is followed";

/// When to look for branches, and which not to look at again.
pub(super) struct Branches {
    /// Whether there may be branches that the index does not have.
    is_due: bool,
    retry: Retry,
    /// Tips of branches that cannot be stored.
    unusable: Vec<BlockHash>,
    /// Requested blocks for which the node's branches were searched since the last block.
    searched: Vec<BlockHash>,
}

impl Default for Branches {
    /// Due, as the node may have changed its chain before the start.
    fn default() -> Self {
        Self { is_due: true, retry: Retry::default(), unusable: Vec::new(), searched: Vec::new() }
    }
}

impl Branches {
    /// Notes a change of the chain. If it is more than the next block, the node may have left a branch in between.
    pub(super) fn note_change(&mut self, disconnected: usize, connected: usize) {
        self.is_due |= (disconnected, connected) != (0, 1);
        self.searched.clear();
    }
}

/// A block of a branch, ready to be stored.
struct BranchBlock {
    at: Tip,
    block: ParsedBlock,
    row: BlockRow,
}

impl SyncLoop<'_> {
    /// Stores and publishes the node's branches, if there may be new ones, or a client waits for a block of one. The index is at the
    /// node's tip.
    ///
    /// Errors: the index cannot be written; the service stops.
    pub(super) fn store_branches_when_due(&mut self) -> Result<(), SyncError> {
        if self.follow.until == Until::CaughtUp || self.withheld.is_some() || self.branches.retry.is_waiting() {
            return Ok(());
        }
        // what a thread waits for here would hold up the main chain
        Patience::SHORT.scope(|| match self.find_branches() {
            Ok(branches) => self.store_branches(branches),
            Err(error) => self.postpone_branches(&error),
        })
    }

    /// The branches near the tip that the index does not have, the highest first; none if there is no reason to look for
    /// them.
    fn find_branches(&mut self) -> Result<Vec<Tip>, SyncError> {
        let chain = self.follow.index.snapshot()?;
        let is_due = self.branches.is_due || self.is_branch_requested(&chain)?;
        let Some(tip) = chain.tip().filter(|_| is_due) else { return Ok(Vec::new()) };
        let tips = self.follow.node.chain_tips()?;
        self.branches.is_due = false;
        self.branches.unusable.retain(|hash| tips.iter().any(|branch| branch.hash == *hash));
        let mut branches = Vec::new();
        for ChainTip { height, hash, branch_length, status } in tips {
            let is_valid =
                !matches!(status, ChainTipStatus::Active | ChainTipStatus::Invalid | ChainTipStatus::Unknown);
            let fork = height.to_u32().saturating_sub(branch_length);
            let is_near = fork.saturating_add(MAX_DEPTH) >= tip.height.to_u32() && branch_length <= MAX_BRANCH;
            let is_new = !self.branches.unusable.contains(&hash) && chain.block_place(hash)?.is_none();
            if is_valid && is_near && is_new {
                branches.push(Tip { height, hash });
            }
        }
        branches.sort_unstable_by_key(|branch| Reverse(branch.height));
        Ok(branches)
    }

    /// Whether a client waits for a block that the index does not have, and the node has beside its active chain, near its
    /// tip.
    fn is_branch_requested(&mut self, chain: &Snapshot) -> Result<bool, SyncError> {
        let tip = chain.tip().map_or(0, |tip| tip.height.to_u32());
        for hash in self.follow.published.requested_blocks() {
            if self.branches.searched.contains(&hash) || chain.block_place(hash)?.is_some() {
                continue;
            }
            // for its tips the node looks through all its headers
            let header = self.follow.node.header(&hash)?.filter(|header| !header.is_active());
            if header.is_some_and(|header| header.height.to_u32().saturating_add(MAX_DEPTH) >= tip) {
                self.branches.searched.push(hash);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stores branches for a limited time, and publishes them. Those that remain are due in the next round.
    fn store_branches(&mut self, branches: Vec<Tip>) -> Result<(), SyncError> {
        let (began, mut stored) = (Instant::now(), 0);
        for branch in branches {
            if began.elapsed() >= TIME_LIMIT {
                self.branches.is_due = true;
                break;
            }
            match self.rows_of_branch(branch) {
                Ok(Some(blocks)) => match self.store_branch(&blocks)? {
                    0 => self.branches.unusable.push(branch.hash),
                    blocks => stored += blocks,
                },
                Ok(None) => self.branches.unusable.push(branch.hash),
                Err(error) if error.is_stop() => return Err(error),
                Err(error) if is_temporary(&error) => {
                    self.branches.is_due = true;
                    self.postpone_branches(&error)?;
                    break;
                }
                Err(error) => {
                    warn!(%error, height = branch.height.to_u32(), hash = %branch.hash, "a branch of the node is not stored");
                    self.branches.unusable.push(branch.hash);
                }
            }
        }
        if stored == 0 {
            return Ok(());
        }
        info!(blocks = stored, "stored stale blocks that the node has beside its active chain");
        self.follow.index.flush_soon()?;
        self.reannounce()
    }

    /// Begins the pause after a failure.
    ///
    /// Errors: the service stops.
    fn postpone_branches(&mut self, error: &SyncError) -> Result<(), SyncError> {
        if error.is_stop() {
            return Err(NodeError::Stopped.into());
        }
        self.branches.retry.postpone(error, CANNOT_STORE);
        Ok(())
    }

    /// Stores those of these blocks that the index does not have. Returns how many it has kept, none if the disk lacks the space
    /// or they are lower than the stale blocks that are kept.
    fn store_branch(&mut self, blocks: &[BranchBlock]) -> Result<usize, SyncError> {
        let before = self.follow.index.snapshot()?;
        let mut new = Vec::new();
        for block in blocks {
            if before.block_place(block.at.hash)?.is_none() {
                new.push(block);
            }
        }
        drop(before);
        let mut update = self.follow.index.update()?;
        let blocks: Vec<_> = new.iter().map(|block| block.block.clone()).collect();
        if !update.required_space_for(&blocks)?.is_free() {
            return Ok(0);
        }
        for BranchBlock { at, block, row } in &new {
            update.store_stale(at.height, block, row)?;
        }
        update.commit_non_durable()?;
        let after = self.follow.index.snapshot()?;
        let mut kept = 0;
        for block in &new {
            kept += usize::from(after.block_place(block.at.hash)?.is_some());
        }
        Ok(kept)
    }

    /// The blocks of a branch up to this one, or up to the highest that the node has the bytes of, and their rows. `None` if it is too
    /// long, leaves the main chain too far below its tip, or takes too much time. Changes nothing.
    fn rows_of_branch(&mut self, tip: Tip) -> Result<Option<Vec<BranchBlock>>, SyncError> {
        let chain = self.follow.index.snapshot()?;
        let Some((fork, branch)) = self.path_to_fork(&chain, tip.hash)? else { return Ok(None) };
        drop(chain);
        let (node, began) = (self.follow.node, Instant::now());
        let is_late = || {
            if node.stop().is_raised() { Err(NodeError::Stopped) } else { Ok(began.elapsed() >= TIME_LIMIT) }
        };
        let mut dropped = self.follow.index.update()?;
        while dropped.tip() != Some(fork) {
            if dropped.is_full()? || is_late()? || dropped.disconnect()?.is_none() {
                return Ok(None);
            }
        }
        let (parser, mut height, mut blocks) = (dropped.parser(), fork.height, Vec::new());
        for hash in branch {
            let bytes = match node.block(&hash) {
                Ok(_) if is_late()? => return Ok(None),
                Ok(bytes) => bytes,
                Err(NodeError::BlockNotFound { .. } | NodeError::Pruned { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            let block = parser.parse(hash, bytes)?;
            dropped.connect(std::slice::from_ref(&block))?;
            height = height.next();
            blocks.push(BranchBlock { at: Tip { height, hash }, row: dropped.block(height)?, block });
        }
        Ok(Some(blocks))
    }

    /// The newest block of the main chain below a branch, and the hashes of the branch, the lowest first; `None` if it is too
    /// long, or leaves the main chain too far below its tip.
    fn path_to_fork(&self, chain: &Snapshot, mut hash: BlockHash) -> Result<Option<(Tip, Vec<BlockHash>)>, SyncError> {
        let mut branch = Vec::new();
        for _ in 0..=MAX_BRANCH {
            if let Some(place) = chain.block_place(hash)?
                && place.membership == ChainMembership::Main
            {
                let tip = chain.tip().map_or(0, |tip| tip.height.to_u32());
                branch.reverse();
                let is_near = place.height.to_u32().saturating_add(MAX_DEPTH) >= tip;
                return Ok(is_near.then_some((Tip { height: place.height, hash }, branch)));
            }
            branch.push(hash);
            let Some(previous) = self.follow.node.header(&hash)?.and_then(|header| header.previous) else { break };
            hash = previous;
        }
        Ok(None)
    }
}

/// Whether the branch may be stored later: the node does not answer, or what is read for it cannot be read now.
fn is_temporary(error: &SyncError) -> bool {
    match error {
        SyncError::Node(error) => error.is_transient(),
        SyncError::Index(error) => matches!(error, IndexError::RawUnavailable { .. } | IndexError::Unfetched(_)),
        _ => false,
    }
}
