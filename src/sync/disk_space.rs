//! Waits for free space on the disk of the index.

use std::time::Duration;

use tracing::{error, info, warn};

use super::error::SyncError;
use super::follow::{SyncLoop, Until};
use crate::index::DiskShortage;
use crate::view::SyncState;

/// The interval between checks of a full disk.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl SyncLoop<'_> {
    /// Waits until the disk has space for the next blocks; queries are answered meanwhile. Returns false when the stop
    /// flag is raised. Work in the background that takes disk space is ended first, and its files are removed: it can be done
    /// later, and blocks are followed meanwhile.
    ///
    /// Errors: an earlier write did not reach the disk, as in [`Index::flush_soon`]; [`SyncError::DiskShortage`] with
    /// [`Until::CaughtUp`], as a user waits for the result.
    pub(super) fn wait_for_disk_space(&mut self) -> Result<bool, SyncError> {
        let required_space = self.required_space.take().unwrap_or_else(|| self.follow.index.required_space());
        if let Some(shortage) = required_space.shortage() {
            self.stop_builds(&shortage);
        }
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

    /// Ends what threads build in the background, and removes the files of builds, also those that another process began.
    fn stop_builds(&mut self, shortage: &DiskShortage) {
        self.freezer.stop(shortage);
        self.merger.stop(shortage);
        self.deriver.stop(shortage);
        if let Err(error) = self.follow.index.remove_unfinished_builds() {
            warn!(%error, "cannot remove what is left of work in the background");
        }
    }
}
