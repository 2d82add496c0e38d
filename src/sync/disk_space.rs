//! Waits for free space on the disk of the index.

use std::path::Path;
use std::time::Duration;

use tracing::{error, info, warn};

use super::error::SyncError;
use super::sync_loop::{SyncLoop, Until};
use crate::index::{DiskShortage, Index, RequiredSpace};
use crate::view::SyncState;

/// The interval between checks of a full disk.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl SyncLoop<'_> {
    /// Waits until the disk has space for the next blocks; queries are answered meanwhile. Returns false when the stop
    /// flag is raised. What is built in the background ends first, as it can be built later.
    ///
    /// Errors: an earlier write did not reach the disk, as in [`Index::flush_soon`]; [`SyncError::DiskShortage`] with
    /// [`Until::CaughtUp`], as a user waits for the result.
    pub(super) fn wait_for_disk_space(&mut self) -> Result<bool, SyncError> {
        let required_space = self.required_space.take().unwrap_or_else(|| self.follow.index.required_space());
        self.end_builds(&required_space);
        let Some(shortage) = required_space.shortage() else { return Ok(true) };
        if self.follow.until == Until::CaughtUp {
            return Err(SyncError::DiskShortage(shortage));
        }
        // a margin, or small changes on the disk would stop and start the loop all the time
        let required_space = required_space.plus_a_quarter();
        self.handle_node_failure();
        let mut is_logged = false;
        while let Some(shortage) = required_space.shortage() {
            self.follow.published.change_state(|state| SyncState { disk_shortage: Some(shortage), ..state });
            if !is_logged {
                let DiskShortage { needed_bytes, free_bytes, .. } = shortage;
                error!(needed_bytes, free_bytes, "the node is not followed: {shortage}");
                is_logged = true;
            }
            if self.follow.node.stop().sleep(DISK_CHECK_INTERVAL).is_err() {
                return Ok(false);
            }
            // after a failed write no read is reliable, which ends the loop
            self.follow.index.ensure_flushing()?;
            self.release_when_due()?;
        }
        self.follow.published.change_state(|state| SyncState { disk_shortage: None, ..state });
        info!("the disk of the index has enough free space again");
        Ok(true)
    }

    /// Ends what is built in the background, and removes its files, one after the other until the disk has this space. Files
    /// that another process left are removed, too.
    fn end_builds(&mut self, required_space: &RequiredSpace) {
        let Some(shortage) = required_space.shortage() else { return };
        self.merger.stop(&shortage);
        if !self.merger.is_running() {
            remove_build("merging", &self.follow.index.merging_path());
        }
        let Some(shortage) = required_space.shortage() else { return };
        // it continues with what it has read so far
        self.deriver.stop(&shortage);
        self.freezer.stop(&shortage);
        if !self.freezer.is_running() {
            remove_build("freezing", &self.follow.index.freezing_path());
        }
        let Some(shortage) = required_space.shortage() else { return };
        let missing = shortage.needed_bytes.saturating_sub(shortage.free_bytes);
        let tables = self.follow.index.unfinished_tables_path();
        let is_enough = Index::bytes_of_build(&tables).is_ok_and(|bytes| bytes >= missing);
        if is_enough && !self.deriver.is_running() {
            remove_build("building optional tables", &tables);
        }
    }
}

/// Removes a file or a directory of a build, if it is there.
fn remove_build(doing: &str, path: &Path) {
    if !path.exists() {
        return;
    }
    match Index::remove_build(path) {
        Ok(()) => {
            info!(doing, "the disk of the index is short: what work in the background has built so far is removed");
        }
        Err(error) => warn!(%error, doing, "cannot remove what work in the background has built so far"),
    }
}
