//! Builds optional tables in the background: a thread makes the file of one generation after another, the oldest first, while
//! the loop follows the node. Live rows are added and deleted by the loop, a few at a time; so are those of the miners of blocks
//! and of their filter headers.

use std::time::{Duration, Instant};

use tracing::{debug, info};

use super::super::error::SyncError;
use super::super::progress::LOG_INTERVAL;
use super::super::sync_loop::{SyncLoop, Until};
use super::deriver::{CANNOT_BUILD, DeriveJob, Deriver};
use crate::index::{IndexError, NamedTable};

/// Transactions or rows that a commit looks at: one takes a few milliseconds.
const TENDED_ROWS: u32 = 1_000;

impl SyncLoop<'_> {
    /// Works on optional tables a step at a time: adds or deletes live rows for about this time, starts the thread, or puts
    /// what it built into force.
    ///
    /// Errors: reading or writing the index fails. A failure of the thread is logged, and it is started again later.
    pub(in crate::sync) fn derive_when_due(&mut self, slice: Duration) -> Result<(), SyncError> {
        self.step_in_background(|following| following.derive_step(slice))
    }

    fn derive_step(&mut self, slice: Duration) -> Result<(), SyncError> {
        if self.lacks_live_rows()? {
            self.deriver.is_tended = false;
            return self.tend_tables(slice);
        }
        match self.deriver.job.take_if(|job| job.job.is_finished()) {
            Some(job) => self.finish_deriving(job),
            None if self.deriver.job.is_none() => self.start_deriving(),
            None => Ok(()),
        }
    }

    /// Whether live rows are to be added or deleted, and can be.
    fn lacks_live_rows(&self) -> Result<bool, SyncError> {
        let (Deriver { is_tended, retry, .. }, index) = (&self.deriver, &self.follow.index);
        Ok(!is_tended || (!retry.is_waiting() && (index.lacks_miners()? || index.incomplete_filters()?.is_some())))
    }

    /// Ends what is due, because no other loop continues it soon. Returns early when the stop flag is raised, and after a
    /// failure, which is logged.
    ///
    /// Errors: as [`SyncLoop::derive_when_due`].
    pub(in crate::sync) fn derive_to_the_end(&mut self) -> Result<(), SyncError> {
        while !self.follow.node.stop().is_raised() && !self.deriver.retry.has_failed() {
            // the step looks for a table to build only if this holds
            let was_idle = self.deriver.job.is_none() && !self.lacks_live_rows()?;
            self.derive_when_due(Duration::MAX)?;
            match &self.deriver.job {
                Some(job) if !job.job.is_finished() => {
                    // an error means that the flag is raised
                    let _ = self.follow.node.stop().sleep(Duration::from_millis(20));
                }
                None if was_idle => break,
                _ => {}
            }
        }
        // rows of what is in force now
        self.freeze_to_the_end()
    }

    /// Removes files of optional tables that nothing uses, of a merge that another process began as well.
    ///
    /// Errors: the files cannot be listed or removed.
    pub(super) fn remove_unused_tables(&self) -> Result<(), SyncError> {
        for path in self.follow.index.remove_unused_tables()? {
            info!(path = %path.display(), "removing a file of an optional table that is not used");
        }
        Ok(())
    }

    /// Adds or deletes live rows for about this time.
    fn tend_tables(&mut self, slice: Duration) -> Result<(), SyncError> {
        let began = Instant::now();
        let mut has_changed = false;
        while !self.deriver.is_tended && began.elapsed() < slice && !self.follow.node.stop().is_raised() {
            self.deriver.is_tended = match self.follow.index.tend_tables(TENDED_ROWS) {
                Ok(may_be_left) => !may_be_left,
                // the node may return them later
                Err(error @ (IndexError::RawUnavailable { .. } | IndexError::NoRawBlocks { .. })) => {
                    self.deriver.retry.postpone(&error, CANNOT_BUILD);
                    true
                }
                Err(error) => return Err(error.into()),
            };
            has_changed |= !self.deriver.is_tended;
        }
        if has_changed {
            self.follow.index.flush_soon()?;
            self.log_filters()?;
        }
        self.deriver.is_unpublished |= has_changed;
        // lookups of the published chain may be complete
        if self.deriver.is_unpublished && self.deriver.is_tended && self.chain.is_some() {
            self.deriver.is_unpublished = false;
            return self.publish_chain();
        }
        Ok(())
    }

    /// Logs how many blocks have a filter header, if some have none.
    fn log_filters(&mut self) -> Result<(), SyncError> {
        if self.deriver.filters_logged.is_some_and(|logged| logged.elapsed() < LOG_INTERVAL) {
            return Ok(());
        }
        if let Some((blocks, of)) = self.follow.index.incomplete_filters()? {
            info!(blocks, of, "computing compact filters in the background");
            self.deriver.filters_logged = Some(Instant::now());
        }
        Ok(())
    }

    fn start_deriving(&mut self) -> Result<(), SyncError> {
        if !self.freezer.is_tidy() || self.merger.is_running() || self.deriver.retry.is_waiting() {
            return Ok(());
        }
        let Some(due) = self.follow.index.due_table()? else { return Ok(()) };
        if let Some(shortage) = self.follow.index.required_space().with_build(due.disk_bytes()).shortage() {
            self.deriver.retry.postpone(&shortage, CANNOT_BUILD);
            return Ok(());
        }
        let range = due.range();
        info!(
            table = due.table(),
            version = due.version(),
            first = %range.first,
            last = %range.last.height,
            transactions = range.transactions(),
            "building an optional table in the background"
        );
        match DeriveJob::start(due, self.follow.until == Until::Stopped) {
            Ok(job) => self.deriver.job = Some(job),
            Err(error) => self.deriver.retry.postpone(&error, CANNOT_BUILD),
        }
        Ok(())
    }

    fn finish_deriving(&mut self, job: DeriveJob) -> Result<(), SyncError> {
        let DeriveJob { due, began, job } = job;
        if let Err(error) = job.join() {
            self.deriver.retry.postpone(&error, CANNOT_BUILD);
            return Ok(());
        }
        match self.follow.index.name_table(&due)? {
            NamedTable::InForce => {}
            NamedTable::NotNeeded => {
                debug!(table = due.table(), "an optional table was built for blocks that left the chain");
                return Ok(());
            }
            NamedTable::Unreadable(error) => {
                self.deriver.retry.postpone(&error, CANNOT_BUILD);
                return Ok(());
            }
        }
        // live rows of its transactions are deleted
        self.freezer.sweep_again();
        self.publish_chain()?;
        let range = due.range();
        info!(
            table = due.table(),
            first = %range.first,
            last = %range.last.height,
            transactions = range.transactions(),
            seconds = format_args!("{:.1}", began.elapsed().as_secs_f64()),
            "built an optional table"
        );
        Ok(())
    }
}
