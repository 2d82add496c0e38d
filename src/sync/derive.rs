//! Builds optional tables in the background: a thread makes the file of one generation after another, the oldest first, while
//! the loop follows the node. Live rows are added and deleted by the loop, a few at a time; so are those of the miners of blocks
//! and of their filter headers.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::background::BackgroundJob;
use super::error::SyncError;
use super::follow::{SyncLoop, Until};
use super::progress::LOG_INTERVAL;
use crate::chain::float::to_f64;
use crate::index::{BuildPhase, BuildProgress, DueTable, IndexError, NamedTable};

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_mins(10);
/// Transactions or rows that a commit looks at: one takes a few milliseconds.
const TENDED_ROWS: u32 = 1_000;
/// The longest pause of the thread at a time.
const LONGEST_REST: Duration = Duration::from_millis(200);

/// Building optional tables, as far as it is under way.
#[derive(Default)]
pub(super) struct Deriver {
    job: Option<DeriveJob>,
    /// No job is started before.
    retry_at: Option<Instant>,
    /// Whether live rows are complete, and those of tables that are off are deleted.
    is_tended: bool,
    /// Whether live rows have changed since the chain was published.
    is_unpublished: bool,
    /// When the progress of compact filters was logged.
    filters_logged: Option<Instant>,
}

/// Builds a table in the background. If it is dropped, the next build continues behind its last run.
struct DeriveJob {
    due: Arc<DueTable>,
    began: Instant,
    job: BackgroundJob<()>,
}

impl DeriveJob {
    /// `yields` to requests: the thread rests as long as it works.
    fn start(due: DueTable, yields: bool) -> Result<Self, SyncError> {
        let (due, began) = (Arc::new(due), Instant::now());
        let table = Arc::clone(&due);
        let build = move |stop: &Arc<AtomicBool>| {
            let (mut progress, mut worked) = (BuildLog::new(), Instant::now());
            table.build(stop, &mut |at| {
                progress.report(table.table(), at);
                if yields {
                    thread::sleep(worked.elapsed().min(LONGEST_REST));
                    worked = Instant::now();
                }
            })
        };
        Ok(Self { due, began, job: BackgroundJob::start("derive", build)? })
    }
}

impl Deriver {
    /// Whether something is under way that the loop has to go on with.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_tended || self.job.is_some()
    }
}

/// Logs the progress of a build every ten seconds.
struct BuildLog {
    phase: BuildPhase,
    began: Instant,
    last_line: Instant,
}

impl BuildLog {
    fn new() -> Self {
        let now = Instant::now();
        Self { phase: BuildPhase::Reading, began: now, last_line: now }
    }

    fn report(&mut self, table: &str, progress: BuildProgress) {
        if self.phase != progress.phase {
            (self.phase, self.began) = (progress.phase, Instant::now());
        }
        if self.last_line.elapsed() < LOG_INTERVAL {
            return;
        }
        self.last_line = Instant::now();
        let (rate, seconds_left) = rate_and_seconds_left(progress, self.began.elapsed());
        let BuildProgress { done, total, .. } = progress;
        let percent = format!("{:.1}", 100.0 * to_f64(done) / to_f64(total.max(1)));
        match progress.phase {
            BuildPhase::Reading => info!(
                table,
                transactions = done,
                of = total,
                %percent,
                transactions_per_second = format_args!("{rate:.0}"),
                seconds_left,
                "reading blocks for an optional table"
            ),
            BuildPhase::Writing => info!(
                table,
                rows = done,
                of = total,
                %percent,
                rows_per_second = format_args!("{rate:.0}"),
                seconds_left,
                "writing an optional table"
            ),
        }
    }
}

/// What a phase does a second, and how many seconds it lasts at that rate.
fn rate_and_seconds_left(progress: BuildProgress, elapsed: Duration) -> (f64, Option<u64>) {
    let BuildProgress { done, total, before, .. } = progress;
    let own = done.saturating_sub(before);
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let left = total.saturating_sub(done).saturating_mul(millis).checked_div(own);
    (1_000.0 * to_f64(own) / to_f64(millis), left.map(|left| left.div_ceil(1_000)))
}

impl SyncLoop<'_> {
    /// Works on optional tables a step at a time: adds or deletes live rows for about this time, starts the thread, or puts
    /// what it built into force.
    ///
    /// Errors: the index cannot be read or written. A failure of the thread is logged, and it is started again later.
    pub(super) fn derive_when_due(&mut self, slice: Duration) -> Result<(), SyncError> {
        let is_waiting = self.deriver.retry_at.is_some_and(|at| Instant::now() < at);
        let index = &self.follow.index;
        if !self.deriver.is_tended || (!is_waiting && (index.lacks_miners()? || index.incomplete_filters()?.is_some()))
        {
            self.deriver.is_tended = false;
            return self.tend_tables(slice);
        }
        match self.deriver.job.take_if(|job| job.job.is_finished()) {
            Some(job) => self.finish_deriving(job),
            None if self.deriver.job.is_none() => self.start_deriving(),
            None => Ok(()),
        }
    }

    /// Ends what is due, because no other loop goes on with it soon. Returns early when the stop flag is raised, and after a
    /// failure, which is logged.
    ///
    /// Errors: as [`SyncLoop::derive_when_due`].
    pub(super) fn derive_to_the_end(&mut self) -> Result<(), SyncError> {
        self.deriver.retry_at = None;
        while !self.follow.node.stop().is_raised() && self.deriver.retry_at.is_none() {
            let was_idle = self.deriver.is_tended && self.deriver.job.is_none();
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

    /// Removes files of optional tables that nothing uses.
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
                    self.postpone_deriving(&error);
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
        if !self.freezer.is_tidy() || self.deriver.retry_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        let Some(due) = self.follow.index.due_table()? else { return Ok(()) };
        if let Some(shortage) = self.follow.index.required_space().with_table(due.disk_bytes()).shortage() {
            self.postpone_deriving(&shortage);
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
            Err(error) => self.postpone_deriving(&error),
        }
        Ok(())
    }

    fn finish_deriving(&mut self, job: DeriveJob) -> Result<(), SyncError> {
        let DeriveJob { due, began, job } = job;
        if let Err(error) = job.join() {
            self.postpone_deriving(&error);
            return Ok(());
        }
        match self.follow.index.name_table(&due)? {
            NamedTable::InForce => {}
            NamedTable::NotNeeded => {
                debug!(table = due.table(), "an optional table was built for blocks that left the chain");
                return Ok(());
            }
            NamedTable::Unreadable(error) => {
                self.postpone_deriving(&error);
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

    fn postpone_deriving(&mut self, error: &dyn Display) {
        warn!(%error, again_in = ?RETRY_PAUSE, "cannot build an optional table; lookups that need it fail with NOT_READY");
        self.deriver.retry_at = Some(Instant::now() + RETRY_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_follows_from_what_this_process_did() {
        let after = |done, before, seconds| {
            let progress = BuildProgress { phase: BuildPhase::Reading, done, total: 1_000, before };
            rate_and_seconds_left(progress, Duration::from_secs(seconds))
        };
        let (rate, left) = after(500, 400, 10);
        assert!((rate - 10.0).abs() < 1e-9 && left == Some(50), "{rate} {left:?}");
        assert_eq!(after(400, 400, 10).1, None);
        assert_eq!(after(1_000, 0, 10).1, Some(0));
    }
}
