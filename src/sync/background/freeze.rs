//! Freezes live blocks in the background: a thread packs them into a generation while the loop follows the node. Putting it
//! into force is one small commit, and the live rows are deleted afterwards, a few at a time.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::super::error::SyncError;
use super::super::sync_loop::SyncLoop;
use super::super::wake::PauseEnd;
use super::freezer::{CANNOT_FREEZE, FreezeJob};
use super::job::Priority;
use crate::index::{ImportEstimate, Index, IndexError, RawStorage, Tip};
use crate::view::SyncPhase;

/// Rows that a commit of the deletion looks at: one takes a few milliseconds.
const SWEPT_ROWS: usize = 2_000;
/// How long rows are deleted at a time at the tip.
pub(in crate::sync) const TIP_SLICE: Duration = Duration::from_millis(20);
/// How long rows are deleted between two commits while the index catches up.
pub(in crate::sync) const CATCH_UP_SLICE: Duration = Duration::from_secs(3);
/// The interval between looks for a block that a client waits for.
const REQUEST_PAUSE: Duration = Duration::from_secs(1);
/// The pause between two times at the tip, which leaves the processors to requests.
const SWEEP_PAUSE: Duration = Duration::from_millis(100);

impl SyncLoop<'_> {
    /// Freezes blocks when enough are live, a step at a time: starts the thread, or puts what it built into force, or deletes
    /// some of the shadowed rows for about this time.
    ///
    /// Errors: reading or writing the index fails. A failure of the thread is logged, and it is started again later.
    pub(in crate::sync) fn freeze_when_due(&mut self, slice: Duration) -> Result<(), SyncError> {
        self.step_in_background(|following| following.freeze_step(slice))
    }

    fn freeze_step(&mut self, slice: Duration) -> Result<(), SyncError> {
        if !self.freezer.is_swept {
            self.sweep(slice)?;
            if !self.freezer.is_swept {
                return Ok(());
            }
        }
        if let Some(positions) = self.follow.freezing.as_ref().and_then(|freezing| freezing.blocks.relocated()) {
            self.record_positions(positions.iter())?;
        }
        if let Some(job) = self.freezer.job.take_if(|job| job.is_finished()) {
            return self.finish_freezing(job);
        }
        if self.freezer.is_tidy && self.freezer.job.is_none() && !self.raw_mover.is_running() {
            self.start_freezing()?;
        }
        if !self.freezer.is_tidy {
            return Ok(());
        }
        // one of both at a time appends to the raw files
        if self.freezer.job.is_none() {
            self.move_raw_blocks()?;
        }
        self.merge_when_due()
    }

    /// Waits for this long, or until the loop is woken or a client waits for a block of a branch. Meanwhile it continues work in
    /// the background, or checks whether any is due if the round skipped that: the next poll may be far away. Returns false when the
    /// stop flag is raised.
    ///
    /// Errors: as [`SyncLoop::freeze_when_due`]; an earlier write did not reach the disk.
    pub(in crate::sync) fn pause(&mut self, pause: Duration) -> Result<bool, SyncError> {
        let (wake, stop) = (self.follow.wake, self.follow.node.stop());
        let began = Instant::now();
        loop {
            let is_working = self.is_working_in_background() || self.is_check_skipped;
            let interval = if is_working { SWEEP_PAUSE } else { REQUEST_PAUSE };
            let remaining = pause.saturating_sub(began.elapsed());
            let end = wake.pause(remaining.min(interval), stop);
            let is_requested = began.elapsed() >= REQUEST_PAUSE && !self.follow.published.requested_blocks().is_empty();
            if end != PauseEnd::Elapsed || remaining <= interval || is_requested {
                return Ok(end != PauseEnd::Stopped);
            }
            if is_working && !self.is_announcing() {
                self.follow.index.ensure_flushing()?;
                if !self.wait_for_disk_space()? {
                    return Ok(false);
                }
                self.freeze_when_due(TIP_SLICE)?;
                self.derive_when_due(TIP_SLICE)?;
                (self.background_checked, self.is_check_skipped) = (Some(Instant::now()), false);
            }
        }
    }

    /// Whether something is under way that the loop has to go on with.
    pub(in crate::sync) fn is_working_in_background(&self) -> bool {
        self.freezer.is_busy() || self.merger.is_running() || self.raw_mover.is_running() || self.deriver.is_busy()
    }

    /// Ends the freezing and merging that is due, because no other loop continues it soon. Returns early when the stop flag is
    /// raised.
    ///
    /// Errors: as [`SyncLoop::freeze_when_due`].
    pub(in crate::sync) fn freeze_to_the_end(&mut self) -> Result<(), SyncError> {
        while !self.follow.node.stop().is_raised() {
            let was_swept = self.freezer.is_swept;
            self.freeze_when_due(Duration::MAX)?;
            if self.freezer.job.is_some() || self.merger.is_running() || self.raw_mover.is_running() {
                // an error means that the flag is raised
                let _ = self.follow.node.stop().sleep(Duration::from_millis(20));
            } else if was_swept && self.freezer.is_swept {
                break;
            }
        }
        Ok(())
    }

    /// Deletes shadowed rows for about this time.
    fn sweep(&mut self, slice: Duration) -> Result<(), SyncError> {
        let began = Instant::now();
        // while the index catches up, a pause would only delay it
        if slice == TIP_SLICE && self.freezer.swept_at.is_some_and(|swept| swept.elapsed() < SWEEP_PAUSE) {
            return Ok(());
        }
        while !self.freezer.is_swept && began.elapsed() < slice && !self.follow.node.stop().is_raised() {
            self.freezer.is_swept = !self.follow.index.sweep(SWEPT_ROWS)?;
        }
        self.freezer.swept_at = Some(Instant::now());
        // a block would wait for the flush, and what a crash brings back is deleted again
        Ok(self.follow.index.delay_flush()?)
    }

    fn start_freezing(&mut self) -> Result<(), SyncError> {
        if self.freezer.retry.is_waiting() {
            return Ok(());
        }
        let (Some(freezing), Some(chain), Some(storage)) = (&self.follow.freezing, &self.chain, self.raw_mover.storage)
        else {
            return Ok(());
        };
        let (tip, frozen) = (chain.tip().map(|tip| tip.height), chain.frozen().map(|frozen| frozen.height));
        let Some(blocks) = tip.and_then(|tip| freezing.bounds.candidates(tip, frozen)) else { return Ok(()) };
        let transactions = chain.transactions_in(blocks.clone())?;
        let is_catching_up = self.follow.published.state().phase == SyncPhase::CatchingUp;
        if !freezing.bounds.are_enough(&blocks) {
            // few large generations cost less than many while blocks come faster than they are frozen; and merging comes first, or
            // there would be more and more of them
            let is_due = !is_catching_up && transactions >= freezing.bounds.transactions;
            if !is_due || self.follow.index.due_merge()?.is_some() {
                return Ok(());
            }
        }
        let (first, last) = blocks.into_inner();
        let path = self.follow.index.freezing_path();
        if let Err(error) = Index::remove_unused(&path) {
            self.freezer.retry.postpone(&error, CANNOT_FREEZE);
            return Ok(());
        }
        let directory = self.follow.index.directory();
        let estimate = ImportEstimate::of(transactions, 0, 1);
        let estimate = match storage {
            RawStorage::Index => {
                let blocks = last.to_u32() - first.to_u32() + 1;
                estimate.with_raw_blocks(blocks.into(), chain.bytes_of_blocks(first..=last)?)
            }
            RawStorage::Node => estimate,
        };
        if let Err(error) = estimate.check(directory, directory) {
            self.freezer.retry.postpone(&error, CANNOT_FREEZE);
            return Ok(());
        }
        info!(first = %first, last = %last, transactions, "freezing blocks in the background");
        let priority = if is_catching_up { Priority::Normal } else { Priority::Low };
        match FreezeJob::start(Arc::clone(chain), first..=last, path, freezing.blocks.clone(), storage, priority) {
            Ok(job) => self.freezer.job = Some(job),
            Err(error) => self.freezer.retry.postpone(&error, CANNOT_FREEZE),
        }
        Ok(())
    }

    fn finish_freezing(&mut self, job: FreezeJob) -> Result<(), SyncError> {
        let FreezeJob { path, began, job } = job;
        let (range, positions) = match job.join() {
            Ok(frozen) => frozen,
            Err(error) => {
                self.freezer.retry.postpone(&error, CANNOT_FREEZE);
                return Ok(());
            }
        };
        // a file that was lost or damaged meanwhile is built again
        if let Err(error) = self.follow.index.last_block_of(&path) {
            self.freezer.retry.postpone(&error, CANNOT_FREEZE);
            return Ok(());
        }
        match self.follow.index.adopt(&path) {
            Ok(_) => {}
            Err(error @ IndexError::NotNext { .. }) => {
                Index::remove_unused(&path)?;
                debug!(%error, "a reorganisation reached blocks that were being frozen");
                return Ok(());
            }
            // the index is as before
            Err(error @ (IndexError::File { .. } | IndexError::RawBlocksMissing { .. })) => {
                self.freezer.retry.postpone(&error, CANNOT_FREEZE);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.freezer.is_swept = false;
        self.record_positions(positions.iter())?;
        let chain = Arc::new(self.follow.index.snapshot()?);
        self.publish(&chain);
        info!(
            first = %range.first,
            last = %range.last.height,
            transactions = range.transactions(),
            seconds = format_args!("{:.1}", began.elapsed().as_secs_f64()),
            "froze blocks"
        );
        Ok(())
    }

    /// Puts complete generations into force that a crash left without a name, if their blocks are still in the node's chain,
    /// and removes those that a reorganisation left. What is not a generation of this index is not touched.
    ///
    /// Errors: the node fails, and the next call continues; reading or writing the index fails.
    pub(in crate::sync) fn adopt_left_generations(&mut self) -> Result<(), SyncError> {
        if self.freezer.is_tidy {
            return Ok(());
        }
        for path in self.follow.index.unnamed_generations()? {
            match self.follow.index.last_block_of(&path) {
                Ok(last) => self.adopt_or_remove(&path, last)?,
                Err(error) => {
                    warn!(path = %path.display(), %error, "a generation is not used; remove it if no other index needs it");
                }
            }
        }
        if let Err(error) = Index::remove_unused(&self.follow.index.merging_path()) {
            warn!(%error, "cannot remove what is left of a merge");
        }
        self.remove_unused_tables()?;
        self.freezer.is_tidy = true;
        Ok(())
    }

    fn adopt_or_remove(&mut self, path: &Path, last: Tip) -> Result<(), SyncError> {
        if self.follow.node.block_hash(last.height)? == Some(last.hash) {
            match self.follow.index.adopt(path) {
                Ok(tip) => {
                    info!(height = %tip.height, "a generation that was complete is in force");
                    self.freezer.is_swept = false;
                    return self.publish_chain();
                }
                Err(error @ (IndexError::NotNext { .. } | IndexError::RawBlocksMissing { .. })) => debug!(%error),
                Err(error) => return Err(error.into()),
            }
        }
        info!(path = %path.display(), "removing a generation that is not used: its blocks are in others or left the chain, or their raw bytes are missing");
        Ok(Index::remove_unused(path)?)
    }
}
