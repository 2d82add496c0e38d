//! Merges generations in the background, so that freezing makes few files: a thread builds one of several while the loop
//! follows the node. Putting it into force in their place is one small commit.

use tracing::{debug, info};

use super::super::error::SyncError;
use super::super::sync_loop::{SyncLoop, Until};
use super::merger::{MergeJob, texts};
use crate::index::MergeOutcome;

impl SyncLoop<'_> {
    /// Merges generations when enough follow each other, a step at a time: puts what the thread built into force, or starts it.
    ///
    /// Errors: reading or writing the index fails. A failure of the thread is logged, and it is started again later.
    pub(super) fn merge_when_due(&mut self) -> Result<(), SyncError> {
        if let Some(job) = self.merger.job.take_if(|job| job.job.is_finished()) {
            self.finish_merging(job)?;
        }
        if self.merger.job.is_none() { self.start_merging() } else { Ok(()) }
    }

    fn start_merging(&mut self) -> Result<(), SyncError> {
        // each of them asks for the space that is free when it starts
        let is_other_running = self.freezer.is_running() || self.deriver.is_running();
        if self.follow.freezing.is_none() || is_other_running {
            return Ok(());
        }
        let index = &self.follow.index;
        let Some(due) = self.merger.next_due(index)? else { return Ok(()) };
        // a margin, as following continues meanwhile
        let required_space = index.required_space().with_build(due.disk_bytes()).plus_a_quarter();
        if let Some(shortage) = required_space.shortage() {
            self.merger.retry(&due).postpone(&shortage, texts(&due).fails);
            return Ok(());
        }
        let (retry, texts) = (self.merger.retry(&due), texts(&due));
        let range = due.range();
        info!(
            first = %range.first,
            last = %range.last.height,
            transactions = range.transactions(),
            generations = due.count(),
            "{}", texts.begins
        );
        match MergeJob::start(due, self.follow.until == Until::Stopped) {
            Ok(job) => self.merger.job = Some(job),
            Err(error) => retry.postpone(&error, texts.fails),
        }
        Ok(())
    }

    fn finish_merging(&mut self, MergeJob { due, began, job }: MergeJob) -> Result<(), SyncError> {
        if let Err(error) = job.join() {
            self.merger.retry(&due).postpone_longer(&error, texts(&due).fails);
            return Ok(());
        }
        match self.follow.index.replace_merged(&due)? {
            MergeOutcome::InForce => {}
            MergeOutcome::NotNeeded => {
                debug!("generations or the tables that are on have changed while they were merged");
                return Ok(());
            }
            MergeOutcome::Unusable(error) => {
                self.merger.retry(&due).postpone_longer(&error, texts(&due).fails);
                return Ok(());
            }
        }
        self.merger.retry(&due).succeed();
        // live rows of a generation that was built again
        if self.follow.index.has_shadowed_rows()? {
            self.freezer.sweep_again();
        }
        self.publish_chain()?;
        let range = due.range();
        info!(
            first = %range.first,
            last = %range.last.height,
            transactions = range.transactions(),
            generations = due.count(),
            seconds = format_args!("{:.1}", began.elapsed().as_secs_f64()),
            "{}", texts(&due).ends
        );
        Ok(())
    }
}
