//! The thread that builds a file of an optional table, and the state of building them.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::super::error::SyncError;
use super::build_log::watch_build;
use super::job::{BackgroundJob, Priority, Retry};
use crate::index::DueTable;

/// What a failure to build means.
pub(super) const CANNOT_BUILD: &str = "cannot build an optional table; lookups that need it fail with NOT_READY";

/// Building optional tables, as far as it is under way.
#[derive(Default)]
pub(in crate::sync) struct Deriver {
    pub(super) job: Option<DeriveJob>,
    pub(in crate::sync) retry: Retry,
    /// Whether live rows are complete, and those of tables that are off are deleted.
    pub(super) is_tended: bool,
    /// Whether live rows have changed since the chain was published.
    pub(super) is_unpublished: bool,
    /// When the progress of compact filters was logged.
    pub(super) filters_logged: Option<Instant>,
}

/// Builds a table in the background. If it is dropped, the next build continues behind its last run.
pub(super) struct DeriveJob {
    pub(super) due: Arc<DueTable>,
    pub(super) began: Instant,
    pub(super) job: BackgroundJob<()>,
}

impl DeriveJob {
    /// `yields` to requests: the thread rests as long as it works.
    pub(super) fn start(due: DueTable, yields: bool) -> Result<Self, SyncError> {
        let (due, began) = (Arc::new(due), Instant::now());
        let table = Arc::clone(&due);
        let build = move |stop: &Arc<AtomicBool>| {
            let mut watch = watch_build(yields);
            table.build(stop, &mut |progress| watch(table.table(), progress))
        };
        Ok(Self { due, began, job: BackgroundJob::start("derive", Priority::Low, build)? })
    }
}

impl Deriver {
    /// Whether the thread runs, or what it built is not in force yet.
    pub(in crate::sync) fn is_running(&self) -> bool {
        self.job.is_some()
    }

    /// Ends the thread, if it has not ended, because of this.
    pub(in crate::sync) fn stop(&mut self, cause: &dyn Display) {
        if self.job.take_if(|job| !job.job.is_finished()).is_some() {
            self.retry.postpone(cause, CANNOT_BUILD);
        }
    }

    /// Whether something is under way that the loop has to go on with.
    pub(in crate::sync) fn is_busy(&self) -> bool {
        !self.is_tended || self.job.is_some()
    }
}
