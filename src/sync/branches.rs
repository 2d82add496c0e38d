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
use tracing::{debug, info, warn};

use super::branch_search::BRANCH_PAUSE;
use super::error::SyncError;
use super::sync_loop::{SyncLoop, Until};
use crate::chain::Height;
use crate::index::{BlockRow, ChainMembership, ParsedBlock, Patience, Snapshot, Tip, Update};
use crate::node::{ChainTip, ChainTipStatus, NodeError};

/// The most blocks from the fork up to the tip of the main chain, and so the most that are disconnected. Deeper branches are
/// not stored.
const MAX_DEPTH: u32 = 100;
/// The most blocks of a branch.
const MAX_BRANCH: u32 = 16;
/// The time after which no further step begins. No block is connected meanwhile.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// The shortest interval between searches for what clients wait for. The node looks through all its headers for one.
const SEARCH_INTERVAL: Duration = Duration::from_secs(3);

/// A block of a branch, ready to be stored.
struct BranchBlock {
    height: Height,
    row: BlockRow,
    block: ParsedBlock,
}

impl SyncLoop<'_> {
    /// Stores and publishes the node's branches, if there may be new ones, or a client waits for a block of one. The index is at the
    /// node's tip.
    ///
    /// Errors: reading or writing the index fails; the service stops.
    pub(super) fn store_branches_when_due(&mut self) -> Result<(), SyncError> {
        if self.follow.until == Until::CaughtUp || self.withheld.is_some() || self.branches.is_pausing() {
            return Ok(());
        }
        // what a thread waits for here would hold up the main chain
        let stored = Patience::SHORT.scope(|| {
            let branches = self.find_branches()?;
            self.store_branches(&branches)
        });
        match stored {
            Ok(0) => Ok(()),
            Ok(blocks) => {
                info!(blocks, "stored stale blocks that the node has beside its active chain");
                self.follow.index.flush_soon()?;
                self.reannounce()
            }
            Err(error) if !error.is_stop() && (error.is_transient() || matches!(error, SyncError::Node(_))) => {
                self.branches.pause(&error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The branches near the tip that the index does not have, the highest first; none if there is no reason to look for
    /// them.
    fn find_branches(&mut self) -> Result<Vec<ChainTip>, SyncError> {
        let chain = self.follow.index.snapshot()?;
        self.branches.end_pauses();
        let is_due = self.branches.is_due || self.is_branch_requested(&chain)?;
        let Some(tip) = chain.tip().filter(|_| is_due) else { return Ok(Vec::new()) };
        let mut branches = self.follow.node.chain_tips()?;
        (self.branches.is_due, self.branches.failures) = (false, 0);
        self.branches.left_out.retain(|hash, _| branches.iter().any(|branch| branch.hash == *hash));
        branches.retain(|ChainTip { height, branch_length, status, .. }| {
            let is_valid =
                !matches!(status, ChainTipStatus::Active | ChainTipStatus::Invalid | ChainTipStatus::Unknown);
            let fork = height.to_u32().saturating_sub(*branch_length);
            is_valid && is_near(fork.into(), tip) && *branch_length <= MAX_BRANCH
        });
        let mut new = Vec::new();
        for branch in branches {
            if !self.branches.is_left_out(&branch) && chain.block_place(branch.hash)?.is_none() {
                new.push(branch);
            }
        }
        new.sort_unstable_by_key(|branch| Reverse(branch.height));
        Ok(new)
    }

    /// Whether a client waits for a block that the index does not have, and the node has beside its active chain, near its
    /// tip.
    fn is_branch_requested(&mut self, chain: &Snapshot) -> Result<bool, SyncError> {
        if self.branches.searched_at.is_some_and(|searched| searched.elapsed() < SEARCH_INTERVAL) {
            return Ok(false);
        }
        let Some(tip) = chain.tip() else { return Ok(false) };
        for hash in self.follow.published.requested_blocks() {
            if chain.block_place(hash)?.is_some() {
                continue;
            }
            let header = self.follow.node.header(&hash)?.filter(|header| !header.is_active());
            if header.is_some_and(|header| is_near(header.height, tip)) {
                self.branches.searched_at = Some(Instant::now());
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stores branches for a limited time. Those that remain are due in the next round. Returns how many blocks it stored.
    fn store_branches(&mut self, branches: &[ChainTip]) -> Result<usize, SyncError> {
        let (began, mut stored) = (Instant::now(), 0);
        for branch in branches {
            if began.elapsed() >= TIME_LIMIT {
                self.branches.is_due = true;
                break;
            }
            let read = self.read_branch(branch.hash);
            match read.and_then(|blocks| blocks.map_or(Ok(None), |blocks| self.store_branch(blocks))) {
                Ok(Some(0)) => self.branches.leave_out(branch, None),
                Ok(Some(blocks)) => stored += blocks,
                Ok(None) => {
                    debug!(hash = %branch.hash, "a branch of the node takes too much time, memory or disk space");
                    self.branches.leave_out(branch, Some(BRANCH_PAUSE));
                }
                Err(error) if error.is_stop() => return Err(error),
                Err(SyncError::Node(error)) if error.is_transient() => {
                    self.branches.pause(&error.into());
                    break;
                }
                Err(error) => {
                    if matches!(&error, SyncError::Index(error) if error.is_aftermath()) {
                        return Err(error);
                    }
                    warn!(%error, height = branch.height.to_u32(), hash = %branch.hash, "a branch of the node is not stored");
                    self.branches.leave_out(branch, error.is_transient().then_some(BRANCH_PAUSE));
                }
            }
        }
        Ok(stored)
    }

    /// Stores those of these blocks that the index does not have. Returns how many it has kept, none if they are lower than the stale
    /// blocks that are kept; `None` if the disk lacks the space.
    fn store_branch(&mut self, blocks: Vec<BranchBlock>) -> Result<Option<usize>, SyncError> {
        let before = self.follow.index.snapshot()?;
        let (mut new, mut rows) = (Vec::new(), Vec::new());
        for BranchBlock { height, row, block } in blocks {
            if before.block_place(block.hash())?.is_none() {
                new.push(block);
                rows.push((height, row));
            }
        }
        drop(before);
        if new.is_empty() {
            return Ok(Some(0));
        }
        let mut update = self.follow.index.update()?;
        if !update.required_space_for(&new)?.is_free() {
            return Ok(None);
        }
        for (block, (height, row)) in new.iter().zip(&rows) {
            update.store_stale(*height, block, row)?;
        }
        update.commit_non_durable()?;
        let (after, mut kept) = (self.follow.index.snapshot()?, 0);
        for block in &new {
            kept += usize::from(after.block_place(block.hash())?.is_some());
        }
        Ok(Some(kept))
    }

    /// The blocks of a branch up to this one that the node has the bytes of, the lowest first, and their rows; none if it is too
    /// long. `None` if there is not enough time, memory or space on the disk for them now. Changes nothing.
    fn read_branch(&mut self, hash: BlockHash) -> Result<Option<Vec<BranchBlock>>, SyncError> {
        let began = Instant::now();
        let chain = self.follow.index.snapshot()?;
        let Some((fork, branch)) = self.path_to_fork(&chain, hash)? else { return Ok(Some(Vec::new())) };
        drop(chain);
        let node = self.follow.node;
        let is_in_time =
            || if node.stop().is_raised() { Err(NodeError::Stopped) } else { Ok(began.elapsed() < TIME_LIMIT) };
        // fetched before the update, because no earlier commit becomes durable while one is under way
        let mut bodies = Vec::new();
        for hash in branch {
            if !is_in_time()? {
                return Ok(None);
            }
            match node.block(&hash) {
                Ok(bytes) => bodies.push((hash, bytes)),
                Err(NodeError::BlockNotFound { .. } | NodeError::Pruned { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if bodies.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let mut dropped = self.follow.index.update()?;
        let goes_on = |dropped: &Update<'_>, more: &[ParsedBlock]| -> Result<bool, SyncError> {
            Ok(is_in_time()? && !dropped.is_full()? && dropped.required_space_for(more)?.is_free())
        };
        while dropped.tip() != Some(fork) {
            if !goes_on(&dropped, &[])? || dropped.disconnect()?.is_none() {
                return Ok(None);
            }
        }
        let (parser, mut height, mut blocks) = (dropped.parser(), fork.height, Vec::new());
        for (hash, bytes) in bodies {
            let block = parser.parse(hash, bytes)?;
            if !goes_on(&dropped, std::slice::from_ref(&block))? {
                return Ok(None);
            }
            dropped.connect(std::slice::from_ref(&block))?;
            height = height.next();
            blocks.push(BranchBlock { height, row: dropped.block(height)?, block });
        }
        Ok(Some(blocks))
    }

    /// The newest block of the main chain below a branch, and the hashes of the branch, the lowest first; `None` if it is too
    /// long.
    fn path_to_fork(&self, chain: &Snapshot, mut hash: BlockHash) -> Result<Option<(Tip, Vec<BlockHash>)>, SyncError> {
        let mut branch = Vec::new();
        for _ in 0..=MAX_BRANCH {
            if let Some(place) = chain.block_place(hash)?
                && place.membership == ChainMembership::Main
            {
                branch.reverse();
                return Ok(Some((Tip { height: place.height, hash }, branch)));
            }
            branch.push(hash);
            let Some(previous) = self.follow.node.header(&hash)?.and_then(|header| header.previous) else { break };
            hash = previous;
        }
        Ok(None)
    }
}

/// Whether so few blocks are above this height that a branch from there is stored.
fn is_near(height: Height, tip: Tip) -> bool {
    height.to_u32().saturating_add(MAX_DEPTH) >= tip.height.to_u32()
}
