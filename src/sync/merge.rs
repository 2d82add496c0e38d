//! Merges generations in the background, so that freezing makes few files: a thread builds one of several while the loop
//! follows the node. Putting it into force in their place is one small commit.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use tracing::{debug, info};

use super::background::{BackgroundJob, Priority, Retry};
use super::build_log::watch_build;
use super::error::SyncError;
use super::follow::{SyncLoop, Until};
use crate::index::{DueMerge, Index, IndexError, MergeOutcome};

/// What the log says of a build.
struct BuildTexts {
    begins: &'static str,
    ends: &'static str,
    /// What a failure means.
    fails: &'static str,
}

/// Of a merge.
const MERGE: BuildTexts = BuildTexts {
    begins: "merging generations in the background",
    ends: "merged generations",
    fails: "cannot merge generations; they stay as they are",
};
/// Of one generation alone.
const REBUILD: BuildTexts = BuildTexts {
    begins: "building a generation again that a reorganisation shortened",
    ends: "built a shortened generation again",
    fails: "cannot build a shortened generation again; it stays as it is",
};

/// Merging, as far as it is under way.
#[derive(Default)]
pub(super) struct Merger {
    job: Option<MergeJob>,
    merging: Retry,
    /// Of building a shortened generation again, which fails for as long as its blocks cannot be read. Merges do not wait for it.
    rebuilding: Retry,
}

struct MergeJob {
    due: Arc<DueMerge>,
    began: Instant,
    job: BackgroundJob<()>,
}

impl MergeJob {
    /// `yields` to requests: the thread rests while it builds optional tables.
    fn start(due: DueMerge, yields: bool) -> Result<Self, SyncError> {
        let (due, began) = (Arc::new(due), Instant::now());
        let merged = Arc::clone(&due);
        let build = move |stop: &Arc<_>| merged.build(stop, &mut watch_build(yields));
        Ok(Self { due, began, job: BackgroundJob::start("merge", Priority::Low, build)? })
    }
}

impl Merger {
    pub(super) fn is_running(&self) -> bool {
        self.job.is_some()
    }

    /// Ends the thread, if it has not ended, because of this.
    pub(super) fn stop(&mut self, cause: &dyn Display) {
        if let Some(job) = self.job.take_if(|job| !job.job.is_finished()) {
            self.retry(&job.due).postpone(cause, texts(&job.due).fails);
        }
    }

    /// What failed is tried again at once.
    pub(super) fn forget_failures(&mut self) {
        (self.merging, self.rebuilding) = Default::default();
    }

    /// When this may be built again after a failure.
    fn retry(&mut self, due: &DueMerge) -> &mut Retry {
        if is_rebuild(due) { &mut self.rebuilding } else { &mut self.merging }
    }

    /// What is built next, unless it waits after a failure: merges come first.
    fn next_due(&self, index: &Index) -> Result<Option<DueMerge>, IndexError> {
        let merge = if self.merging.is_waiting() { None } else { index.due_merge()? };
        match merge {
            None if !self.rebuilding.is_waiting() => index.due_rebuild(),
            merge => Ok(merge),
        }
    }
}

/// Whether this is one generation, which is built again because a reorganisation shortened it.
fn is_rebuild(due: &DueMerge) -> bool {
    due.count() == 1
}

fn texts(due: &DueMerge) -> &'static BuildTexts {
    if is_rebuild(due) { &REBUILD } else { &MERGE }
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

    fn start_merging(&mut self) -> Result<(), SyncError> {
        // each of them asks for the space that is free when it starts
        let is_other_running = self.freezer.is_running() || self.deriver.is_running();
        if self.follow.freezing.is_none() || is_other_running {
            return Ok(());
        }
        let index = &self.follow.index;
        let Some(due) = self.merger.next_due(index)? else { return Ok(()) };
        // a margin, as following goes on meanwhile
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
