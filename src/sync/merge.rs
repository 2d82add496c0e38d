//! Merges generations in the background, so that freezing makes few files: a thread builds one of several while the loop
//! follows the node. Putting it into force in their place is one small commit.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::background::BackgroundJob;
use super::error::SyncError;
use super::follow::SyncLoop;
use crate::index::{DueMerge, Index, IndexError};

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_mins(10);

/// Merging, as far as it is under way.
#[derive(Default)]
pub(super) struct Merger {
    job: Option<MergeJob>,
    /// No job is started before.
    pub(super) retry_at: Option<Instant>,
}

struct MergeJob {
    due: Arc<DueMerge>,
    began: Instant,
    job: BackgroundJob<()>,
}

impl MergeJob {
    fn start(due: DueMerge) -> Result<Self, SyncError> {
        let (due, began) = (Arc::new(due), Instant::now());
        let merged = Arc::clone(&due);
        Ok(Self { due, began, job: BackgroundJob::start("merge", move |stop| merged.build(stop))? })
    }
}

impl Merger {
    pub(super) fn is_running(&self) -> bool {
        self.job.is_some()
    }
}

impl SyncLoop<'_> {
    /// Merges generations when enough follow each other, a step at a time: puts what the thread built into force, or starts it.
    ///
    /// Errors: the index cannot be read or written. A failure of the thread is logged, and it is started again later.
    pub(super) fn merge_when_due(&mut self) -> Result<(), SyncError> {
        if let Some(job) = self.merger.job.take_if(|job| job.job.is_finished()) {
            self.finish_merging(job)?;
        }
        if self.merger.job.is_none() { self.start_merging() } else { Ok(()) }
    }

    /// Removes the file of a merge that another process began.
    pub(super) fn remove_unfinished_merge(&self) {
        if let Err(error) = Index::remove_unused(&self.follow.index.merging_path()) {
            warn!(%error, "cannot remove what is left of a merge");
        }
    }

    fn start_merging(&mut self) -> Result<(), SyncError> {
        if self.follow.freezing.is_none() || self.merger.retry_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        let index = &self.follow.index;
        let Some(due) = index.due_merge()? else { return Ok(()) };
        if let Some(shortage) = index.required_space().with_table(due.disk_bytes()).shortage() {
            self.postpone_merging(&shortage);
            return Ok(());
        }
        if let Err(error) = Index::remove_unused(&index.merging_path()) {
            self.postpone_merging(&error);
            return Ok(());
        }
        let range = due.range();
        info!(
            first = %range.first,
            last = %range.last.height,
            transactions = range.transactions(),
            generations = due.count(),
            "merging generations in the background"
        );
        match MergeJob::start(due) {
            Ok(job) => self.merger.job = Some(job),
            Err(error) => self.postpone_merging(&error),
        }
        Ok(())
    }

    fn finish_merging(&mut self, MergeJob { due, began, job }: MergeJob) -> Result<(), SyncError> {
        if let Err(error) = job.join() {
            self.postpone_merging(&error);
            return Ok(());
        }
        match self.follow.index.replace_merged(&due) {
            Ok(true) => {}
            Ok(false) => {
                debug!("a reorganisation reached generations that were being merged");
                return Ok(());
            }
            // the index is as before
            Err(error @ IndexError::File { .. }) => {
                self.postpone_merging(&error);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.publish_chain()?;
        let range = due.range();
        info!(
            first = %range.first,
            last = %range.last.height,
            transactions = range.transactions(),
            generations = due.count(),
            seconds = format_args!("{:.1}", began.elapsed().as_secs_f64()),
            "merged generations"
        );
        Ok(())
    }

    fn postpone_merging(&mut self, error: &dyn Display) {
        warn!(%error, again_in = ?RETRY_PAUSE, "cannot merge generations; they stay as they are");
        self.merger.retry_at = Some(Instant::now() + RETRY_PAUSE);
    }
}
