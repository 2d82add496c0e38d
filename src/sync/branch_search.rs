//! When branches of the node are searched, and which are left out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bitcoin::BlockHash;
use tracing::debug;

use super::error::SyncError;
use super::pause::pause_after;
use crate::node::{ChainTip, ChainTipStatus};

/// The pause after which a branch that could not be stored in time is tried again.
pub(super) const BRANCH_PAUSE: Duration = Duration::from_mins(10);

/// When to look for branches, and which are left out.
pub(super) struct Branches {
    /// Whether there may be branches that the index does not have.
    pub(super) is_due: bool,
    /// When they were last searched for a block that a client waits for.
    pub(super) searched_at: Option<Instant>,
    /// The end of the pause after requests to the node failed, this often in turn.
    pause_until: Option<Instant>,
    pub(super) failures: u32,
    /// Branches that cannot be stored, by the hash of their tip.
    pub(super) left_out: BTreeMap<BlockHash, LeftOut>,
}

/// A branch that cannot be stored.
pub(super) struct LeftOut {
    /// What the node had of it.
    status: ChainTipStatus,
    /// Until when; `None` as long as the node has no more of it.
    until: Option<Instant>,
}

impl Default for Branches {
    /// Due, as the node may have changed its chain before the start.
    fn default() -> Self {
        Self { is_due: true, searched_at: None, pause_until: None, failures: 0, left_out: BTreeMap::new() }
    }
}

impl Branches {
    /// Notes a change of the chain. If it is more than the next block, the node may have left a branch in between.
    pub(super) fn note_change(&mut self, disconnected: usize, connected: usize) {
        self.is_due |= (disconnected, connected) != (0, 1);
    }

    pub(super) fn is_pausing(&self) -> bool {
        self.pause_until.is_some_and(|until| Instant::now() < until)
    }

    /// Begins the pause after the node failed.
    pub(super) fn pause(&mut self, error: &SyncError) {
        let again_in = pause_after(self.failures);
        debug!(%error, ?again_in, "the node's branches cannot be read now");
        self.pause_until = Some(Instant::now() + again_in);
        self.failures = self.failures.saturating_add(1);
        self.is_due = true;
    }

    pub(super) fn leave_out(&mut self, branch: &ChainTip, pause: Option<Duration>) {
        let until = pause.map(|pause| Instant::now() + pause);
        self.left_out.insert(branch.hash, LeftOut { status: branch.status, until });
    }

    /// Forgets what may be tried again.
    pub(super) fn end_pauses(&mut self) {
        let (before, now) = (self.left_out.len(), Instant::now());
        self.left_out.retain(|_, left_out| left_out.until.is_none_or(|until| now < until));
        self.is_due |= self.left_out.len() < before;
    }

    pub(super) fn is_left_out(&self, branch: &ChainTip) -> bool {
        self.left_out.get(&branch.hash).is_some_and(|left_out| left_out.status == branch.status)
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;
    use crate::chain::Height;
    use crate::node::NodeError;

    fn branch(status: ChainTipStatus) -> ChainTip {
        ChainTip { height: Height::from(5), hash: BlockHash::from_byte_array([1; 32]), branch_length: 1, status }
    }

    #[test]
    fn a_branch_is_left_out_until_the_node_has_more_of_it_or_its_pause_ends() {
        let mut branches = Branches { is_due: false, ..Branches::default() };
        let (header, block) = (branch(ChainTipStatus::HeadersOnly), branch(ChainTipStatus::ValidHeaders));
        branches.leave_out(&header, None);
        branches.end_pauses();
        assert!(branches.is_left_out(&header) && !branches.is_left_out(&block) && !branches.is_due);

        branches.leave_out(&block, Some(BRANCH_PAUSE));
        branches.end_pauses();
        assert!(branches.is_left_out(&block) && !branches.is_due);
        branches.leave_out(&block, Some(Duration::ZERO));
        branches.end_pauses();
        assert!(!branches.is_left_out(&block) && branches.is_due);
    }

    #[test]
    fn any_change_but_the_next_block_is_a_reason_to_look() {
        for (disconnected, connected, is_due) in [(0, 1, false), (0, 2, true), (1, 2, true), (1, 1, true), (1, 0, true)]
        {
            let mut branches = Branches { is_due: false, ..Branches::default() };
            branches.note_change(disconnected, connected);
            assert_eq!(branches.is_due, is_due, "{disconnected} and {connected}");
        }
    }

    #[test]
    fn after_a_failure_of_the_node_branches_stay_due_and_wait() {
        let mut branches = Branches { is_due: false, ..Branches::default() };
        branches.pause(&NodeError::BlockNotFound { hash: BlockHash::all_zeros() }.into());
        assert!(branches.is_due && branches.is_pausing());
    }
}
