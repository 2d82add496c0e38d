//! The thread that builds one generation of several, and the state of merging.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use super::super::error::SyncError;
use super::build_log::watch_build;
use super::job::{BackgroundJob, Priority, Retry};
use crate::index::{DueMerge, Index, IndexError};

/// What the log says of a build.
pub(super) struct BuildTexts {
    pub(super) begins: &'static str,
    pub(super) ends: &'static str,
    /// What a failure means.
    pub(super) fails: &'static str,
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
pub(in crate::sync) struct Merger {
    pub(super) job: Option<MergeJob>,
    merging: Retry,
    /// Of building a shortened generation again, which fails for as long as its blocks cannot be read. Merges do not wait for it.
    rebuilding: Retry,
}

pub(super) struct MergeJob {
    pub(super) due: Arc<DueMerge>,
    pub(super) began: Instant,
    pub(super) job: BackgroundJob<()>,
}

impl MergeJob {
    /// `yields` to requests: the thread rests while it builds optional tables.
    pub(super) fn start(due: DueMerge, yields: bool) -> Result<Self, SyncError> {
        let (due, began) = (Arc::new(due), Instant::now());
        let merged = Arc::clone(&due);
        let build = move |stop: &Arc<_>| merged.build(stop, &mut watch_build(yields));
        Ok(Self { due, began, job: BackgroundJob::start("merge", Priority::Low, build)? })
    }
}

impl Merger {
    pub(in crate::sync) fn is_running(&self) -> bool {
        self.job.is_some()
    }

    /// Ends the thread, if it has not ended, because of this.
    pub(in crate::sync) fn stop(&mut self, cause: &dyn Display) {
        if let Some(job) = self.job.take_if(|job| !job.job.is_finished()) {
            self.retry(&job.due).postpone(cause, texts(&job.due).fails);
        }
    }

    /// What failed is tried again at once.
    pub(in crate::sync) fn forget_failures(&mut self) {
        (self.merging, self.rebuilding) = Default::default();
    }

    /// When this may be built again after a failure.
    pub(super) fn retry(&mut self, due: &DueMerge) -> &mut Retry {
        if is_rebuild(due) { &mut self.rebuilding } else { &mut self.merging }
    }

    /// What is built next, unless it waits after a failure: merges come first.
    pub(super) fn next_due(&self, index: &Index) -> Result<Option<DueMerge>, IndexError> {
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

pub(super) fn texts(due: &DueMerge) -> &'static BuildTexts {
    if is_rebuild(due) { &REBUILD } else { &MERGE }
}
